#include "models/text.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/strings.h"
#include "formats/json/json.h"

namespace downhaul::models {
namespace {

constexpr int64_t kDefaultLength = 128;
constexpr int64_t kMaxBatch = 1024;  // bound of an open batch

Dim dim_of(const SizeRange& range, const char* name) {
  if (range.min == range.max) return Dim(range.min);
  auto symbol = std::make_shared<Symbol>();
  symbol->name = name;
  symbol->min = range.min;
  symbol->max = range.max;
  return Dim(SymbolPtr(symbol));
}

std::string text(const SizeRange& range) {
  return range.min == range.max ? cat(range.min) : cat(range.min, "..", range.max);
}

struct HeadRow {
  std::string_view ending;  ///< of the class in `architectures`
  std::string_view head;
};
constexpr HeadRow kHeads[] = {{"ForMaskedLM", "mlm"},
                              {"ForPreTraining", "mlm"},
                              {"ForSequenceClassification", "seqcls"},
                              {"ForQuestionAnswering", "qa"},
                              {"ForTokenClassification", "tokcls"},
                              {"ForMultipleChoice", "mc"},
                              {"LMHeadModel", "next-token"},
                              {"DoubleHeadsModel", "next-token"},
                              {"Model", "base"}};

/// What a sentence-transformers folder does after its encoder.
struct Pooling {
  bool first_token = false;
  bool unit_length = false;
};

Result<JsonValue> document(const std::string& path) {
  DH_ASSIGN(const std::string text, read_text_file(path));
  auto parsed = JsonValue::parse(text);
  if (parsed.ok()) return parsed;
  return std::move(parsed).status().with_context(cat("'", printable(path), "'"));
}

Result<Pooling> read_pooling(const std::string& folder) {
  Pooling out;
  const std::string modules_path = folder + "/modules.json";
  if (!file_exists(modules_path)) return out;
  DH_ASSIGN(const JsonValue modules, document(modules_path));
  for (const JsonValue& module : modules.elements()) {
    const JsonValue* type = module.find("type");
    const std::string kind = type && type->as_string() ? *type->as_string() : "";
    if (kind.ends_with(".Normalize")) {
      out.unit_length = true;
    } else if (kind.ends_with(".Pooling")) {
      const std::string path = folder + "/1_Pooling/config.json";
      DH_ASSIGN(const JsonValue config, document(path));
      for (const auto& [key, value] : config.members()) {
        if (!key.starts_with("pooling_mode_") || !value.as_bool().value_or(false)) continue;
        out.first_token = key == "pooling_mode_cls_token";
        if (out.first_token || key == "pooling_mode_mean_tokens") continue;
        return unsupported(cat("'", printable(path), "': '", printable(key, 60),
                               "' is not supported; supported: pooling_mode_mean_tokens, "
                               "pooling_mode_cls_token"));
      }
    } else if (!kind.ends_with(".Transformer")) {
      return unsupported(cat("'", printable(modules_path), "': module '", printable(kind, 80),
                             "' is not supported"));
    }
  }
  return out;
}

/// Of the hidden states that the mask lets through.
Value* mean(Net& net, const TextInputs& inputs, Value* hidden) {
  Value* weight = net.cast(
      net.reshape(inputs.mask, {inputs.shape.batch, inputs.shape.length, Dim(1)}), DType::kF32);
  Value* sum = net.op(ops::kSum, {net.mul(hidden, weight)}, {{"dims", Ints{1}}});
  Value* count = net.op(ops::kSum, {weight}, {{"dims", Ints{1}}});
  // A row without a token gives zeros instead of 0 / 0.
  constexpr double kLeastCount = 1e-9;
  return net.op(ops::kDiv, {sum, net.op(ops::kClamp, {count}, {{"min", kLeastCount}})});
}

/// The id of `token` in the files that tokenizers come in.
std::optional<int64_t> id_of_token(const std::string& folder, std::string_view token) {
  const auto optional_document = [&](const char* file) -> JsonValue {
    auto parsed = document(cat(folder, "/", file));
    return parsed.ok() ? *std::move(parsed) : JsonValue();
  };
  const JsonValue tokenizer = optional_document("tokenizer.json");
  if (const JsonValue* added = tokenizer.find("added_tokens")) {
    for (const JsonValue& entry : added->elements()) {
      const JsonValue* content = entry.find("content");
      const JsonValue* id = entry.find("id");
      if (content && id && content->as_string() && *content->as_string() == token) {
        return id->as_int();
      }
    }
  }
  const JsonValue vocab = optional_document("vocab.json");
  if (const JsonValue* id = vocab.find(token)) return id->as_int();
  const std::string list = cat(folder, "/vocab.txt");
  if (!file_exists(list)) return std::nullopt;
  const auto text = read_text_file(list);
  if (!text.ok()) return std::nullopt;
  int64_t line_number = 0;
  for (const std::string_view line : split(*text, '\n')) {
    if (trim(line) == token) return line_number;
    ++line_number;
  }
  return std::nullopt;
}

}  // namespace

Result<TextShape> text_shape(const Job& job, const Setting& positions, int64_t usable_positions) {
  TextShape out;
  out.max_length = usable_positions;
  if (usable_positions < 1) {
    return invalid_file(cat("'", printable(job.config.path()), "': key '", positions.key,
                            "': ", positions.value, " leaves no place for a token"));
  }
  SizeRange length{1, usable_positions};
  if (job.options.seq_len) {
    length = *job.options.seq_len;
  } else if (!job.options.open_sizes) {
    length.min = length.max = std::min(kDefaultLength, usable_positions);
  }
  if (length.min < 1 || length.min > length.max || length.max > usable_positions) {
    return invalid_argument(cat("--seq-len ", text(length), ": the model takes 1 to ",
                                usable_positions, " tokens (", positions.key, " ", positions.value,
                                ")"));
  }
  SizeRange batch = job.options.open_sizes ? SizeRange{1, kMaxBatch} : SizeRange{1, 1};
  if (job.options.batch) batch = *job.options.batch;
  if (batch.min < 1 || batch.min > batch.max || batch.max > kMaxBatch) {
    return invalid_argument(cat("--batch ", text(batch), ": expected 1 to ", kMaxBatch));
  }
  out.batch = dim_of(batch, "batch");
  out.length = dim_of(length, "seq");
  return out;
}

TextInputs text_inputs(Job& job, const TextShape& shape, bool choices) {
  Net& net = job.net;
  TextInputs in;
  in.shape = shape;
  in.questions = shape.batch;
  Dims given = {shape.batch, shape.length};
  if (choices) {
    in.choices = Dim(job.options.choices);
    in.shape.batch = shape.batch * *in.choices;
    given.insert(given.begin() + 1, *in.choices);
  }
  size_t index = 0;
  const auto input = [&](std::string_view name) {
    Value* v = job.graph().add_input(job.input_name(index++, name), {DType::kI64, given});
    return choices ? net.reshape(v, {in.shape.batch, shape.length}) : v;
  };
  in.ids = input("input_ids");
  in.mask = input("attention_mask");
  if (job.options.token_types) in.types = input("token_type_ids");
  in.attention = net.reshape(net.cast(in.mask, DType::kBool),
                             {in.shape.batch, Dim(1), Dim(1), in.shape.length});
  return in;
}

Value* attend(Net& net, const TextShape& shape, const Heads& heads, Value* query, Value* key,
              Value* value, Value* mask) {
  const int64_t width = heads.dim.size / heads.count;
  const auto split_heads = [&](Value* x) {
    return net.permute(net.reshape(x, {shape.batch, shape.length, Dim(heads.count), Dim(width)}),
                       {0, 2, 1, 3});
  };
  Value* q = split_heads(query);
  Value* k = split_heads(key);
  Value* v = split_heads(value);
  Value* y = net.op(ops::kAttention, {q, k, v, mask}, {{"scale", heads.scale}});
  return net.reshape(net.permute(y, {0, 2, 1, 3}),
                     {shape.batch, shape.length, Dim(heads.dim.size)});
}

Value* position_rows(Net& net, const TextShape& shape, Value* table, const Extent& dim) {
  if (table == nullptr) return nullptr;
  Value* rows = net.reshape(table, {Dim(1), table->dim(0), Dim(dim.size)});
  return net.slice(rows, 1, Dim(0), shape.length);
}

Result<Value*> pick_mask_token(Job& job, const TextInputs& inputs, Value* logits,
                               const Setting& vocab) {
  Net& net = job.net;
  std::optional<int64_t> id = job.options.mask_token_id;
  for (const std::string_view token : {"[MASK]", "<mask>"}) {
    if (!id) id = id_of_token(job.folder, token);
  }
  if (!id) {
    return invalid_argument(
        cat("nothing in '", printable(job.folder),
            "' says which token is the mask (tokenizer.json, vocab.txt, vocab.json): give its id "
            "by --mask-token-id, or take --head mlm for the logits of all tokens"));
  }
  if (*id < 0 || *id >= vocab.value) {
    return invalid_argument(
        cat("mask token ", *id, " is outside the vocabulary (", vocab.key, " ", vocab.value, ")"));
  }
  job.out.facts.emplace_back("mask token", cat(*id));
  net.enter("");
  Value* is_mask =
      net.op(ops::kEq, {inputs.ids, net.scalar(DType::kI64, static_cast<double>(*id))});
  Value* place = net.op(ops::kArgmax, {net.cast(is_mask, DType::kI64)}, {{"dim", int64_t{1}}});
  Value* rows = net.op(ops::kArange, {}, {{"start", Dim(0)}, {"end", inputs.shape.batch}});
  return net.op(ops::kIndex, {logits, rows, place});
}

Result<Value*> sentence_embedding(Job& job, const TextInputs& inputs, Value* hidden) {
  Net& net = job.net;
  DH_ASSIGN(const Pooling pooling, read_pooling(job.folder));
  net.enter("pooling");
  Value* out = pooling.first_token ? net.select(hidden, 1, Dim(0)) : mean(net, inputs, hidden);
  if (!pooling.unit_length) return out;
  Value* squares = net.op(ops::kSum, {net.mul(out, out)}, {{"dims", Ints{1}}, {"keepdim", true}});
  constexpr double kLeastLength = 1e-12;  // torch.nn.functional.normalize
  Value* length = net.op(ops::kSqrt, {squares});
  return net.op(ops::kDiv, {out, net.op(ops::kClamp, {length}, {{"min", kLeastLength}})});
}

Status finish_question_answering(Job& job, const TextInputs& inputs, Value* hidden,
                                 const Extent& dim) {
  Net& net = job.net;
  Value* both = net.linear(hidden, "qa_outputs", dim, {"start and end", 2});
  std::vector<Value*> logits;
  for (int64_t i = 0; i < 2; ++i) {
    Value* one = net.slice(both, 2, Dim(i), Dim(i + 1));
    logits.push_back(net.reshape(one, {inputs.shape.batch, inputs.shape.length}));
  }
  return job.finish(logits, {"start_logits", "end_logits"});
}

Result<std::string> choose_head(Job& job, const std::vector<std::string_view>& known,
                                std::string_view otherwise) {
  const auto is_known = [&](std::string_view head) {
    return std::find(known.begin(), known.end(), head) != known.end();
  };
  if (!job.options.head.empty()) {
    if (is_known(job.options.head)) return job.options.head;
    return invalid_argument(cat("--head ", printable(job.options.head, 60), ": a ", job.out.family,
                                " checkpoint has ", join(known, ", ")));
  }
  // A sentence-transformers folder is there for its embedding, whatever class its encoder has.
  if (is_known("embed") && file_exists(job.folder + "/modules.json")) return std::string("embed");
  const std::vector<std::string> classes = job.config.texts("architectures");
  if (classes.empty()) return std::string(otherwise);
  for (const HeadRow& row : kHeads) {
    if (classes[0].ends_with(row.ending) && is_known(row.head)) return std::string(row.head);
  }
  return invalid_file(cat("'", printable(job.config.path()), "': key 'architectures': '",
                          printable(classes[0], 60),
                          "' is not known; choose one by --head: ", join(known, ", ")));
}

}  // namespace downhaul::models
