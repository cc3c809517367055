// BERT and RoBERTa: the same encoder; RoBERTa counts positions past its padding and has other
// heads.
#include <cmath>

#include "base/strings.h"
#include "models/text.h"

namespace downhaul::models {
namespace {

struct Bert {
  bool roberta;
  Setting vocab, positions, layers, heads, dim, hidden, types, pad;
  std::string activation;
  double eps;
  bool tied;

  Bert(Config& c, bool is_roberta)
      : roberta(is_roberta),
        vocab(c.size({"vocab_size"}, roberta ? 50265 : 30522)),
        positions(c.size({"max_position_embeddings"}, 512)),
        layers(c.layers({"num_hidden_layers"}, 12)),
        heads(c.size({"num_attention_heads"}, 12)),
        dim(c.size({"hidden_size"}, 768)),
        hidden(c.size({"intermediate_size"}, 3072)),
        types(c.size({"type_vocab_size"}, 2)),
        pad(c.integer({"pad_token_id"}, roberta ? 1 : 0, 0, INT32_MAX)),
        activation(checked_activation(c, "hidden_act", "gelu")),
        eps(c.positive_real("layer_norm_eps", 1e-12)),
        tied(c.flag("tie_word_embeddings", true)) {
    c.require_divides(heads, dim);
    const std::string kind = c.text("position_embedding_type", "absolute");
    if (kind != "absolute") {
      c.fail(cat("key 'position_embedding_type': expected 'absolute', found '", printable(kind, 60),
                 "'"));
    }
    for (const char* key : {"is_decoder", "add_cross_attention"}) {
      if (c.flag(key, false))
        c.fail(cat("key '", key, "': decoders of this kind are not supported"));
    }
  }
  Extent d() const { return {dim.key, dim.value}; }
  Extent v() const { return {vocab.key, vocab.value}; }
  /// RoBERTa's first position is behind the padding's.
  int64_t usable_positions() const {
    return roberta ? positions.value - pad.value - 1 : positions.value;
  }
  const char* projector() const {
    return roberta ? "lm_head.decoder.weight" : "cls.predictions.decoder.weight";
  }
};

constexpr const char* kWords = "embeddings.word_embeddings.weight";

/// Places count from pad + 1 over the tokens that are no padding; padding stays at pad.
Value* roberta_positions(Net& net, const Bert& m, const TextInputs& in) {
  Value* pad = net.scalar(DType::kI64, static_cast<double>(m.pad.value));
  Value* real = net.op(ops::kNe, {in.ids, pad});
  Value* count = net.op(ops::kCumsum, {net.cast(real, DType::kI64)}, {{"dim", int64_t{1}}});
  Value* place = net.mul(net.cast(count, DType::kI32), net.cast(real, DType::kI32));
  return net.add(net.cast(place, DType::kI64), pad);
}

/// Without an input for it every token is of type 0. Where the length is fixed, the row takes the
/// shape of the positions', so that both fold into one table.
Value* first_type(Net& net, const Bert& m, const TextInputs& in, Value* types) {
  Value* row = net.reshape(net.slice(types, 0, Dim(0), Dim(1)), {Dim(1), Dim(1), m.dim.value});
  if (!in.shape.length.is_static()) return row;
  return net.op(ops::kExpand, {row}, {{"size", Dims{Dim(1), in.shape.length, m.dim.value}}});
}

Value* embeddings(Job& job, const Bert& m, const TextInputs& in) {
  Net& net = job.net;
  const bool swapped = m.tied && !job.weights.has(kWords) && job.weights.has(m.projector());
  Value* words = net.weight(swapped ? m.projector() : kWords, {m.v(), m.d()});
  Value* types =
      net.weight("embeddings.token_type_embeddings.weight", {{m.types.key, m.types.value}, m.d()});
  Value* table = net.weight("embeddings.position_embeddings.weight",
                            {{m.positions.key, m.positions.value}, m.d()});
  net.enter("embeddings");
  Value* sum = net.op(ops::kEmbedding, {words, in.ids});
  Value* type = in.types != nullptr ? net.op(ops::kEmbedding, {types, in.types})
                                    : first_type(net, m, in, types);
  sum = net.add(sum, type);
  Value* rows = m.roberta ? net.op(ops::kEmbedding, {table, roberta_positions(net, m, in)})
                          : position_rows(net, in.shape, table, m.d());
  return net.layer_norm(net.add(sum, rows), "embeddings.LayerNorm", m.d(), m.eps);
}

Value* layer(Job& job, const Bert& m, const TextInputs& in, Value* x, const std::string& at) {
  Net& net = job.net;
  const std::string self = at + ".attention.self";
  Value* q = net.linear(x, self + ".query", m.d(), m.d());
  Value* k = net.linear(x, self + ".key", m.d(), m.d());
  Value* v = net.linear(x, self + ".value", m.d(), m.d());
  net.enter(self);
  const int64_t width = m.dim.value / m.heads.value;
  const double scale = std::pow(static_cast<double>(width), -0.5);
  Value* y = attend(net, in.shape, {m.d(), m.heads.value, scale}, q, k, v, in.attention);
  y = net.linear(y, at + ".attention.output.dense", m.d(), m.d());
  Value* h = net.layer_norm(net.add(y, x), at + ".attention.output.LayerNorm", m.d(), m.eps);
  const Extent wide{m.hidden.key, m.hidden.value};
  y = net.activation(net.linear(h, at + ".intermediate.dense", m.d(), wide), m.activation);
  y = net.linear(y, at + ".output.dense", wide, m.d());
  return net.layer_norm(net.add(y, h), at + ".output.LayerNorm", m.d(), m.eps);
}

Value* first_token(Net& net, Value* h) {
  net.enter("");
  return net.select(h, 1, Dim(0));
}

Value* pooler(Net& net, const Bert& m, Value* h) {
  Value* y = net.linear(first_token(net, h), "pooler.dense", m.d(), m.d());
  return net.op(ops::kTanh, {y});
}

Value* vocabulary_logits(Job& job, const Bert& m, Value* h) {
  Net& net = job.net;
  const std::string dense = m.roberta ? "lm_head.dense" : "cls.predictions.transform.dense";
  const std::string norm = m.roberta ? "lm_head.layer_norm" : "cls.predictions.transform.LayerNorm";
  // The bias is stored under its own name, under the projector's, or under both.
  std::string bias = m.roberta ? "lm_head.bias" : "cls.predictions.bias";
  const std::string alias = m.roberta ? "lm_head.decoder.bias" : "cls.predictions.decoder.bias";
  if (job.weights.has(bias)) {
    job.weights.ignore(alias);
  } else if (job.weights.has(alias)) {
    bias = alias;
  }
  Value* y = net.activation(net.linear(h, dense, m.d(), m.d()), m.roberta ? "gelu" : m.activation);
  y = net.layer_norm(y, norm, m.d(), m.eps);
  const Tensor weight = job.weights.take_tied(m.projector(), kWords, m.tied, {m.v(), m.d()});
  Value* w = net.constant(weight, m.projector());
  Value* b = net.weight(bias, {m.v()});
  net.enter(m.roberta ? "lm_head.decoder" : "cls.predictions.decoder");
  return net.op(ops::kLinear, {y, w, b});
}

Value* sequence_logits(Net& net, const Bert& m, Value* h, const Extent& classes) {
  if (!m.roberta) return net.linear(pooler(net, m, h), "classifier", m.d(), classes);
  Value* y = net.linear(first_token(net, h), "classifier.dense", m.d(), m.d());
  return net.linear(net.op(ops::kTanh, {y}), "classifier.out_proj", m.d(), classes);
}

Status finish_head(Job& job, const Bert& m, const TextInputs& in, Value* h, const Setting& labels) {
  Net& net = job.net;
  const std::string& head = job.out.head;
  const Extent classes{labels.key, labels.value};
  if (head == "base") {
    if (!job.weights.has("pooler.dense.weight")) return job.finish({h}, {"last_hidden_state"});
    return job.finish({h, pooler(net, m, h)}, {"last_hidden_state", "pooler_output"});
  }
  if (head == "pooled") return job.finish({pooler(net, m, h)}, {"pooler_output"});
  if (head == "embed") {
    job.weights.ignore("pooler.dense.weight");
    job.weights.ignore("pooler.dense.bias");
    DH_ASSIGN(Value * mean, sentence_embedding(job, in, h));
    return job.finish({mean}, {"embedding"});
  }
  if (head == "mlm") return job.finish({vocabulary_logits(job, m, h)}, {"logits"});
  if (head == "fill-mask") {
    Value* all = vocabulary_logits(job, m, h);
    DH_ASSIGN(Value * picked, pick_mask_token(job, in, all, m.vocab));
    return job.finish({picked}, {"logits"});
  }
  if (head == "seqcls") return job.finish({sequence_logits(net, m, h, classes)}, {"logits"});
  if (head == "tokcls") {
    return job.finish({net.linear(h, "classifier", m.d(), classes)}, {"logits"});
  }
  if (head == "qa") return finish_question_answering(job, in, h, m.d());
  Value* score = net.linear(pooler(net, m, h), "classifier", m.d(), {"one score", 1});
  net.enter("");
  return job.finish({net.reshape(score, {in.questions, *in.choices})}, {"logits"});
}

}  // namespace

Status build_bert(Job& job) {
  Config& config = job.config;
  const Bert m(config, job.out.family != "bert");
  DH_ASSIGN(job.out.head, choose_head(job,
                                      {"base", "pooled", "embed", "mlm", "fill-mask", "seqcls",
                                       "qa", "tokcls", "mc"},
                                      "base"));
  const Setting labels = config.num_labels();
  DH_TRY(config.status());
  DH_ASSIGN(const TextShape shape, text_shape(job, m.positions, m.usable_positions()));
  job.out.max_length = shape.max_length;
  const TextInputs in = text_inputs(job, shape, job.out.head == "mc");
  Value* h = embeddings(job, m, in);
  for (int64_t i = 0; i < m.layers.value; ++i) {
    h = layer(job, m, in, h, cat("encoder.layer.", i));
  }
  return finish_head(job, m, in, h, labels);
}

}  // namespace downhaul::models
