#include "dialects/edge/signature.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

namespace downhaul::edge {
namespace {

using Names = std::vector<std::string>;

TEST(Signature, NamesComeBack) {
  const Names names = {"input_ids", "args.0", "with \"quotes\""};
  EXPECT_EQ(decode_input_names(encode_inputs(names, {}), 3), names);
  EXPECT_EQ(decode_output_names(encode_output_names(names), 3), names);
  EXPECT_EQ(decode_output_names(encode_output_names({}), 0), Names{});
}

TEST(Signature, ShapesThatAreNotStaticComeBackWithTheirSymbols) {
  const Dim s(std::make_shared<Symbol>(Symbol{.name = "s0", .min = 1, .max = 6}));
  const Dim b(std::make_shared<Symbol>(Symbol{.name = "b", .min = 2, .max = 8}));
  const std::vector<Shape> shapes = {{b, 3, s * Dim(2) + Dim(1)}, {4}, {s, floor_div(b, 2)}};
  const std::string text = encode_inputs({"x", "y", "z"}, shapes);
  EXPECT_EQ(decode_input_names(text, 3), (Names{"x", "y", "z"}));
  const auto found = decode_input_shapes(text, 3);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ((*found)[0], shapes[0]);
  EXPECT_EQ((*found)[1], std::nullopt);
  EXPECT_EQ((*found)[2], shapes[2]);
  EXPECT_EQ((*found)[0]->at(2).max(), 13);
  EXPECT_FALSE(decode_input_shapes(text, 2));
  EXPECT_FALSE(decode_input_shapes(encode_inputs({"y"}, {{4}}), 1));
}

TEST(Signature, SizesThatMakeNoSenseAreNotStated) {
  const Dim s(std::make_shared<Symbol>(Symbol{.name = "s0", .min = 1, .max = 6}));
  const std::string good = encode_inputs({"x"}, {{s}});
  for (const auto& [from, to] : std::map<std::string, std::string>{{"[1,6]", "[6,1]"},
                                                                   {"[1,6]", "[-1,6]"},
                                                                   {"[1,6]", "[1]"},
                                                                   {"[\"s0\"]", "[\"s1\"]"},
                                                                   {"[\"s0\"]", "[3]"},
                                                                   {"[1,6]", "\"1\""}}) {
    std::string bad = good;
    const size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << good;
    bad.replace(at, from.size(), to);
    EXPECT_FALSE(decode_input_shapes(bad, 1)) << bad;
  }
}

TEST(Signature, AnythingElseKeepsNoNames) {
  EXPECT_FALSE(decode_input_names("", 1));
  EXPECT_FALSE(decode_input_names("[1, {\"type\": null}]", 1));
  EXPECT_FALSE(decode_input_names(encode_inputs({"a", "b"}, {}), 1));
  EXPECT_FALSE(decode_output_names(encode_inputs({"a"}, {}), 1));
  // One positional argument, as exporters write it.
  EXPECT_FALSE(decode_input_names(
      R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [
          {"type": "builtins.tuple", "context": "null", "children_spec": [
            {"type": null, "context": null, "children_spec": []}]},
          {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])",
      1));
}

}  // namespace
}  // namespace downhaul::edge
