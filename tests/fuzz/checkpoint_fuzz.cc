// config.json, a NUL, and a safetensors file, through the builder of models.

#include <cstring>
#include <utility>

#include "fuzz_target.h"
#include "ir/verify.h"
#include "models/models.h"

namespace downhaul {
namespace {

using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

void add_layer(Shapes& out, const std::string& module, int64_t rows, int64_t columns) {
  out.push_back({module + ".weight",
                 columns > 0 ? std::vector<int64_t>{rows, columns} : std::vector<int64_t>{rows}});
  out.push_back({module + ".bias", {rows}});
}

Shapes distilbert() {
  Shapes s = {{"distilbert.embeddings.word_embeddings.weight", {5, 4}},
              {"distilbert.embeddings.position_embeddings.weight", {6, 4}}};
  add_layer(s, "distilbert.embeddings.LayerNorm", 4, 0);
  const std::string at = "distilbert.transformer.layer.0.";
  for (const char* name : {"q_lin", "k_lin", "v_lin", "out_lin"}) {
    add_layer(s, cat(at, "attention.", name), 4, 4);
  }
  add_layer(s, at + "sa_layer_norm", 4, 0);
  add_layer(s, at + "ffn.lin1", 3, 4);
  add_layer(s, at + "ffn.lin2", 4, 3);
  add_layer(s, at + "output_layer_norm", 4, 0);
  add_layer(s, "vocab_transform", 4, 4);
  add_layer(s, "vocab_layer_norm", 4, 0);
  s.push_back({"vocab_projector.bias", {5}});
  return s;
}

Shapes gpt2() {
  Shapes s = {{"wte.weight", {5, 4}}, {"wpe.weight", {6, 4}}};
  add_layer(s, "h.0.ln_1", 4, 0);
  s.insert(s.end(), {{"h.0.attn.c_attn.weight", {4, 12}},
                     {"h.0.attn.c_attn.bias", {12}},
                     {"h.0.attn.c_proj.weight", {4, 4}},
                     {"h.0.attn.c_proj.bias", {4}},
                     {"h.0.mlp.c_fc.weight", {4, 16}},
                     {"h.0.mlp.c_fc.bias", {16}},
                     {"h.0.mlp.c_proj.weight", {16, 4}},
                     {"h.0.mlp.c_proj.bias", {4}}});
  add_layer(s, "h.0.ln_2", 4, 0);
  add_layer(s, "ln_f", 4, 0);
  return s;
}

std::vector<uint8_t> seed(const std::string& config, const Shapes& shapes) {
  std::string header = "{";
  uint64_t at = 0;
  for (const auto& [name, shape] : shapes) {
    uint64_t bytes = 4;
    for (const int64_t size : shape) bytes *= static_cast<uint64_t>(size);
    header += cat(at > 0 ? "," : "", "\"", name, R"(":{"dtype":"F32","shape":[)", join(shape, ","),
                  R"(],"data_offsets":[)", at, ",", at + bytes, "]}");
    at += bytes;
  }
  header += "}";
  const uint64_t length = header.size();
  std::vector<uint8_t> out(config.begin(), config.end());
  out.push_back(0);
  const auto* size = reinterpret_cast<const uint8_t*>(&length);
  out.insert(out.end(), size, size + sizeof(length));
  out.insert(out.end(), header.begin(), header.end());
  out.resize(out.size() + at);
  return out;
}

/// A file without a name, as a path.
class Unnamed {
 public:
  explicit Unnamed(Bytes bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    DH_CHECK(fd_ >= 0);
    DH_CHECK(::write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  Unnamed(const Unnamed&) = delete;
  Unnamed& operator=(const Unnamed&) = delete;
  ~Unnamed() { ::close(fd_); }
  std::string path() const { return cat("/proc/self/fd/", fd_); }

 private:
  int fd_;
};

Result<models::BuiltModel> built(Bytes bytes) {
  const void* end = bytes.empty() ? nullptr : std::memchr(bytes.data(), 0, bytes.size());
  const size_t split = end == nullptr
                           ? bytes.size()
                           : static_cast<size_t>(static_cast<const uint8_t*>(end) - bytes.data());
  const Unnamed config(bytes.first(split));
  const Unnamed weights(bytes.subspan(std::min(split + 1, bytes.size())));
  models::BuildOptions options;
  // Which sizes are open comes from the bytes, so that a file found is a file to reproduce with.
  options.open_sizes = bytes.size() % 2 == 0;
  return models::build_from_files(config.path(), weights.path(), options);
}

}  // namespace

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  const std::vector<std::vector<uint8_t>> seeds = {
      seed(R"({"model_type":"distilbert","architectures":["DistilBertForMaskedLM"],"vocab_size":5,)"
           R"("max_position_embeddings":6,"n_layers":1,"n_heads":2,"dim":4,"hidden_dim":3})",
           distilbert()),
      seed(
          R"({"model_type":"gpt2","vocab_size":5,"n_positions":6,"n_layer":1,"n_head":2,"n_embd":4})",
          gpt2())};
  for (const auto& s : seeds) {
    const auto model = built(s);
    if (!model.ok()) std::fprintf(stderr, "%s\n", model.status().message().c_str());
    DH_CHECK(model.ok());
  }
  return seeds;
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downhaul;
  const auto model = built({data, size});
  if (!model.ok()) {
    check_message(model.status());
    DH_CHECK(model.status().kind() != ErrorKind::kInvalidGraph);
    return 0;
  }
  DH_CHECK(verify(*model->graph).ok());
  return 0;
}
