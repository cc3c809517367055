#include "dialects/aten/aten.h"

#include <gtest/gtest.h>

#include "dialects/aten/test_program.h"
#include "ir/verify.h"

namespace downhaul::aten {
namespace {

using testing::Test;
using Values = std::vector<double>;

#define ASSERT_OK(expr)                                \
  do {                                                 \
    const auto& dh_r = (expr);                         \
    ASSERT_TRUE(dh_r.ok()) << dh_r.status().message(); \
  } while (false)

std::string error_of(const Result<ImportedModel>& r) {
  return r.ok() ? std::string("(no error)") : r.status().message();
}

TEST(Import, HonoursAlpha) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2}).input("y", DType::kF32, Sizes{2});
  p.node("aten.add.Tensor", {{"self", ref("x")}, {"other", ref("y")}, {"alpha", integer(10)}},
         "add");
  p.node("aten.rsub.Scalar", {{"self", ref("x")}, {"other", number(1)}, {"alpha", integer(2)}},
         "rsub");
  p.output("add").output("rsub");
  const auto out = p.run({f32({2}, {1, 2}), f32({2}, {3, 4})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{31, 42}));
  EXPECT_EQ(values((*out)[1]), (Values{-1, -3}));
}

TEST(Import, ReadsWeightsThroughTheirStrides) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{3, 2});
  p.strided_weight("c_c", "c", f32({6}, {0, 1, 2, 3, 4, 5}), {3, 2}, {1, 3});
  p.view_of_last_payload("c_tail", "tail", DType::kF32, {2}, {1}, 4);
  p.node("aten.add.Tensor", {{"self", ref("x")}, {"other", ref("c_c")}}, "y");
  p.node("aten.add.Tensor", {{"self", ref("y")}, {"other", ref("c_tail")}}, "z");
  p.output("y").output("z");
  const auto out = p.run({f32({3, 2}, {0, 0, 0, 0, 0, 0})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values((*out)[1]), (Values{4, 8, 5, 9, 6, 10}));
}

TEST(Import, KeepsTiedWeightsInOneStorage) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.weight("p_a", "a.weight", f32({2}, {1, 2}));
  p.view_of_last_payload("p_b", "b.weight", DType::kF32, {2}, {1});
  p.view_of_last_payload("p_dead", "dead.weight", DType::kF32, {2}, {1});
  p.node("aten.mul.Tensor", {{"self", ref("x")}, {"other", ref("p_a")}}, "y");
  p.node("aten.mul.Tensor", {{"self", ref("y")}, {"other", ref("p_b")}}, "z");
  p.output("z");
  const auto imported = p.import();
  ASSERT_OK(imported);
  const Value* a = imported->graph->find_value("a.weight");
  const Value* b = imported->graph->find_value("b.weight");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(a->constant().storage(), b->constant().storage());
  ASSERT_EQ(imported->unused_weights.size(), 1U);
  EXPECT_EQ(imported->unused_weights[0].name, "dead.weight");
  EXPECT_EQ(imported->unused_weights[0].bytes, 8U);
}

TEST(Import, GivesATensorToTwoUsersAfterAPermute) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{1, 2, 3});
  p.node("aten.permute.default", {{"self", ref("x")}, {"dims", integers({0, 2, 1})}}, "y");
  p.node("aten.reshape.default", {{"self", ref("y")}, {"shape", integers({1, -1})}}, "flat");
  p.node("aten.sum.dim_IntList", {{"self", ref("y")}, {"dim", integers({1})}}, "sums");
  p.output("flat").output("sums");
  const auto out = p.run({f32({1, 2, 3}, {0, 1, 2, 3, 4, 5})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values((*out)[1]), (Values{3, 12}));
}

// --- in-place operators

TEST(InPlace, WritesAreSeenThroughEveryAlias) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{1, 4});
  p.node("aten.mul.Tensor", {{"self", ref("x")}, {"other", number(1)}}, "base");
  p.node("aten.slice.Tensor", {{"self", ref("base")}, {"dim", integer(1)}, {"start", integer(1)}},
         "early");
  p.node("aten.slice.Tensor", {{"self", ref("base")}, {"dim", integer(1)}, {"start", integer(2)}},
         "late");
  p.node("aten.mul_.Tensor", {{"self", ref("late")}, {"other", number(10)}}, "mul_");
  p.node("aten.add_.Tensor", {{"self", ref("base")}, {"other", integer(1)}}, "add_");
  p.node("aten.sum.dim_IntList", {{"self", ref("early")}, {"dim", integers({1})}}, "sums");
  p.node("aten.relu_.default", {{"self", ref("early")}}, "relu_");
  p.output("base").output("sums").output("relu_").output("mul_");
  const auto out = p.run({f32({1, 4}, {-1, 2, -3, 4})});
  ASSERT_OK(out);
  // x = -1 2 -3 4; tail times ten: -1 2 -30 40; plus one: 0 3 -29 41; relu from 1 on: 0 3 0 41
  EXPECT_EQ(values((*out)[0]), (Values{0, 3, 0, 41}));
  EXPECT_EQ(values((*out)[1]), (Values{15}));
  EXPECT_EQ(values((*out)[2]), (Values{3, 0, 41}));
  EXPECT_EQ(values((*out)[3]), (Values{0, 41}));
}

TEST(InPlace, FillsThroughTwoSlicesReachTheBase) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{1});
  p.node("aten.new_zeros.default", {{"self", ref("x")}, {"size", integers({3, 4})}}, "zeros");
  p.node("aten.slice.Tensor",
         {{"self", ref("zeros")},
          {"dim", integer(0)},
          {"start", integer(1)},
          {"end", integer(INT64_MAX)}},
         "rows");
  p.node("aten.slice.Tensor", {{"self", ref("rows")}, {"dim", integer(1)}, {"start", integer(-2)}},
         "corner");
  p.node("aten.fill_.Tensor", {{"self", ref("corner")}, {"value", ref("x")}}, "fill_");
  p.output("zeros");
  const auto out = p.run({f32({1}, {7})});
  // A value of one element and rank 1 broadcasts like one of rank 0.
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{0, 0, 0, 0, 0, 0, 7, 7, 0, 0, 7, 7}));
}

TEST(InPlace, WritesThroughTransposesAndSelectionsComeBack) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2, 3});
  p.node("aten.clone.default", {{"self", ref("x")}}, "base");
  p.node("aten.transpose.int", {{"self", ref("base")}, {"dim0", integer(0)}, {"dim1", integer(1)}},
         "t");
  p.node("aten.select.int", {{"self", ref("t")}, {"dim", integer(0)}, {"index", integer(-1)}},
         "last_column");
  p.node("aten.mul_.Tensor", {{"self", ref("last_column")}, {"other", number(-1)}}, "mul_");
  p.node("aten.view.default", {{"self", ref("base")}, {"size", integers({-1})}}, "flat");
  p.output("flat").output("x").output("t");
  const auto out = p.run({f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{1, 2, -3, 4, 5, -6}));
  EXPECT_EQ(values((*out)[1]), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values((*out)[2]), (Values{1, 4, 2, 5, -3, -6}));
}

TEST(InPlace, AReshapeThatHadToCopyIsNoAlias) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2, 3});
  p.node("aten.clone.default", {{"self", ref("x")}}, "base");
  p.node("aten.t.default", {{"self", ref("base")}}, "t");
  p.describe("t", pt2::ScalarType::kFloat32, {fixed_dim(3), fixed_dim(2)});
  p.graph().tensor_values["t"].strides = {fixed_dim(1), fixed_dim(3)};
  p.node("aten.reshape.default", {{"self", ref("t")}, {"shape", integers({6})}}, "flat");
  p.node("aten.zero_.default", {{"self", ref("flat")}}, "zero_");
  p.output("base");
  const auto out = p.run({f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{1, 2, 3, 4, 5, 6}));
}

TEST(InPlace, KeepsTheDtypeOfWhatIsWritten) {
  TestProgram p;
  p.input("x", DType::kI64, Sizes{2});
  p.node("aten.clone.default", {{"self", ref("x")}}, "base");
  p.node("aten.mul_.Tensor", {{"self", ref("base")}, {"other", integer(3)}}, "mul_");
  p.output("mul_");
  const auto out = p.run({i64({2}, {1, 2})});
  ASSERT_OK(out);
  EXPECT_EQ((*out)[0].dtype(), DType::kI64);
  EXPECT_EQ(values((*out)[0]), (Values{3, 6}));
}

TEST(InPlace, RefusesAWriteThroughAnExpandedView) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{1, 3});
  p.node("aten.clone.default", {{"self", ref("x")}}, "base");
  p.node("aten.expand.default", {{"self", ref("base")}, {"size", integers({2, 3})}}, "wide");
  p.node("aten.zero_.default", {{"self", ref("wide")}}, "zero_");
  p.output("base");
  EXPECT_NE(error_of(p.import()).find("appears several times"), std::string::npos);
}

TEST(State, AWrittenBufferBecomesState) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.weight("b_n", "n", f32({2}, {1, 2}), pt2::InputSpec::Kind::kBuffer);
  p.node("aten.mul.Tensor", {{"self", ref("b_n")}, {"other", number(2)}}, "before");
  p.node("aten.add_.Tensor", {{"self", ref("b_n")}, {"other", ref("x")}}, "add_");
  p.node("aten.add.Tensor", {{"self", ref("b_n")}, {"other", ref("before")}}, "y");
  p.output("y");
  const auto imported = p.import();
  ASSERT_OK(imported);
  ASSERT_EQ(imported->graph->states().size(), 1U);
  EXPECT_EQ(imported->graph->states()[0]->constant().at(1), 2.0);
  ASSERT_EQ(imported->graph->state_updates().size(), 1U);
  EXPECT_TRUE(verify(*imported->graph).ok()) << verify(*imported->graph).message();
  const auto out = evaluate(*imported->graph, {f32({2}, {10, 20})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{13, 26}));
}

TEST(State, TwoBuffersMayTradePlaces) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.weight("b_a", "a", f32({2}, {1, 2}), pt2::InputSpec::Kind::kBuffer);
  p.weight("b_b", "b", f32({2}, {3, 4}), pt2::InputSpec::Kind::kBuffer);
  p.node("aten.clone.default", {{"self", ref("b_a")}}, "before");
  p.node("aten.copy_.default", {{"self", ref("b_a")}, {"src", ref("b_b")}}, "copy_");
  p.node("aten.copy_.default", {{"self", ref("b_b")}, {"src", ref("before")}}, "copy__1");
  p.output("x");
  const auto imported = p.import();
  ASSERT_OK(imported);
  const std::vector<Value*>& states = imported->graph->states();
  const std::vector<StateUpdate>& updates = imported->graph->state_updates();
  ASSERT_EQ(states.size(), 2U);
  ASSERT_EQ(updates.size(), 2U);
  EXPECT_EQ(updates[0].state, states[0]);
  EXPECT_EQ(updates[0].value, states[1]);
  EXPECT_EQ(updates[1].value, states[0]);
}

TEST(State, DecomposedProgramsReturnTheNewContent) {
  TestProgram p;
  p.program().verifiers = {"ATEN"};
  p.input("x", DType::kF32, Sizes{2});
  p.weight("b_n", "n", f32({2}, {1, 2}), pt2::InputSpec::Kind::kBuffer);
  p.node("aten.add.Tensor", {{"self", ref("b_n")}, {"other", ref("x")}}, "add");
  p.node("aten.mul.Tensor", {{"self", ref("b_n")}, {"other", ref("x")}}, "y");
  p.mutation("add", "n").output("y");
  const auto imported = p.import();
  ASSERT_OK(imported);
  ASSERT_EQ(imported->graph->state_updates().size(), 1U);
  EXPECT_EQ(imported->graph->state_updates()[0].value->name(), "add");
  const auto out = evaluate(*imported->graph, {f32({2}, {10, 20})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{10, 40}));
}

TEST(State, AWrittenInputGivesOneMoreOutput) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.node("aten.relu_.default", {{"self", ref("x")}}, "relu_");
  p.node("aten.add.Tensor", {{"self", ref("x")}, {"other", number(1)}}, "y");
  p.output("y");
  const auto imported = p.import();
  ASSERT_OK(imported);
  ASSERT_EQ(imported->graph->outputs().size(), 2U);
  EXPECT_EQ(imported->graph->outputs()[1].name, "x_updated");
  EXPECT_EQ(imported->warnings.size(), 1U);
  const auto out = evaluate(*imported->graph, {f32({2}, {-1, 2})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{1, 3}));
}

// --- errors

TEST(Errors, ListEveryUnknownOperatorWithItsCount) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.node("aten.frobnicate.default", {{"self", ref("x")}}, "a");
  p.node("aten.frobnicate.default", {{"self", ref("a")}}, "b");
  p.node("my.custom.op", {{"self", ref("b")}}, "c");
  p.node("aten.relu.default", {{"self", ref("c")}}, "d");
  p.node("aten.unheard_of.default", {{"self", ref("x")}}, "unused");
  p.output("d");
  const std::string message = error_of(p.import());
  EXPECT_NE(message.find("2 operators are not supported"), std::string::npos) << message;
  EXPECT_NE(message.find("aten.frobnicate.default (2 nodes)"), std::string::npos) << message;
  EXPECT_NE(message.find("my.custom.op (1 node)"), std::string::npos) << message;
  EXPECT_EQ(message.find("unheard_of"), std::string::npos) << message;
}

TEST(Errors, RefuseAnArgumentThatTheRowDoesNotKnow) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.node("aten.relu.default", {{"self", ref("x")}, {"strength", number(2)}}, "y");
  p.output("y");
  EXPECT_NE(error_of(p.import()).find("'strength'"), std::string::npos);
}

TEST(Errors, NameANodeWhoseTypeIsNotWhatTheArchiveStates) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.node("aten.relu.default", {{"self", ref("x")}}, "y");
  p.describe("y", pt2::ScalarType::kFloat32, {fixed_dim(3)});
  p.output("y");
  const std::string message = error_of(p.import());
  EXPECT_NE(message.find("'y' is f32[2], the archive states float32[3]"), std::string::npos)
      << message;
}

TEST(Errors, NameUnsupportedDtypes) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.node("aten.to.dtype", {{"self", ref("x")}, {"dtype", pt2::ScalarType::kComplex64}}, "y");
  p.output("y");
  EXPECT_NE(error_of(p.import()).find("dtype complex64 is not supported"), std::string::npos);
}

TEST(Errors, RefuseDataDependentSizesByName) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{4});
  p.node("aten.gt.Scalar", {{"self", ref("x")}, {"other", integer(0)}}, "mask");
  p.node("aten.index.Tensor", {{"self", ref("x")}, {"indices", refs({"mask"})}}, "y");
  p.output("y");
  EXPECT_NE(error_of(p.import()).find("selection by the mask 'mask'"), std::string::npos);

  TestProgram q;
  q.input("x", DType::kI64, Sizes{});
  q.node("aten.item.default", {{"self", ref("x")}}, size("item"));
  q.node("aten.full.default",
         {{"size", std::vector<pt2::SymIntArg>{{"item", 0}}}, {"fill_value", integer(1)}}, "y");
  q.output("y");
  EXPECT_NE(error_of(q.import()).find("'item'"), std::string::npos) << error_of(q.import());
}

// --- outputs

TEST(Outputs, AreChosenByNameAndTheRestIsNotRead) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.node("aten.relu.default", {{"self", ref("x")}}, "y");
  p.node("aten.frobnicate.default", {{"self", ref("y")}}, "z");
  p.output("y", "out").output("z", "aux");
  EXPECT_FALSE(p.import().ok());
  ImportOptions options;
  options.keep_outputs = {"out"};
  const auto imported = p.import(options);
  ASSERT_OK(imported);
  ASSERT_EQ(imported->graph->outputs().size(), 1U);
  EXPECT_EQ(imported->graph->outputs()[0].name, "out");
  options.keep_outputs = {"nope"};
  EXPECT_NE(error_of(p.import(options)).find("'nope', it has: out, aux"), std::string::npos);
}

TEST(Outputs, WithoutKeysAreNamedByPosition) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2});
  p.node("aten.relu.default", {{"self", ref("x")}}, "y");
  p.output("y").output("x").output(pt2::Argument(pt2::None{}));
  const auto imported = p.import();
  ASSERT_OK(imported);
  ASSERT_EQ(imported->graph->outputs().size(), 2U);
  EXPECT_EQ(imported->graph->outputs()[0].name, "output_0");
  EXPECT_EQ(imported->graph->outputs()[1].name, "output_1");
  EXPECT_TRUE(imported->graph->outputs()[1].value->is_input());
}

// --- sizes

TEST(Sizes, AreEvaluatedWhileReading) {
  TestProgram p;
  p.input("x", DType::kF32, {fixed_dim(1), dynamic_dim("s7", 4), fixed_dim(6)});
  p.program().range_constraints["s7"] = {2, 16};
  p.node("aten.sym_size.int", {{"self", ref("x")}, {"dim", integer(1)}}, size("n"));
  p.node("_operator.mul", {{"", size("n")}, {"", integer(2)}}, size("twice"));
  p.node("_operator.ge", {{"", size("n")}, {"", integer(2)}},
         pt2::Argument(pt2::SymBoolArg{"ge", false}));
  p.node("aten._assert_scalar.default",
         {{"self", pt2::Argument(pt2::SymBoolArg{"ge", false})}, {"assert_msg", text("n >= 2")}},
         pt2::Argument(pt2::None{}));
  p.node(
      "aten.view.default",
      {{"self", ref("x")}, {"size", std::vector<pt2::SymIntArg>{{"", 1}, {"twice", 0}, {"", -1}}}},
      "y");
  p.output("y");
  const auto imported = p.import();
  ASSERT_OK(imported);
  EXPECT_EQ(imported->graph->outputs()[0].value->type().str(), "f32[1,2*s7,3]");
  EXPECT_EQ(imported->graph->nodes().size(), 1U);
  const auto out = evaluate(*imported->graph, {Tensor(DType::kF32, {1, 5, 6})});
  ASSERT_OK(out);
  EXPECT_EQ((*out)[0].sizes(), (Sizes{1, 10, 3}));
}

TEST(Sizes, NeedAnUpperBound) {
  TestProgram p;
  p.input("x", DType::kF32, {dynamic_dim("s7", 4)});
  p.program().range_constraints["s7"] = {2, std::nullopt};
  p.node("aten.relu.default", {{"self", ref("x")}}, "y");
  p.output("y");
  const std::string message = error_of(p.import());
  EXPECT_NE(message.find("input 'x': dimension 0 (s7) has no upper bound"), std::string::npos)
      << message;
}

// --- rows that are not one to one

TEST(Raise, SamePaddingPutsTheExtraElementBehind) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{1, 1, 5, 1});
  p.weight("w", "w", f32({1, 1, 4, 1}, {1, 1, 1, 1}));
  p.node("aten.conv2d.padding",
         {{"input", ref("x")}, {"weight", ref("w")}, {"padding", text("same")}}, "y");
  p.output("y");
  const auto out = p.run({f32({1, 1, 5, 1}, {1, 1, 1, 1, 1})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{3, 4, 4, 3, 2}));
}

TEST(Raise, EinsumContractsTwoOperands) {
  TestProgram p;
  p.input("a", DType::kF32, Sizes{2, 1, 3}).input("b", DType::kF32, Sizes{2, 3, 2});
  p.node("aten.einsum.default", {{"equation", text("bik,bkj->bji")}, {"tensors", refs({"a", "b"})}},
         "y");
  p.node("aten.einsum.default", {{"equation", text("...k,...kj")}, {"tensors", refs({"a", "b"})}},
         "refused");
  p.output("y");
  const auto out = p.run(
      {f32({2, 1, 3}, {1, 2, 3, 4, 5, 6}), f32({2, 3, 2}, {1, 0, 0, 1, 1, 1, 2, 0, 0, 2, 1, 0})});
  ASSERT_OK(out);
  EXPECT_EQ((*out)[0].sizes(), (Sizes{2, 2, 1}));
  EXPECT_EQ(values((*out)[0]), (Values{4, 5, 14, 10}));
}

TEST(Raise, MatmulTakesVectorsOnEitherSide) {
  TestProgram p;
  p.input("v", DType::kF32, Sizes{3}).input("m", DType::kF32, Sizes{3, 2});
  p.node("aten.matmul.default", {{"self", ref("v")}, {"other", ref("m")}}, "vm");
  p.node("aten.t.default", {{"self", ref("m")}}, "t");
  p.node("aten.matmul.default", {{"self", ref("t")}, {"other", ref("v")}}, "mv");
  p.node("aten.matmul.default", {{"self", ref("v")}, {"other", ref("v")}}, "vv");
  p.output("vm").output("mv").output("vv");
  const auto out = p.run({f32({3}, {1, 2, 3}), f32({3, 2}, {1, 2, 3, 4, 5, 6})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{22, 28}));
  EXPECT_EQ(values((*out)[1]), (Values{22, 28}));
  EXPECT_EQ(values((*out)[2]), (Values{14}));
  EXPECT_EQ((*out)[2].rank(), 0);
}

TEST(Raise, AddmmTakesAlphaAndBeta) {
  TestProgram p;
  p.input("b", DType::kF32, Sizes{2}).input("x", DType::kF32, Sizes{1, 2});
  p.weight("w", "w", f32({2, 2}, {1, 2, 3, 4}));
  const TestProgram::Args args = {{"self", ref("b")}, {"mat1", ref("x")}, {"mat2", ref("w")}};
  p.node("aten.addmm.default", args, "plain");
  TestProgram::Args scaled = args;
  scaled.emplace_back("beta", integer(2));
  scaled.emplace_back("alpha", number(0.5));
  p.node("aten.addmm.default", scaled, "scaled");
  p.output("plain").output("scaled");
  const auto out = p.run({f32({2}, {10, 20}), f32({1, 2}, {1, 1})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{14, 26}));
  EXPECT_EQ(values((*out)[1]), (Values{22, 43}));
}

TEST(Raise, ConstantMasksSelect) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2, 3});
  p.weight("m", "m", bool_tensor({3}, {true, false, true}), pt2::InputSpec::Kind::kBuffer);
  p.node(
      "aten.index.Tensor",
      {{"self", ref("x")}, {"indices", pt2::OptionalTensorList{{std::nullopt, std::string("m")}}}},
      "y");
  p.output("y");
  const auto out = p.run({f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{1, 3, 4, 6}));
}

TEST(Raise, DivisionRoundsAsAsked) {
  TestProgram p;
  p.input("x", DType::kI64, Sizes{4});
  const auto mode = [](const char* m) {
    return TestProgram::Args{{"self", ref("x")}, {"other", integer(2)}, {"rounding_mode", text(m)}};
  };
  p.node("aten.div.Tensor_mode", mode("floor"), "floor");
  p.node("aten.div.Tensor_mode", mode("trunc"), "trunc");
  p.node("aten.div.Tensor", {{"self", ref("x")}, {"other", integer(2)}}, "true");
  p.output("floor").output("trunc").output("true");
  const auto out = p.run({i64({4}, {-3, 3, -4, 5})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{-2, 1, -2, 2}));
  EXPECT_EQ(values((*out)[1]), (Values{-1, 1, -2, 2}));
  EXPECT_EQ(values((*out)[2]), (Values{-1.5, 1.5, -2, 2.5}));
  EXPECT_EQ((*out)[2].dtype(), DType::kF32);
}

TEST(Raise, DiffOfBoolsTellsChanges) {
  TestProgram p;
  p.input("x", DType::kI64, Sizes{4});
  p.node("aten.diff.default", {{"self", ref("x")}, {"n", integer(2)}}, "d");
  p.node("aten.ne.Scalar", {{"self", ref("x")}, {"other", integer(1)}}, "b");
  p.node("aten.diff.default", {{"self", ref("b")}}, "changes");
  p.output("d").output("changes");
  const auto out = p.run({i64({4}, {1, 2, 4, 1})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{1, -5}));
  EXPECT_EQ(values((*out)[1]), (Values{1, 0, 1}));
}

TEST(Raise, ScatterWritesAtComputedPlaces) {
  TestProgram p;
  p.input("x", DType::kF32, Sizes{2, 3}).input("i", DType::kI64, Sizes{2, 1});
  p.node("aten.scatter.value",
         {{"self", ref("x")}, {"dim", integer(1)}, {"index", ref("i")}, {"value", number(9)}}, "y");
  p.output("y");
  const auto out = p.run({f32({2, 3}, {1, 2, 3, 4, 5, 6}), i64({2, 1}, {2, 0})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{1, 2, 9, 9, 5, 6}));
}

TEST(Raise, GroupedQueriesShareKeys) {
  TestProgram p;
  p.input("q", DType::kF32, Sizes{1, 2, 1, 1}).input("kv", DType::kF32, Sizes{1, 1, 2, 1});
  p.node("aten.scaled_dot_product_attention.default",
         {{"query", ref("q")}, {"key", ref("kv")}, {"value", ref("kv")}, {"enable_gqa", true}},
         "y");
  p.output("y");
  const auto out = p.run({f32({1, 2, 1, 1}, {0, 0}), f32({1, 1, 2, 1}, {1, 3})});
  ASSERT_OK(out);
  EXPECT_EQ(values((*out)[0]), (Values{2, 2}));
}

}  // namespace
}  // namespace downhaul::aten
