#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "formats/zip/zip_writer.h"

/// For tests only: a small archive whose parts can be bent. The program is y = relu(x + w).
namespace downhaul::pt2 {

inline std::string tensor_meta_json(int dtype, std::string_view sizes, std::string_view strides,
                                    int64_t offset = 0) {
  const auto list = [](std::string_view numbers) {
    std::vector<std::string> items;
    if (!numbers.empty()) {
      for (const std::string_view n : split(numbers, ',')) {
        items.push_back(cat("{\"as_int\": ", n, "}"));
      }
    }
    return join(items, ", ");
  };
  return cat("{\"dtype\": ", dtype, ", \"sizes\": [", list(sizes), "], \"requires_grad\": false, ",
             "\"device\": {\"type\": \"cpu\", \"index\": null}, \"strides\": [", list(strides),
             "], \"storage_offset\": {\"as_int\": ", offset, "}, \"layout\": 7}");
}

inline std::string node_json(std::string_view target, std::string_view input,
                             std::string_view output) {
  return cat("{\"target\": \"", target,
             "\", \"inputs\": [{\"name\": \"self\", \"arg\": ", "{\"as_tensor\": {\"name\": \"",
             input, "\"}}, \"kind\": 1}], \"outputs\": ", "[{\"as_tensor\": {\"name\": \"", output,
             "\"}}], \"metadata\": {\"stack_trace\": ",
             "\"  File \\\"m.py\\\"\\n\", \"nn_module_stack\": \"L__self__,,M\"}, ",
             "\"is_hop_single_tensor_return\": null, \"name\": \"", output, "\"}");
}

struct TestArchive {
  std::string program = default_program();
  std::string config =
      cat(R"({"config": {"w": {"path_name": "weight_0", "is_param": true, )",
          R"("use_pickle": false, "tensor_meta": )", tensor_meta_json(7, "2,3", "3,1"), "}}}");
  std::string weight = std::string(24, '\x01');
  std::vector<std::pair<std::string, std::string>> more;  ///< further entries, below the root

  static std::string default_program() {
    const std::string meta = tensor_meta_json(7, "2,3", "3,1");
    return cat(
        R"({"graph_module": {"graph": {"inputs": [{"as_tensor": {"name": "p_w"}}, )",
        R"({"as_tensor": {"name": "x"}}], "outputs": [{"as_tensor": {"name": "relu"}}], "nodes": [)",
        R"({"target": "torch.ops.aten.add.Tensor", "inputs": [{"name": "self", "arg": )",
        R"({"as_tensor": {"name": "x"}}, "kind": 1}, {"name": "other", "arg": {"as_tensor": )",
        R"({"name": "p_w"}}, "kind": 1}, {"name": "alpha", "arg": {"as_float": 0.5}, "kind": 2}], )",
        R"("outputs": [{"as_tensor": {"name": "add"}}], "metadata": {}, "name": "add"}, )",
        node_json("torch.ops.aten.relu.default", "add", "relu"),
        "], \"tensor_values\": {\"p_w\": ", meta, ", \"x\": ", meta, ", \"add\": ", meta,
        ", \"relu\": ", meta,
        R"(}, "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": false}, )",
        R"("signature": {"input_specs": [{"parameter": {"arg": {"name": "p_w"}, )",
        R"("parameter_name": "w"}}, {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}], )",
        R"("output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "relu"}}}}]}, )",
        R"("module_call_graph": []}, "opset_version": {"aten": 10}, "range_constraints": {}, )",
        R"("schema_version": {"major": 8, "minor": 20}, "verifiers": ["ATEN"], )",
        R"("torch_version": "2.13.0", "guards_code": []})");
  }

  /// Replaces every `from`; it must occur.
  static void bend(std::string& text, std::string_view from, std::string_view to) {
    size_t at = text.find(from);
    DH_CHECK(at != std::string::npos);
    for (; at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  TestArchive& bend_program(std::string_view from, std::string_view to) {
    bend(program, from, to);
    return *this;
  }
  TestArchive& bend_config(std::string_view from, std::string_view to) {
    bend(config, from, to);
    return *this;
  }

  std::vector<uint8_t> build(ZipWriter::Options options = {false, 64, true, false}) const {
    ZipWriter out(options);
    out.add("m/data/weights/weight_0", weight);
    out.add("m/data/weights/model_weights_config.json", config);
    out.add("m/data/constants/model_constants_config.json", R"({"config": {}})");
    out.add("m/models/model.json", program);
    for (const auto& [name, content] : more) out.add(cat("m/", name), content);
    out.add("m/byteorder", "little");
    return out.finish();
  }
};

}  // namespace downhaul::pt2
