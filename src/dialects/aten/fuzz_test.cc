// Every row with arguments of every kind: whatever a file says, reading ends in a graph or an
// error.
#include <gtest/gtest.h>

#include <random>

#include "dialects/aten/aten.h"
#include "dialects/aten/table.h"
#include "dialects/aten/test_program.h"
#include "ir/verify.h"

namespace downhaul::aten {
namespace {

class Arguments {
 public:
  explicit Arguments(uint32_t seed) : random_(seed) {}

  size_t below(size_t n) { return random_() % n; }

  int64_t integer() {
    constexpr int64_t kValues[] = {0,  1,  2,  3,  4,   -1,        -2,        7,
                                   16, -5, 32, 64, 127, INT64_MAX, INT64_MIN, int64_t{1} << 40};
    // Small ones most of the time, or nothing gets past the first check.
    return kValues[below(4) == 0 ? below(std::size(kValues)) : below(5)];
  }
  double real() {
    constexpr double kValues[] = {0, 1, 0.5, -1, 1e-5, 1e30, INFINITY, NAN, 2};
    return kValues[below(std::size(kValues))];
  }
  std::string tensor() {
    constexpr const char* kNames[] = {"a", "b", "c", "d", "e", "i", "j", "m", "w", "k"};
    return kNames[below(std::size(kNames))];
  }

  pt2::Argument any() {
    switch (below(16)) {
      case 0:
        return pt2::None{};
      case 1:
      case 2:
        return integer();
      case 3:
        return real();
      case 4:
        return below(2) == 0;
      case 5: {
        constexpr const char* kTexts[] = {"same",    "floor", "reflect", "bij,bjk->bik",
                                          "...i,ij", "ii->i", "",        "none"};
        return std::string(kTexts[below(std::size(kTexts))]);
      }
      case 6:
      case 7: {
        std::vector<int64_t> list(below(6));
        for (int64_t& v : list) v = integer();
        return list;
      }
      case 8: {
        std::vector<pt2::SymIntArg> list(below(5));
        for (pt2::SymIntArg& v : list)
          v = below(2) == 0 ? pt2::SymIntArg{"n", 0} : pt2::SymIntArg{"", integer()};
        return list;
      }
      case 9: {
        pt2::TensorList list;
        for (size_t n = below(9); n > 0; --n) list.names.push_back(tensor());
        return list;
      }
      case 10: {
        pt2::OptionalTensorList list;
        for (size_t n = below(4); n > 0; --n) {
          list.names.push_back(below(2) == 0 ? std::nullopt : std::optional(tensor()));
        }
        return list;
      }
      case 11:
        return static_cast<pt2::ScalarType>(below(14));
      case 12:
        return below(2) == 0 ? pt2::SymIntArg{"n", 0} : pt2::SymIntArg{"twice", 0};
      default:
        return ref(tensor());
    }
  }

 private:
  std::mt19937 random_;
};

TestProgram inputs() {
  TestProgram p;
  p.program().range_constraints["s0"] = {1, 8};
  p.input("a", DType::kF32, Sizes{1, 4, 6, 6}).input("b", DType::kF32, Sizes{2, 3, 4});
  p.input("c", DType::kF32, Sizes{4}).input("d", DType::kF32, Sizes{});
  p.input("e", DType::kF32, {dynamic_dim("s0", 4), fixed_dim(4)});
  p.input("i", DType::kI64, Sizes{2, 2}).input("j", DType::kI64, Sizes{4});
  p.input("m", DType::kBool, Sizes{4});
  p.weight("w", "w", Tensor(DType::kF32, {4, 4}));
  p.weight("k", "k", bool_tensor({4}, {true, false, true, true}), pt2::InputSpec::Kind::kBuffer);
  p.node("aten.sym_size.int", {{"self", ref("e")}, {"dim", integer(0)}}, size("n"));
  p.node("_operator.mul", {{"", size("n")}, {"", integer(2)}}, size("twice"));
  return p;
}

TEST(EveryRow, SurvivesArgumentsOfAnyKind) {
  uint32_t seed = 0;
  int read = 0;
  constexpr int kTries = 40;
  for (const std::string_view overload : all_overloads()) {
    const ParsedRow row = parse_row(*find_row(overload));
    for (int n = 0; n < kTries; ++n) {
      Arguments random(++seed);
      TestProgram p = inputs();
      TestProgram::Args args;
      for (const Parameter& parameter : row.parameters) {
        if (parameter.has_default && random.below(2) == 0) continue;
        // What the argument usually is, so that a good share gets through.
        const bool is_self = args.empty() && random.below(8) != 0;
        args.emplace_back(std::string(parameter.name),
                          is_self ? ref(random.tensor()) : random.any());
      }
      std::string target(overload);
      if (random.below(4) == 0) target.insert(target.rfind('.'), "_");
      p.node(target, std::move(args), refs({"x", "y", "z"}));
      p.output("x");
      const auto imported = p.import();
      if (!imported.ok()) {
        EXPECT_FALSE(imported.status().message().empty());
        continue;
      }
      ++read;
      const Status verified = verify(*imported->graph);
      EXPECT_TRUE(verified.ok()) << overload << " seed " << seed << ": " << verified.message();
    }
  }
  // The arguments are not so wild that only the checks in front are reached.
  EXPECT_GT(read, 200);
}

}  // namespace
}  // namespace downhaul::aten
