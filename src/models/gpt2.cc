// GPT-2: pre-norm decoder layers with causal attention; weights of its projections are stored
// [in, out].
#include <cmath>

#include "base/strings.h"
#include "models/text.h"

namespace downhaul::models {
namespace {

struct Gpt2 {
  Setting vocab, positions, layers, heads, dim, inner;
  std::string activation;
  double eps;
  bool tied, scaled, scaled_by_layer;

  explicit Gpt2(Config& c)
      : vocab(c.size({"vocab_size"}, 50257)),
        positions(c.size({"n_positions", "n_ctx", "max_position_embeddings"}, 1024)),
        layers(c.layers({"n_layer", "num_hidden_layers"}, 12)),
        heads(c.size({"n_head", "num_attention_heads"}, 12)),
        dim(c.size({"n_embd", "hidden_size"}, 768)),
        inner(c.size({"n_inner"}, 4 * dim.value)),
        activation(checked_activation(c, "activation_function", "gelu_new")),
        eps(c.positive_real("layer_norm_epsilon", 1e-5)),
        tied(c.flag("tie_word_embeddings", true)),
        scaled(c.flag("scale_attn_weights", true)),
        scaled_by_layer(c.flag("scale_attn_by_inverse_layer_idx", false)) {
    if (!c.has("n_inner")) inner.key = "4*" + dim.key;
    c.require_divides(heads, dim);
    if (c.flag("add_cross_attention", false)) {
      c.fail("key 'add_cross_attention': cross attention is not supported");
    }
  }
  Extent d() const { return {dim.key, dim.value}; }
  Extent v() const { return {vocab.key, vocab.value}; }
};

constexpr const char* kWords = "wte.weight";
constexpr const char* kHead = "lm_head.weight";

/// True where a token may look: at itself and before. Positions are values of the graph, so that an
/// open length needs no table; a fixed one folds to a constant.
Value* causal_mask(Net& net, const TextShape& shape) {
  net.enter("mask");
  Value* places = net.op(ops::kArange, {}, {{"start", Dim(0)}, {"end", shape.length}});
  Value* query = net.reshape(places, {Dim(1), Dim(1), shape.length, Dim(1)});
  Value* key = net.reshape(places, {Dim(1), Dim(1), Dim(1), shape.length});
  return net.op(ops::kLe, {key, query});
}

Value* layer(Job& job, const Gpt2& m, const TextShape& shape, Value* x, Value* mask,
             int64_t index) {
  Net& net = job.net;
  const std::string at = cat("h.", index);
  const int64_t n = m.dim.value;
  Value* y = net.layer_norm(x, at + ".ln_1", m.d(), m.eps);
  y = net.linear_transposed(y, at + ".attn.c_attn", m.d(), {"3*" + m.dim.key, 3 * n});
  net.enter(at + ".attn");
  Value* q = net.slice(y, 2, Dim(0), Dim(n));
  Value* k = net.slice(y, 2, Dim(n), Dim(2 * n));
  Value* v = net.slice(y, 2, Dim(2 * n), Dim(3 * n));
  const int64_t width = n / m.heads.value;
  double scale = m.scaled ? std::pow(static_cast<double>(width), -0.5) : 1.0;
  if (m.scaled_by_layer) scale /= static_cast<double>(index + 1);
  y = attend(net, shape, {m.d(), m.heads.value, scale}, q, k, v, mask);
  y = net.linear_transposed(y, at + ".attn.c_proj", m.d(), m.d());
  net.enter(at);
  Value* h = net.add(y, x);
  const Extent wide{m.inner.key, m.inner.value};
  y = net.layer_norm(h, at + ".ln_2", m.d(), m.eps);
  y = net.activation(net.linear_transposed(y, at + ".mlp.c_fc", m.d(), wide), m.activation);
  y = net.linear_transposed(y, at + ".mlp.c_proj", wide, m.d());
  net.enter(at);
  return net.add(h, y);
}

}  // namespace

Status build_gpt2(Job& job) {
  Config& config = job.config;
  Net& net = job.net;
  const Gpt2 m(config);
  DH_ASSIGN(job.out.head, choose_head(job, {"next-token", "lm", "base"}, "next-token"));
  DH_TRY(config.status());
  DH_ASSIGN(const TextShape shape, text_shape(job, m.positions, m.positions.value));
  if (job.options.token_types) {
    return invalid_argument("--token-types: GPT-2 takes no token types");
  }
  Value* ids = job.graph().add_input(job.input_name(0, "input_ids"),
                                     {DType::kI64, {shape.batch, shape.length}});
  const bool swapped = m.tied && !job.weights.has(kWords) && job.weights.has(kHead);
  Value* words = net.weight(swapped ? kHead : kWords, {m.v(), m.d()});
  Value* table = net.weight("wpe.weight", {{m.positions.key, m.positions.value}, m.d()});
  net.enter("wte");
  Value* x = net.op(ops::kEmbedding, {words, ids});
  net.enter("wpe");
  x = net.add(x, position_rows(net, shape, table, m.d()));
  Value* mask = causal_mask(net, shape);
  for (int64_t i = 0; i < m.layers.value; ++i) x = layer(job, m, shape, x, mask, i);
  x = net.layer_norm(x, "ln_f", m.d(), m.eps);
  job.out.max_length = shape.max_length;
  if (job.out.head == "base") return job.finish({x}, {"last_hidden_state"});
  Value* w = net.constant(job.weights.take_tied(kHead, kWords, m.tied, {m.v(), m.d()}), kHead);
  net.enter("lm_head");
  Value* logits = net.op(ops::kLinear, {x, w, nullptr});
  if (job.out.head == "next-token") logits = net.select(logits, 1, shape.length - Dim(1));
  return job.finish({logits}, {"logits"});
}

}  // namespace downhaul::models
