#include <array>

#include "base/strings.h"
#include "formats/pt2/argument_reader.h"
#include "formats/pt2/internal.h"

namespace downhaul::pt2 {
namespace {

constexpr int64_t kSchemaMajor = 8;
constexpr int64_t kSchemaMinor = 20;  // newest that was seen; newer ones are additive
constexpr int64_t kAtenOpset = 10;    // likewise

struct SpecRow {
  std::string_view alternative;
  std::string_view target_key;  ///< member with the dotted name, "" when there is none
};
// In the order of InputSpec::Kind.
constexpr std::array<SpecRow, 7> kInputSpecs = {{
    {"parameter", "parameter_name"},
    {"buffer", "buffer_name"},
    {"tensor_constant", "tensor_constant_name"},
    {"user_input", ""},
    {"constant_input", "name"},
    {"custom_obj", "custom_obj_name"},
    {"token", ""},
}};
// In the order of OutputSpec::Kind.
constexpr std::array<SpecRow, 8> kOutputSpecs = {{
    {"user_output", ""},
    {"buffer_mutation", "buffer_name"},
    {"parameter_mutation", "parameter_name"},
    {"user_input_mutation", "user_input_name"},
    {"loss_output", ""},
    {"gradient_to_parameter", "parameter_name"},
    {"gradient_to_user_input", "user_input_name"},
    {"token", ""},
}};

template <size_t N>
Result<size_t> find_row(const JsonReader& reader, const std::array<SpecRow, N>& rows,
                        std::string_view alternative) {
  for (size_t i = 0; i < N; ++i) {
    if (rows[i].alternative == alternative) return i;
  }
  return reader.error(cat("signature entry '", printable(alternative), "' is not known"));
}

/// `arg` of a signature entry: a whole Argument for user values, else {name, …}.
Status read_spec_arg(JsonReader& reader, bool user, ArgumentReader& arguments, Argument& out) {
  if (user) return arguments.read(reader, out);
  TensorRef ref;
  DH_TRY(reader.object([&](std::string_view key) -> Status {
    return key == "name" ? reader.read(ref.name) : reader.skip();
  }));
  out = std::move(ref);
  return {};
}

class ProgramReader {
 public:
  ProgramReader(const JsonText& json, std::vector<std::string>& warnings)
      : json_(json),
        warnings_(warnings),
        reader_(json.text),
        arguments_(program_, [this] { release_read_pages(); }) {}

  Result<Program> read() {
    DH_TRY(reader_.object([&](std::string_view key) { return read_member(key); }));
    DH_TRY(reader_.finish());
    DH_TRY(check_versions());
    if (!has_graph_) return invalid_file("graph_module.graph is missing");
    if (!has_signature_) return invalid_file("graph_module.signature is missing");
    DH_TRY(read_trees(in_spec_, out_spec_, namedtuple_fields_, program_)
               .with_context("module_call_graph"));
    return std::move(program_);
  }

  Status check_version_only() {
    DH_TRY(reader_.object([&](std::string_view key) -> Status {
      return key == "schema_version" || key == "torch_version" ? read_member(key) : reader_.skip();
    }));
    return check_versions();
  }

 private:
  Status read_member(std::string_view key) {
    if (key == "graph_module") return read_graph_module().with_context("graph_module");
    if (key == "schema_version") {
      has_schema_ = true;
      return read_schema_version().with_context("schema_version");
    }
    if (key == "opset_version") return read_opset().with_context("opset_version");
    if (key == "range_constraints") return read_ranges().with_context("range_constraints");
    if (key == "verifiers") return reader_.read(program_.verifiers);
    if (key == "torch_version") return reader_.read(program_.torch_version);
    if (key == "guards_code") return reader_.read(program_.guards_code);
    return reader_.skip();
  }

  Status read_schema_version() {
    if (reader_.kind() != JsonReader::Kind::kObject) {
      return reader_.error(cat("expected {major, minor} with major ", kSchemaMajor));
    }
    return reader_.object([&](std::string_view key) -> Status {
      if (key == "major") return reader_.read(program_.schema_major);
      if (key == "minor") return reader_.read(program_.schema_minor);
      return reader_.skip();
    });
  }

  Status check_versions() {
    if (!has_schema_) {
      return invalid_file(cat("schema_version is missing, expected ", kSchemaMajor, ".x"));
    }
    if (program_.schema_major != kSchemaMajor) {
      return unsupported(cat("schema version ", program_.schema_major, ".", program_.schema_minor,
                             ", expected ", kSchemaMajor, ".0 to ", kSchemaMajor, ".", kSchemaMinor,
                             " (written by torch ", printable(program_.torch_version, 40), ")"));
    }
    if (program_.schema_minor > kSchemaMinor) {
      warnings_.push_back(cat("schema version ", kSchemaMajor, ".", program_.schema_minor,
                              " is newer than ", kSchemaMajor, ".", kSchemaMinor,
                              ", what it added is ignored"));
    }
    for (const auto& [space, version] : program_.opset_version) {
      if (space == "aten" && version > kAtenOpset) {
        warnings_.push_back(cat("aten opset ", version, " is newer than ", kAtenOpset));
      }
    }
    return {};
  }

  Status read_opset() {
    return reader_.object([&](std::string_view key) -> Status {
      auto& entry = program_.opset_version.emplace_back(std::string(key), 0);
      return reader_.read(entry.second);
    });
  }

  Status read_ranges() {
    return reader_.object([&](std::string_view key) -> Status {
      Range& range = program_.range_constraints[std::string(key)];
      return reader_.object([&](std::string_view bound) -> Status {
        if (bound == "min_val") return reader_.read(range.min);
        if (bound == "max_val") return reader_.read(range.max);
        return reader_.skip();
      });
    });
  }

  Status read_graph_module() {
    return reader_.object([&](std::string_view key) -> Status {
      if (key == "graph") {
        if (has_graph_) return reader_.error("a second graph");
        has_graph_ = true;
        return arguments_.read_graph(reader_, program_.graph).with_context("graph");
      }
      if (key == "signature") {
        if (has_signature_) return reader_.error("a second signature");
        has_signature_ = true;
        return read_signature().with_context("signature");
      }
      if (key == "module_call_graph") return read_module_calls().with_context("module_call_graph");
      if (key == "treespec_namedtuple_fields") return read_namedtuple_fields();
      return reader_.skip();
    });
  }

  Status read_signature() {
    return reader_.object([&](std::string_view key) -> Status {
      if (key == "input_specs") {
        return reader_.array([&]() -> Status {
          InputSpec& spec = program_.inputs.emplace_back();
          return read_spec(kInputSpecs, spec, &spec.persistent);
        });
      }
      if (key == "output_specs") {
        return reader_.array([&]() -> Status {
          return read_spec(kOutputSpecs, program_.outputs.emplace_back(), nullptr);
        });
      }
      return reader_.skip();
    });
  }

  template <size_t N, typename Spec>
  Status read_spec(const std::array<SpecRow, N>& rows, Spec& spec, bool* persistent) {
    return read_union(reader_, [&](std::string_view alternative) -> Status {
      DH_ASSIGN(const size_t row, find_row(reader_, rows, alternative));
      spec.kind = static_cast<typename Spec::Kind>(row);
      const bool user = alternative == "user_input" || alternative == "user_output";
      return reader_.object([&](std::string_view key) -> Status {
        if (key == "arg") return read_spec_arg(reader_, user, arguments_, spec.arg);
        if (key == "value") return arguments_.read(reader_, spec.arg);
        if (key == "persistent" && persistent) return reader_.read(*persistent);
        if (!rows[row].target_key.empty() && key == rows[row].target_key) {
          return reader_.read(spec.target);
        }
        return reader_.skip();
      });
    });
  }

  Status read_module_calls() {
    bool first = true;
    return reader_.array([&]() -> Status {
      // Entry 0 is the model itself; the others describe modules that were kept apart.
      if (!std::exchange(first, false)) return reader_.skip();
      return reader_.object([&](std::string_view key) -> Status {
        if (key != "signature" || reader_.kind() != JsonReader::Kind::kObject) {
          return reader_.skip();
        }
        return reader_.object([&](std::string_view member) -> Status {
          if (member == "in_spec") return reader_.read(in_spec_);
          if (member == "out_spec") return reader_.read(out_spec_);
          if (member == "forward_arg_names" && reader_.kind() == JsonReader::Kind::kArray) {
            return reader_.read(program_.forward_arg_names);
          }
          return reader_.skip();
        });
      });
    });
  }

  Status read_namedtuple_fields() {
    return reader_.object([&](std::string_view type) -> Status {
      std::vector<std::string>& names = namedtuple_fields_[std::string(type)];
      return reader_.object([&](std::string_view key) -> Status {
        return key == "field_names" ? reader_.read(names) : reader_.skip();
      });
    });
  }

  /// The JSON of a large model is several times its graph: pages that were read go back at once.
  void release_read_pages() {
    constexpr uint64_t kStep = 4u << 20;
    const uint64_t position = reader_.position();
    if (!json_.file || position < released_ + kStep) return;
    json_.file->release(as_bytes(json_.text).subspan(released_, position - released_));
    released_ = position;
  }

  const JsonText json_;
  std::vector<std::string>& warnings_;
  JsonReader reader_;
  Program program_;
  ArgumentReader arguments_;
  uint64_t released_ = 0;
  bool has_schema_ = false;
  bool has_graph_ = false;
  bool has_signature_ = false;
  std::string in_spec_;
  std::string out_spec_;
  std::unordered_map<std::string, std::vector<std::string>> namedtuple_fields_;
};

}  // namespace

Result<Program> read_program(const JsonText& json, std::vector<std::string>& warnings) {
  auto program = ProgramReader(json, warnings).read();
  if (program.ok()) return program;
  // Other majors differ in structure: then the version is the true reason.
  Status version = ProgramReader(json, warnings).check_version_only();
  return version.ok() || version.kind() != ErrorKind::kUnsupported ? std::move(program).status()
                                                                   : std::move(version);
}

}  // namespace downhaul::pt2
