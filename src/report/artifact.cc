#include "report/artifact.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/strings.h"
#include "dialects/aten/aten.h"
#include "dialects/mil/raise.h"
#include "formats/json/json.h"
#include "formats/sniff.h"
#include "formats/spec/spec.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

Result<Artifact> load_pt2(const std::string& path, const LoadOptions& options) {
  aten::ImportOptions import;
  import.keep_outputs = options.keep_outputs;
  DH_ASSIGN(aten::ImportedModel model, aten::import_pt2(path, import));
  Artifact artifact;
  artifact.kind = Artifact::Kind::kPt2;
  artifact.path = path;
  artifact.graph = std::move(model.graph);
  artifact.warnings = std::move(model.warnings);
  artifact.facts = {{"model", model.model_name},
                    {"torch version", model.torch_version},
                    {"schema version", model.schema_version},
                    {"dialect", model.dialect},
                    {"source nodes", cat(model.num_source_nodes)}};
  return artifact;
}

Status keep_outputs(Graph& graph, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::vector<std::string> known;
  for (const Output& o : graph.outputs()) known.push_back(o.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return invalid_argument(
          cat("there is no output '", printable(name), "'; outputs: ", join(known, ", ")));
    }
  }
  for (size_t i = graph.outputs().size(); i-- > 0;) {
    const std::string& name = graph.outputs()[i].name;
    if (std::find(names.begin(), names.end(), name) == names.end()) graph.remove_output(i);
  }
  graph.remove_dead();
  return {};
}

/// A stock file keeps no names, and a program that returns bare tensors has none for its outputs; a
/// model_spec.json beside the file may have them, in call order.
void take_names_from_spec(const std::string& path, Graph& graph) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const std::string spec_path = cat(folder.empty() ? "." : folder, "/model_spec.json");
  if (!file_exists(spec_path)) return;
  const auto spec = read_model_spec(spec_path);
  if (!spec.ok()) return;
  const auto all_named = [](const std::vector<TensorSpec>& list, size_t count) {
    return list.size() == count && std::none_of(list.begin(), list.end(),
                                                [](const TensorSpec& t) { return t.name.empty(); });
  };
  const auto bare = [](const std::string& name) { return name == "output" || name == "output_0"; };
  if (all_named(spec->inputs, graph.inputs().size()) && graph.inputs()[0]->name() == "input_0") {
    for (size_t i = 0; i < spec->inputs.size(); ++i) {
      graph.rename(graph.inputs()[i], spec->inputs[i].name);
    }
  }
  if (all_named(spec->outputs, graph.outputs().size()) && bare(graph.outputs()[0].name)) {
    const std::vector<Output> outputs = graph.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) graph.remove_output(0);
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph.add_output(outputs[i].value, spec->outputs[i].name);
    }
  }
}

Result<Artifact> load_pte(const std::string& path, const LoadOptions& options) {
  DH_ASSIGN(auto mapped, MappedFile::open(path));
  DH_ASSIGN(PteFile file, read_pte(std::move(mapped)));
  auto shared = std::make_shared<const PteFile>(std::move(file));
  auto raised = raise_program(*shared);
  if (!raised.ok()) {
    return std::move(raised).status().with_context(cat("'", printable(path), "'"));
  }
  Artifact artifact;
  artifact.kind = Artifact::Kind::kPte;
  artifact.path = path;
  artifact.graph = std::move(raised->graph);
  artifact.sources = std::move(raised->sources);
  artifact.facts = {{"schema version", cat(shared->version)},
                    {"methods", cat(shared->program.plans.size())}};
  artifact.pte = std::move(shared);
  DH_TRY(keep_outputs(*artifact.graph, options.keep_outputs));
  return artifact;
}

/// "87, 63 constants: einsum 16, conv 14, …", most frequent first.
std::string operations_of(const mil::Function& function) {
  std::map<std::string, int> histogram;
  for (const mil::Operation& o : function.block.operations) ++histogram[o.type];
  const int constants = histogram["const"];
  histogram.erase("const");
  std::vector<std::pair<int, std::string>> rows;
  int count = 0;
  for (const auto& [type, n] : histogram) {
    rows.emplace_back(-n, type);
    count += n;
  }
  std::sort(rows.begin(), rows.end());
  std::vector<std::string> parts;
  for (const auto& [n, type] : rows) parts.push_back(cat(printable(type, 60), " ", -n));
  return cat(count, ", ", constants, " constants: ", join(parts, ", "));
}

Result<Artifact> load_mlpackage(const std::string& path, const LoadOptions& options) {
  DH_ASSIGN(mil::Package package, mil::read_mlpackage(path));
  auto raised = coreml::raise_program(package);
  if (!raised.ok()) {
    return std::move(raised).status().with_context(cat("'", printable(path), "'"));
  }
  Artifact artifact;
  artifact.kind = Artifact::Kind::kMlPackage;
  artifact.path = path;
  artifact.graph = *std::move(raised);
  artifact.facts = {{"specification version", cat(package.model.specification_version)},
                    {"operator set", package.model.program[0].opset},
                    {"functions", cat(package.model.program.size())},
                    {"operations", operations_of(package.model.program[0])},
                    {"model.mlmodel bytes", cat(package.model_bytes)},
                    {"weight.bin bytes", cat(package.weight_bytes)}};
  artifact.mil = std::make_shared<mil::Function>(std::move(package.model.program[0]));
  DH_TRY(keep_outputs(*artifact.graph, options.keep_outputs));
  return artifact;
}

Result<Artifact> load_checkpoint(const std::string& path, const LoadOptions& options) {
  DH_ASSIGN(models::BuiltModel model, models::build_checkpoint(path, options.model));
  Artifact artifact;
  artifact.kind = Artifact::Kind::kCheckpoint;
  artifact.path = path;
  artifact.graph = std::move(model.graph);
  artifact.warnings = std::move(model.warnings);
  artifact.facts = std::move(model.facts);
  artifact.task = std::move(model.task);
  artifact.labels = std::move(model.labels);
  artifact.unused_weights = std::move(model.unused);
  DH_TRY(keep_outputs(*artifact.graph, options.keep_outputs));
  return artifact;
}

struct TypeRow {
  safetensors::DType file;
  DType ir;
};
constexpr TypeRow kTypes[] = {
    {safetensors::DType::kBool, DType::kBool}, {safetensors::DType::kU8, DType::kU8},
    {safetensors::DType::kI8, DType::kI8},     {safetensors::DType::kI16, DType::kI16},
    {safetensors::DType::kI32, DType::kI32},   {safetensors::DType::kI64, DType::kI64},
    {safetensors::DType::kF16, DType::kF16},   {safetensors::DType::kBF16, DType::kBF16},
    {safetensors::DType::kF32, DType::kF32},   {safetensors::DType::kF64, DType::kF64}};

}  // namespace

namespace {

Result<Artifact> load_spec(const std::string& path, const LoadOptions& options) {
  DH_ASSIGN(const ModelSpec spec, read_model_spec(path));
  if (spec.exported_program && !(spec.exported_program->found.empty() && spec.weights)) {
    DH_ASSIGN(const std::string file, require(spec, spec.exported_program, "exported_program"));
    return load_pt2(file, options);
  }
  if (!spec.weights) {
    return invalid_file(cat("'", printable(path),
                            "': it names neither an exported_program nor "
                            "weights"));
  }
  DH_ASSIGN(const std::string file, require(spec, spec.weights, "weights"));
  LoadOptions own = options;
  own.model = build_options(spec, options.model);
  return load_checkpoint(file, own);
}

Result<Artifact> load_by_type(const std::string& path, const LoadOptions& options) {
  constexpr const char* kExpected = "a .pt2, .pte or .mlpackage, or a checkpoint";
  const FileType type = sniff(path);
  switch (type) {
    case FileType::kPt2:
      return load_pt2(path, options);
    case FileType::kMlPackage:
      return load_mlpackage(path, options);
    case FileType::kPte:
      return load_pte(path, options);
    case FileType::kModelSpec:
      return load_spec(path, options);
    case FileType::kUnknown:
    case FileType::kZip:
    case FileType::kEmpty: {
      // The reader of the kind that the name promises says best what is wrong inside.
      if (path.ends_with(".pte")) return load_pte(path, options);
      if (path.ends_with(".pt2")) return load_pt2(path, options);
      if (models::is_checkpoint(path)) return load_checkpoint(path, options);
      return unexpected_file(path, kExpected);
    }
    default:
      if (models::is_checkpoint(path)) return load_checkpoint(path, options);
      return unexpected_file(path, kExpected);
  }
}

}  // namespace

Result<Artifact> load_artifact(const std::string& path, const LoadOptions& options) {
  auto artifact = load_by_type(path, options);
  if (artifact.ok()) {
    take_names_from_spec(path, *artifact->graph);
    return artifact;
  }
  if (options.keep_outputs.empty() || artifact.status().kind() != ErrorKind::kInvalidArgument) {
    return artifact;
  }
  // The names may be those of the spec, which are shown wherever the file has none of its own.
  LoadOptions all = options;
  all.keep_outputs.clear();
  artifact = load_by_type(path, all);
  if (!artifact.ok()) return artifact;
  take_names_from_spec(path, *artifact->graph);
  if (Status kept = keep_outputs(*artifact->graph, options.keep_outputs); !kept.ok()) {
    return std::move(kept).with_context(cat("'", printable(path), "'"));
  }
  return artifact;
}

models::BuildOptions build_options(const ModelSpec& spec, models::BuildOptions options) {
  if (options.model_id.empty()) options.model_id = spec.model_id;
  // The head `mlm` of a fill-mask spec is the form that the task wants: one row of logits.
  if (options.head.empty() || (options.head == "mlm" && spec.task == "fill-mask")) {
    options.head = models::head_of_task(spec.task);
    const bool hidden = !spec.outputs.empty() && spec.outputs[0].name == "last_hidden_state";
    if (hidden) options.head = "base";
    if (spec.task == "fill-mask-all") options.head = "mlm";
  }
  if (!options.seq_len && spec.seq_len) options.seq_len = {*spec.seq_len, *spec.seq_len};
  if (!options.batch && spec.batch) options.batch = {*spec.batch, *spec.batch};
  if (!options.mask_token_id) {
    if (const JsonValue* id = spec.document.find("mask_token_id")) {
      options.mask_token_id = id->as_int();
    }
  }
  if (!spec.inputs.empty()) {
    const std::vector<int64_t>& shape = spec.inputs[0].shape;
    if (!options.image && shape.size() == 4) options.image = {{shape[2], shape[3]}};
    if (shape.size() == 4 && !options.batch) options.batch = {shape[0], shape[0]};
    if (shape.size() == 3) options.choices = shape[1];
  }
  const auto names = [](const std::vector<TensorSpec>& list, std::vector<std::string>& out) {
    for (const TensorSpec& t : list) {
      if (t.name.empty()) return out.clear();
      out.push_back(t.name);
    }
  };
  if (options.input_names.empty()) names(spec.inputs, options.input_names);
  if (options.output_names.empty()) names(spec.outputs, options.output_names);
  return options;
}

Result<NamedTensors> read_tensors(const std::string& path) {
  DH_ASSIGN(const safetensors::File file, safetensors::read(path));
  NamedTensors out;
  for (const safetensors::TensorInfo& info : file.tensors()) {
    const auto row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const TypeRow& r) { return r.file == info.dtype; });
    if (row == std::end(kTypes)) {
      return unsupported(cat("'", printable(path), "': tensor '", printable(info.name),
                             "' has element type ", safetensors::name(info.dtype)));
    }
    auto storage = Storage::map(file.mapped(), info.offset, info.size);
    out.emplace_back(info.name, Tensor(row->ir, info.shape, std::move(storage), 0));
  }
  return out;
}

Status write_tensors(const std::string& path, const NamedTensors& tensors) {
  std::vector<safetensors::Writer::Declaration> declarations;
  for (const auto& [name, tensor] : tensors) {
    const auto row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const TypeRow& r) { return r.ir == tensor.dtype(); });
    declarations.push_back({name, row->file, tensor.sizes()});
  }
  DH_ASSIGN(auto writer, safetensors::Writer::create(path, std::move(declarations)));
  for (const auto& [name, tensor] : tensors) DH_TRY(writer.append(tensor.bytes()));
  return writer.commit();
}

namespace {

/// Appends the leaves of nested lists and finds the sizes. Depth is bounded by the JSON reader.
Status flatten(const JsonValue& value, size_t depth, Sizes& sizes,
               std::vector<const JsonValue*>& leaves) {
  if (!value.is_array()) {
    if (!value.is_number() && !value.is_bool()) {
      return invalid_file(cat("expected a number, found ", value.kind_name()));
    }
    if (depth != sizes.size()) return invalid_file("the lists are ragged");
    leaves.push_back(&value);
    return {};
  }
  const auto count = static_cast<int64_t>(value.elements().size());
  if (depth == sizes.size() && leaves.empty()) sizes.push_back(count);
  if (depth >= sizes.size() || sizes[depth] != count) return invalid_file("the lists are ragged");
  for (const JsonValue& element : value.elements())
    DH_TRY(flatten(element, depth + 1, sizes, leaves));
  return {};
}

Result<Tensor> tensor_of(const JsonValue& value, DType dtype) {
  Sizes sizes;
  std::vector<const JsonValue*> leaves;
  DH_TRY(flatten(value, 0, sizes, leaves));
  Tensor t(dtype, sizes);
  if (t.num_elements() != static_cast<int64_t>(leaves.size()))
    return invalid_file("the lists are ragged");
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (leaves[i]->is_bool()) {
      t.set_int(at, *leaves[i]->as_bool() ? 1 : 0);
    } else if (is_float(dtype)) {
      t.set(at, *leaves[i]->as_double());
    } else if (const auto v = leaves[i]->as_int()) {
      t.set_int(at, *v);
      if (t.int_at(at) != *v) return invalid_file(cat(*v, " does not fit ", name(dtype)));
    } else {
      return invalid_file(cat("expected an integer for ", name(dtype)));
    }
  }
  return t;
}

}  // namespace

Result<NamedTensors> read_json_tensors(const std::string& path, const Graph& graph) {
  DH_ASSIGN(const std::string text, read_text_file(path));
  const std::string place = cat("'", printable(path), "'");
  auto document = JsonValue::parse(text);
  if (!document.ok()) return std::move(document).status().with_context(place);
  if (!document->is_object()) {
    return invalid_file(cat(place, ": expected an object, found ", document->kind_name()));
  }
  NamedTensors out;
  for (const auto& [key, value] : document->members()) {
    DType dtype = DType::kF32;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const Value& input = *graph.inputs()[i];
      if (input.name() == key || key == cat(i)) dtype = input.dtype();
    }
    if (graph.inputs().size() == 1) dtype = graph.inputs()[0]->dtype();
    auto tensor = tensor_of(value, dtype);
    if (!tensor.ok()) {
      return std::move(tensor).status().with_context(cat(place, ": '", printable(key), "'"));
    }
    out.emplace_back(key, *std::move(tensor));
  }
  return out;
}

namespace {

/// Integers of another width, where each fits; floats for a program that takes halves, rounded.
/// What else differs is for the program to refuse.
Tensor in_type_of(const Value& input, const Tensor& given) {
  const DType wanted = input.dtype();
  const auto index = [](DType d) { return d == DType::kI32 || d == DType::kI64; };
  if (given.dtype() == wanted) return given;
  if (given.dtype() == DType::kF32 && wanted == DType::kF16) return given.cast(wanted);
  if (!index(given.dtype()) || !index(wanted)) return given;
  Tensor out = given.cast(wanted);
  for (int64_t i = 0; i < given.num_elements(); ++i) {
    if (out.int_at(i) != given.int_at(i)) return given;
  }
  return out;
}

}  // namespace

Result<std::vector<Tensor>> match_inputs(const Graph& graph, const NamedTensors& named) {
  std::map<std::string, const Tensor*, std::less<>> by_name;
  for (const auto& [name, tensor] : named) by_name[name] = &tensor;
  bool positional = named.size() == graph.inputs().size();
  for (size_t i = 0; positional && i < named.size(); ++i) positional = by_name.contains(cat(i));
  // A program that keeps no names takes one input without asking for its name; several must be
  // numbered, since the order in a file of tensors says nothing.
  bool any_known = positional;
  for (const Value* input : graph.inputs())
    any_known = any_known || by_name.contains(input->name());
  std::vector<Tensor> out;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& input = *graph.inputs()[i];
    if (!any_known && named.size() == 1 && graph.inputs().size() == 1) {
      out.push_back(in_type_of(input, named[i].second));
      continue;
    }
    const auto it = by_name.find(positional ? cat(i) : input.name());
    if (it == by_name.end()) {
      std::vector<std::string> given;
      for (const auto& entry : named) given.push_back(printable(entry.first));
      return invalid_argument(cat("input '", input.name(), "' (", input.type().str(),
                                  ") is missing; given: ", join(given, ", "),
                                  ". Keys are the names of the inputs, or 0, 1, … in their order"));
    }
    out.push_back(in_type_of(input, *it->second));
    by_name.erase(it);
  }
  if (any_known && !by_name.empty()) {
    return invalid_argument(
        cat("the model has no input '", printable(by_name.begin()->first), "'"));
  }
  return out;
}

Result<std::vector<Tensor>> read_inputs(const std::string& path, const Graph& graph) {
  const bool text = sniff(path) == FileType::kJson || path.ends_with(".json");
  DH_ASSIGN(const NamedTensors named, text ? read_json_tensors(path, graph) : read_tensors(path));
  auto matched = match_inputs(graph, named);
  if (matched.ok()) return matched;
  // What does not fit is the fault of the file, not of a command line that names it.
  return Status(ErrorKind::kInvalidFile, matched.status().message())
      .with_context(cat("'", printable(path), "'"));
}

namespace {

/// xorshift64*: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t bits() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }

 private:
  uint64_t state_;
};

/// Rows of the smallest table that `value` or a copy of it indexes; `otherwise` when it indexes
/// none.
int64_t index_bound(const Value& value, int64_t otherwise = 2) {
  int64_t bound = INT64_MAX;
  std::vector<const Value*> work = {&value};
  std::set<const Value*> seen;
  while (!work.empty()) {
    const Value* v = work.back();
    work.pop_back();
    if (!seen.insert(v).second) continue;
    for (const Use& use : v->uses()) {
      const Node& n = *use.node;
      if (n.is(ops::kEmbedding) && use.operand == 1) {
        bound = std::min(bound, n.operand(0)->dim(0).min());
      } else if (n.is(ops::kReshape) || n.is(ops::kCast) || n.is(ops::kExpand) ||
                 n.is(ops::kSlice)) {
        work.push_back(n.result());
      }
    }
  }
  return bound == INT64_MAX ? otherwise : std::max<int64_t>(bound, 1);
}

}  // namespace

std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor> out;
  for (const Value* input : graph.inputs()) {
    Tensor t(input->dtype(), max_sizes(input->shape()));
    const int64_t bound = is_float(t.dtype()) ? 0 : index_bound(*input);
    for (int64_t i = 0, n = t.num_elements(); i < n; ++i) {
      const uint64_t bits = random.bits() >> 11;
      if (bound == 0) {
        t.set(i, static_cast<double>(bits) * 0x1p-52 - 1.0);
      } else {
        t.set_int(i, static_cast<int64_t>(bits % static_cast<uint64_t>(bound)));
      }
    }
    out.push_back(std::move(t));
  }
  return out;
}

std::vector<Tensor> masked_inputs(const Graph& graph, uint64_t seed) {
  std::vector<Tensor> out = random_inputs(graph, seed);
  for (size_t i = 0; i < out.size(); ++i) {
    Tensor& t = out[i];
    if (!is_float(t.dtype()) && index_bound(*graph.inputs()[i], 0) == 0) {
      t = Tensor(t.dtype(), t.sizes());
    }
  }
  return out;
}

std::vector<Tensor> structured_inputs(const Graph& graph) {
  std::vector<Tensor> out;
  for (const Value* input : graph.inputs()) {
    Tensor t(input->dtype(), max_sizes(input->shape()));
    const std::vector<int64_t> strides = contiguous_strides(t.sizes());
    const int64_t bound = is_float(t.dtype()) ? 0 : index_bound(*input);
    for (int64_t i = 0, n = t.num_elements(); i < n; ++i) {
      if (bound > 0) {
        t.set_int(i, i % bound);
        continue;
      }
      double phase = 0;
      double rate = 0.37;
      for (size_t d = strides.size(); d-- > 0; rate *= 0.61) {
        phase += rate * static_cast<double>(i / strides[d] % t.sizes()[d]);
      }
      t.set(i, 2 * std::sin(phase));
    }
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace downhaul
