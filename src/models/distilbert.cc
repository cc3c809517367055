// DistilBERT, all heads: embeddings, post-norm encoder layers, and what `head` asks for.
#include <cmath>

#include "base/strings.h"
#include "models/text.h"

namespace downhaul::models {
namespace {

constexpr double kEps = 1e-12;  // fixed in the model, not in the configuration

struct DistilBert {
  Setting vocab, positions, layers, heads, dim, hidden;
  std::string activation;
  bool tied = true;

  explicit DistilBert(Config& c)
      : vocab(c.size({"vocab_size"}, 30522)),
        positions(c.size({"max_position_embeddings"}, 512)),
        layers(c.layers({"n_layers", "num_hidden_layers"}, 6)),
        heads(c.size({"n_heads", "num_attention_heads"}, 12)),
        dim(c.size({"dim", "hidden_size"}, 768)),
        hidden(c.size({"hidden_dim"}, 3072)),
        activation(checked_activation(c, "activation", "gelu")),
        tied(c.flag("tie_word_embeddings", true)) {
    c.require_divides(heads, dim);
  }
  Extent d() const { return {dim.key, dim.value}; }
  Extent v() const { return {vocab.key, vocab.value}; }
};

constexpr const char* kWords = "embeddings.word_embeddings.weight";
constexpr const char* kProjector = "vocab_projector.weight";

Value* embeddings(Job& job, const DistilBert& m, const TextInputs& in) {
  Net& net = job.net;
  const bool swapped = m.tied && !job.weights.has(kWords) && job.weights.has(kProjector);
  Value* words = net.weight(swapped ? kProjector : kWords, {m.v(), m.d()});
  Value* table = net.weight("embeddings.position_embeddings.weight",
                            {{m.positions.key, m.positions.value}, m.d()});
  net.enter("embeddings");
  Value* sum =
      net.add(net.op(ops::kEmbedding, {words, in.ids}), position_rows(net, in.shape, table, m.d()));
  return net.layer_norm(sum, "embeddings.LayerNorm", m.d(), kEps);
}

Value* layer(Job& job, const DistilBert& m, const TextInputs& in, Value* x, const std::string& at) {
  Net& net = job.net;
  const std::string attention = at + ".attention";
  Value* q = net.linear(x, attention + ".q_lin", m.d(), m.d());
  Value* k = net.linear(x, attention + ".k_lin", m.d(), m.d());
  Value* v = net.linear(x, attention + ".v_lin", m.d(), m.d());
  net.enter(attention);
  const int64_t width = m.dim.value / m.heads.value;
  const Heads heads{m.d(), m.heads.value, std::pow(static_cast<double>(width), -0.5)};
  Value* y = attend(net, in.shape, heads, q, k, v, in.attention);
  y = net.linear(y, attention + ".out_lin", m.d(), m.d());
  Value* h = net.layer_norm(net.add(y, x), at + ".sa_layer_norm", m.d(), kEps);
  const Extent wide{m.hidden.key, m.hidden.value};
  y = net.linear(h, at + ".ffn.lin1", m.d(), wide);
  y = net.activation(y, m.activation);
  y = net.linear(y, at + ".ffn.lin2", wide, m.d());
  return net.layer_norm(net.add(y, h), at + ".output_layer_norm", m.d(), kEps);
}

Value* vocabulary_logits(Job& job, const DistilBert& m, Value* h) {
  Net& net = job.net;
  Value* y = net.activation(net.linear(h, "vocab_transform", m.d(), m.d()), m.activation);
  y = net.layer_norm(y, "vocab_layer_norm", m.d(), kEps);
  const Tensor weight = job.weights.take_tied(kProjector, kWords, m.tied, {m.v(), m.d()});
  Value* w = net.constant(weight, kProjector);
  Value* b = net.weight("vocab_projector.bias", {m.v()});
  net.enter("vocab_projector");
  return net.op(ops::kLinear, {y, w, b});
}

}  // namespace

Status build_distilbert(Job& job) {
  Config& config = job.config;
  Net& net = job.net;
  const DistilBert m(config);
  DH_ASSIGN(job.out.head,
            choose_head(job, {"base", "embed", "mlm", "fill-mask", "seqcls", "qa", "tokcls", "mc"},
                        "base"));
  const std::string& head = job.out.head;
  const Setting labels = config.num_labels();
  DH_TRY(config.status());
  DH_ASSIGN(const TextShape shape, text_shape(job, m.positions, m.positions.value));
  if (job.options.token_types) {
    return invalid_argument("--token-types: DistilBERT takes no token types");
  }
  job.out.max_length = shape.max_length;
  const TextInputs in = text_inputs(job, shape, head == "mc");
  Value* h = embeddings(job, m, in);
  for (int64_t i = 0; i < m.layers.value; ++i) {
    h = layer(job, m, in, h, cat("transformer.layer.", i));
  }
  const Extent classes{labels.key, labels.value};
  if (head == "base") return job.finish({h}, {"last_hidden_state"});
  if (head == "embed") {
    DH_ASSIGN(Value * embedding, sentence_embedding(job, in, h));
    return job.finish({embedding}, {"embedding"});
  }
  if (head == "mlm") return job.finish({vocabulary_logits(job, m, h)}, {"logits"});
  if (head == "fill-mask") {
    Value* all = vocabulary_logits(job, m, h);
    DH_ASSIGN(Value * picked, pick_mask_token(job, in, all, m.vocab));
    return job.finish({picked}, {"logits"});
  }
  if (head == "qa") return finish_question_answering(job, in, h, m.d());
  if (head == "tokcls") {
    return job.finish({net.linear(h, "classifier", m.d(), classes)}, {"logits"});
  }
  net.enter("");
  Value* y = net.select(h, 1, Dim(0));
  y = net.relu(net.linear(y, "pre_classifier", m.d(), m.d()));
  if (head == "seqcls") {
    return job.finish({net.linear(y, "classifier", m.d(), classes)}, {"logits"});
  }
  y = net.linear(y, "classifier", m.d(), {"one score", 1});
  net.enter("");
  return job.finish({net.reshape(y, {in.questions, *in.choices})}, {"logits"});
}

}  // namespace downhaul::models
