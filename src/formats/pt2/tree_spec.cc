#include "base/strings.h"
#include "formats/pt2/internal.h"

namespace downhaul::pt2 {
namespace {

using FieldNames = std::unordered_map<std::string, std::vector<std::string>>;

/// Keys when `context` is JSON text of a list of as many strings as there are children, as
/// dictionaries and dataclass-like outputs write it; else empty.
std::vector<std::string> keys_from_context(const JsonValue* context, size_t children) {
  const std::string* text = context ? context->as_string() : nullptr;
  if (!text) return {};
  const auto parsed = JsonValue::parse(*text);
  if (!parsed.ok()) return {};
  // A defaultdict keeps its keys one level further in.
  const JsonValue* inner = parsed->find("dict_context");
  const JsonValue::Array* list = (inner ? *inner : *parsed).as_array();
  if (!list || list->size() != children) return {};
  std::vector<std::string> keys;
  for (const JsonValue& key : *list) {
    if (const std::string* name = key.as_string()) {
      keys.push_back(*name);
    } else if (const auto number = key.as_int()) {
      keys.push_back(cat(*number));
    } else {
      return {};
    }
  }
  return keys;
}

// Recursion is bounded by the depth limit of JsonValue::parse.
Status convert(const JsonValue& json, const FieldNames& fields, TreeSpec& out) {
  const JsonValue* type = json.find("type");
  const JsonValue* children = json.find("children_spec");
  if (!type || !children || !children->is_array()) {
    return invalid_file("tree spec: expected an object with type and children_spec");
  }
  for (const JsonValue& child : children->elements()) {
    TreeSpec sub;
    DH_TRY(convert(child, fields, sub));
    out.children.push_back(std::move(sub));
  }
  if (type->is_null()) {
    if (!out.children.empty()) return invalid_file("tree spec: a leaf with children");
    out.kind = TreeSpec::Kind::kLeaf;
    return {};
  }
  if (!type->is_string()) return invalid_file("tree spec: type is no string");
  out.type = *type->as_string();
  if (out.type == "builtins.tuple") {
    out.kind = TreeSpec::Kind::kTuple;
    return {};
  }
  if (out.type == "builtins.list") {
    out.kind = TreeSpec::Kind::kList;
    return {};
  }
  const JsonValue* context = json.find("context");
  const std::string* class_name = context ? context->as_string() : nullptr;
  if (out.type == "collections.namedtuple" && class_name) {
    out.kind = TreeSpec::Kind::kNamedTuple;
    const auto named = fields.find(*class_name);
    if (named != fields.end() && named->second.size() == out.children.size()) {
      out.keys = named->second;
    }
    return {};
  }
  out.keys = keys_from_context(context, out.children.size());
  out.kind = out.keys.size() == out.children.size() && !out.keys.empty() ? TreeSpec::Kind::kDict
                                                                         : TreeSpec::Kind::kOther;
  if (out.type == "builtins.dict" || out.type == "collections.OrderedDict") {
    if (out.kind != TreeSpec::Kind::kDict && !out.children.empty()) {
      return invalid_file(
          cat("tree spec: a dictionary of ", out.children.size(), " members without as many keys"));
    }
    out.kind = TreeSpec::Kind::kDict;
  }
  return {};
}

Status parse_spec(std::string_view text, const FieldNames& fields, TreeSpec& out) {
  auto parsed = JsonValue::parse(text);
  if (!parsed.ok()) return std::move(parsed).status().with_context("tree spec");
  // [version, tree]
  const JsonValue::Array* list = parsed->as_array();
  if (!list || list->size() != 2) return invalid_file("tree spec: expected [version, tree]");
  return convert((*list)[1], fields, out);
}

constexpr size_t kMaxLeafName = 1024;

/// Appends a name for each leaf: `path` and the way down to it. Bare positions count only below a
/// key. What would become too long starts anew, so that hostile trees stay small.
void leaf_names(const TreeSpec& tree, const std::string& path, bool has_key,
                std::vector<std::string>& out) {
  if (tree.kind == TreeSpec::Kind::kLeaf) {
    out.push_back(has_key ? path : std::string());
    return;
  }
  for (size_t i = 0; i < tree.children.size(); ++i) {
    const bool keyed = i < tree.keys.size();
    const std::string part = keyed ? tree.keys[i] : cat(i);
    if (path.size() + part.size() > kMaxLeafName) {
      leaf_names(tree.children[i], "", false, out);
      continue;
    }
    leaf_names(tree.children[i], path.empty() ? part : cat(path, ".", part), has_key || keyed, out);
  }
}

std::vector<std::string> input_names(const TreeSpec& tree,
                                     const std::vector<std::string>& arg_names) {
  std::vector<std::string> names;
  if (tree.children.size() != 2 || tree.kind != TreeSpec::Kind::kTuple) {
    leaf_names(tree, "", false, names);
    return names;
  }
  const TreeSpec& args = tree.children[0];
  for (size_t i = 0; i < args.children.size(); ++i) {
    const bool named = i < arg_names.size();
    leaf_names(args.children[i], named ? arg_names[i] : "", named, names);
  }
  leaf_names(tree.children[1], "", false, names);
  return names;
}

}  // namespace

Status read_trees(std::string_view in_spec, std::string_view out_spec, const FieldNames& fields,
                  Program& program) {
  size_t inputs = 0;
  for (const InputSpec& input : program.inputs) {
    inputs +=
        input.kind == InputSpec::Kind::kUserInput || input.kind == InputSpec::Kind::kConstantInput;
  }
  size_t outputs = 0;
  for (const OutputSpec& output : program.outputs) {
    outputs += output.kind == OutputSpec::Kind::kUserOutput;
  }
  if (!in_spec.empty()) {
    DH_TRY(parse_spec(in_spec, fields, program.input_tree));
    program.user_input_names = input_names(program.input_tree, program.forward_arg_names);
  }
  if (!out_spec.empty()) {
    DH_TRY(parse_spec(out_spec, fields, program.output_tree));
    leaf_names(program.output_tree, "", false, program.user_output_names);
  }
  // Names are a convenience: a tree of another size than the signature gives none.
  if (program.user_input_names.size() != inputs) program.user_input_names.assign(inputs, "");
  if (program.user_output_names.size() != outputs) program.user_output_names.assign(outputs, "");
  return {};
}

}  // namespace downhaul::pt2
