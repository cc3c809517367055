// Matrix products and attention.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "base/strings.h"
#include "dialects/aten/raise.h"
#include "dialects/aten/shapes.h"

namespace downhaul::aten {
namespace {

// A weight: a constant, or one seen through casts and changes of shape.
bool is_weight(const Value* v) {
  for (int steps = 0; v != nullptr && steps < 16; ++steps) {
    if (v->is_constant()) return true;
    const Node* n = v->producer();
    if (n == nullptr || n->operands().size() != 1) return false;
    if (!n->is(ops::kPermute) && !n->is(ops::kReshape) && !n->is(ops::kCast) &&
        !n->is(ops::kDequantize)) {
      return false;
    }
    v = n->operand(0);
  }
  return false;
}

Dim size_at(const Value* v, int64_t d) {
  const int64_t rank = rank_of(v);
  if (d < 0) d += rank;
  return d >= 0 && d < rank ? v->dim(d) : Dim(1);
}

Value* product(Call& c, Value* a, Value* b) {
  if (rank_of(b) == 2 && rank_of(a) >= 2 && is_weight(b)) {
    return c.op(ops::kLinear, {a, b, nullptr}, {{"weight_transposed", true}});
  }
  return c.op(ops::kMatmul, {a, b});
}

Value* times(Call& c, Value* v, const Number& factor) {
  if (!factor.symbolic && factor.f == 1.0) return v;
  return c.mul(v, c.scalar(dtype_of(v), factor));
}

bool is_zero(const Number& n) { return !n.symbolic && n.f == 0.0; }

// Heads of key and value repeated until there are as many as query heads.
Value* repeat_heads(Call& c, Value* v, const Dim& heads) {
  const Shape shape = dims_of(v);
  const size_t h = shape.size() - 3;
  if (shape[h] == heads) return v;
  const std::optional<Dim> each = heads.divided_by(shape[h]);
  if (!each) {
    c.invalid(cat(heads.str(), " query heads for ", shape[h].str(), " key heads"));
    return nullptr;
  }
  const auto d = static_cast<int64_t>(h);
  Value* separate = c.reshape(v, replaced(shape, d, 1, {shape[h], Dim(1)}));
  Value* wide = c.expand(separate, replaced(shape, d, 1, {shape[h], *each}));
  return c.reshape(wide, replaced(shape, d, 1, {heads}));
}

Out attention(Call& c, bool grouped) {
  Value* query = c.tensor("query");
  Value* key = c.tensor("key");
  Value* value = c.tensor("value");
  Value* mask = c.maybe_tensor("attn_mask");
  if (c.f("dropout_p") != 0.0) {
    c.fail("dropout in training mode; export the model after model.eval()");
  }
  if (!c.ok()) return {};
  if (query->rank() < 2 || key->rank() < 2 || value->rank() < 2) {
    c.invalid("query, key or value of rank below 2");
    return {};
  }
  if (grouped && query->rank() >= 3 && key->rank() >= 3 && value->rank() >= 3) {
    const Dim heads = size_at(query, -3);
    key = repeat_heads(c, key, heads);
    value = repeat_heads(c, value, heads);
    if (!c.ok()) return {};
  }
  // Leading dimensions broadcast.
  const auto leading = [](const Value* v) {
    return Shape(v->shape().begin(), v->shape().end() - 2);
  };
  const Dims batch = broadcast(c, broadcast(c, leading(query), leading(key)), leading(value));
  const auto with_batch = [&](Value* v) {
    Dims size = batch;
    size.push_back(size_at(v, -2));
    size.push_back(size_at(v, -1));
    return c.expand(v, std::move(size));
  };
  query = with_batch(query);
  key = with_batch(key);
  value = with_batch(value);
  if (mask != nullptr && mask->dtype() != DType::kBool) mask = c.cast(mask, dtype_of(query));
  NamedAttrs attrs = {{"is_causal", c.b("is_causal")}};
  if (const std::optional<double> scale = c.maybe_f("scale")) attrs.emplace_back("scale", *scale);
  return c.op(ops::kAttention, {query, key, value, mask}, attrs);
}

}  // namespace

Out raise_attention(Call& c) { return attention(c, false); }
Out raise_attention_gqa(Call& c) { return attention(c, c.b("enable_gqa")); }

Out raise_linear(Call& c) {
  return c.op(ops::kLinear, {c.tensor("input"), c.tensor("weight"), c.maybe_tensor("bias")});
}

Out raise_mm(Call& c) { return product(c, c.tensor("self"), c.tensor("mat2")); }

// beta·self + alpha·(mat1 · mat2)
Out raise_addmm(Call& c) {
  Value* bias = c.tensor("self");
  Value* input = c.tensor("mat1");
  Value* weight = c.tensor("mat2");
  const Number alpha = c.number("alpha");
  const Number beta = c.number("beta");
  const bool plain = !alpha.symbolic && alpha.f == 1.0;
  if (plain && rank_of(bias) == 1 && size_at(bias, 0) == size_at(weight, 1) && is_weight(weight)) {
    return c.op(ops::kLinear, {input, weight, is_zero(beta) ? nullptr : times(c, bias, beta)},
                {{"weight_transposed", true}});
  }
  Value* y = times(c, product(c, input, weight), alpha);
  return is_zero(beta) ? y : c.add(y, times(c, bias, beta));
}

Out raise_baddbmm(Call& c) {
  Value* bias = c.tensor("self");
  Value* y = times(c, product(c, c.tensor("batch1"), c.tensor("batch2")), c.number("alpha"));
  const Number beta = c.number("beta");
  return is_zero(beta) ? y : c.add(y, times(c, bias, beta));
}

Out raise_matmul(Call& c) {
  Value* a = c.tensor("self");
  // "other" for matmul, "vec" for mv, "tensor" for dot
  Value* b = c.tensor(c.row().parameters[1].name);
  const int64_t rank_a = rank_of(a);
  const int64_t rank_b = rank_of(b);
  if (rank_a == 0 || rank_b == 0) {
    c.invalid("an operand of rank 0");
    return {};
  }
  // A vector is a row on the left and a column on the right; its dimension goes again afterwards.
  Dims shape;
  if (rank_a == 1) a = c.reshape(a, {Dim(1), size_at(a, 0)});
  if (rank_b == 1) b = c.reshape(b, {size_at(b, 0), Dim(1)});
  Value* y = product(c, a, b);
  if (y == nullptr || (rank_a > 1 && rank_b > 1)) return y;
  shape = y->shape();
  if (rank_b == 1) shape.pop_back();
  if (rank_a == 1) shape.erase(shape.end() - (rank_b == 1 ? 1 : 2));
  return c.reshape(y, std::move(shape));
}

namespace {

// One operand of an einsum: a label for each dimension.
struct Labelled {
  Value* value = nullptr;
  std::string labels;
};

// Labels of dimensions that an ellipsis stands for: outside of the letters.
constexpr char kEllipsisBase = 1;

Value* transposed_to(Call& c, const Labelled& from, const std::string& labels) {
  Ints dims;
  for (const char l : labels) dims.push_back(static_cast<int64_t>(from.labels.find(l)));
  return c.permute(from.value, std::move(dims));
}

Labelled summed_out(Call& c, const Labelled& x, const std::string& keep) {
  Ints dims;
  Labelled result{x.value, {}};
  for (size_t d = 0; d < x.labels.size(); ++d) {
    if (keep.find(x.labels[d]) == std::string::npos) {
      dims.push_back(static_cast<int64_t>(d));
    } else {
      result.labels += x.labels[d];
    }
  }
  if (!dims.empty()) result.value = c.op(ops::kSum, {x.value}, {{"dims", dims}});
  return result;
}

Dim product_of(const std::map<char, Dim>& sizes, const std::string& labels) {
  Dim product = 1;
  for (const char l : labels) product = product * sizes.at(l);
  return product;
}

// a · b over the labels that only they share and `keep` does not name: transposed to
// [batch, left, contracted] and [batch, contracted, right], one matrix product.
Labelled contracted(Call& c, Labelled a, Labelled b, const std::string& keep,
                    const std::map<char, Dim>& sizes) {
  a = summed_out(c, a, keep + b.labels);
  b = summed_out(c, b, keep + a.labels);
  std::string batch;
  std::string left;
  std::string inner;
  std::string right;
  for (const char l : a.labels) {
    const bool shared = b.labels.find(l) != std::string::npos;
    const bool kept = keep.find(l) != std::string::npos;
    (shared ? (kept ? batch : inner) : left) += l;
  }
  for (const char l : b.labels) {
    if (a.labels.find(l) == std::string::npos) right += l;
  }
  // A dimension of size 1 broadcasts against the same label elsewhere.
  const auto full = [&](Value* v, const std::string& labels) {
    Dims shape;
    for (const char l : labels) shape.push_back(sizes.at(l));
    return c.expand(v, std::move(shape));
  };
  Value* x = full(transposed_to(c, a, batch + left + inner), batch + left + inner);
  Value* y = full(transposed_to(c, b, batch + inner + right), batch + inner + right);
  const Dim n = product_of(sizes, batch);
  const Dim m = product_of(sizes, left);
  const Dim k = product_of(sizes, inner);
  const Dim p = product_of(sizes, right);
  Value* z = c.op(ops::kMatmul, {c.reshape(x, {n, m, k}), c.reshape(y, {n, k, p})});
  Labelled result{nullptr, batch + left + right};
  Dims shape;
  for (const char l : result.labels) shape.push_back(sizes.at(l));
  result.value = c.reshape(z, std::move(shape));
  return result;
}

// The terms of "bhid,bhjd->bhij"; the result's labels last, spelled out when the arrow is missing.
bool parse_equation(Call& c, const std::string& equation, const std::vector<Value*>& tensors,
                    std::vector<std::string>& terms, std::string& result) {
  std::string text;
  for (const char ch : equation) {
    if (ch != ' ') text += ch;
  }
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  for (const std::string_view term : split(left, ',')) terms.emplace_back(term);
  if (terms.size() != tensors.size()) {
    c.invalid(cat("equation '", printable(equation), "' for ", tensors.size(), " tensors"));
    return false;
  }
  size_t ellipsis_rank = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t dots = terms[i].find("...");
    if (dots == std::string::npos) continue;
    const auto rank = static_cast<size_t>(rank_of(tensors[i]));
    const size_t letters = terms[i].size() - 3;
    if (rank < letters || rank - letters > 20) {
      c.invalid(cat("equation '", printable(equation), "' does not fit a tensor of rank ", rank));
      return false;
    }
    ellipsis_rank = std::max(ellipsis_rank, rank - letters);
  }
  const auto ellipsis = [&](size_t count) {
    std::string labels;
    for (size_t i = ellipsis_rank - count; i < ellipsis_rank; ++i) {
      labels += static_cast<char>(kEllipsisBase + static_cast<char>(i));
    }
    return labels;
  };
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t dots = terms[i].find("...");
    if (dots == std::string::npos) continue;
    terms[i].replace(dots, 3,
                     ellipsis(static_cast<size_t>(rank_of(tensors[i])) - (terms[i].size() - 3)));
  }
  if (arrow != std::string::npos) {
    result = text.substr(arrow + 2);
    const size_t dots = result.find("...");
    if (dots != std::string::npos) result.replace(dots, 3, ellipsis(ellipsis_rank));
  } else {
    std::map<char, int> counts;
    for (const std::string& t : terms) {
      for (const char l : t) ++counts[l];
    }
    for (const auto& [label, count] : counts) {
      if (count == 1 || label < 32) result += label;
    }
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    std::string sorted = terms[i];
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      c.fail(cat("equation '", printable(equation), "' takes a diagonal"));
      return false;
    }
    if (static_cast<int64_t>(terms[i].size()) != rank_of(tensors[i])) {
      c.invalid(cat("equation '", printable(equation), "' does not fit a tensor of rank ",
                    rank_of(tensors[i])));
      return false;
    }
  }
  return true;
}

}  // namespace

Out raise_einsum(Call& c) {
  const std::vector<Value*> tensors = c.tensors("tensors");
  const std::string equation = c.s("equation");
  std::vector<std::string> terms;
  std::string result;
  if (!c.ok() || !parse_equation(c, equation, tensors, terms, result)) return {};
  std::map<char, Dim> sizes;
  std::vector<Labelled> operands;
  for (size_t i = 0; i < terms.size(); ++i) {
    operands.push_back({tensors[i], terms[i]});
    for (size_t d = 0; d < terms[i].size(); ++d) {
      const Dim size = size_at(tensors[i], static_cast<int64_t>(d));
      const auto [it, added] = sizes.emplace(terms[i][d], size);
      if (!added && it->second == Dim(1)) it->second = size;
    }
  }
  for (const char l : result) {
    if (!sizes.contains(l) || std::count(result.begin(), result.end(), l) != 1) {
      c.invalid(cat("equation '", printable(equation), "' has an unknown or repeated label"));
      return {};
    }
  }
  Labelled total = operands[0];
  for (size_t i = 1; i < operands.size() && c.ok(); ++i) {
    std::string keep = result;
    for (size_t j = i + 1; j < operands.size(); ++j) keep += operands[j].labels;
    total = contracted(c, total, operands[i], keep, sizes);
  }
  total = summed_out(c, total, result);
  return transposed_to(c, total, result);
}

}  // namespace downhaul::aten
