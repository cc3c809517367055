#include "dialects/edge/signature.h"

#include <gtest/gtest.h>

namespace downhaul::edge {
namespace {

using Names = std::vector<std::string>;

TEST(Signature, NamesComeBack) {
  const Names names = {"input_ids", "args.0", "with \"quotes\""};
  EXPECT_EQ(decode_input_names(encode_input_names(names), 3), names);
  EXPECT_EQ(decode_output_names(encode_output_names(names), 3), names);
  EXPECT_EQ(decode_output_names(encode_output_names({}), 0), Names{});
}

TEST(Signature, AnythingElseKeepsNoNames) {
  EXPECT_FALSE(decode_input_names("", 1));
  EXPECT_FALSE(decode_input_names("[1, {\"type\": null}]", 1));
  EXPECT_FALSE(decode_input_names(encode_input_names({"a", "b"}), 1));
  EXPECT_FALSE(decode_output_names(encode_input_names({"a"}), 1));
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
