#include "apps/text_answers.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace downhaul {
namespace {

// Softmax over token 0 and the allowed ones; 0 elsewhere.
std::vector<double> softmax_over(std::span<const float> scores,
                                 const std::vector<uint8_t>& allowed) {
  const auto counts = [&](size_t i) { return i == 0 || allowed[i] != 0; };
  double largest = -INFINITY;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (counts(i)) largest = std::max(largest, double{scores[i]});
  }
  std::vector<double> out(scores.size(), 0);
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (counts(i)) sum += out[i] = std::exp(scores[i] - largest);
  }
  for (double& v : out) v /= sum;
  return out;
}

}  // namespace

Answers find_answers(std::span<const float> start, std::span<const float> end,
                     const std::vector<uint8_t>& allowed, size_t max_tokens, size_t count) {
  DH_CHECK(start.size() == end.size() && start.size() == allowed.size());
  Answers out;
  if (start.empty()) return out;
  const std::vector<double> begins = softmax_over(start, allowed);
  const std::vector<double> ends = softmax_over(end, allowed);
  out.no_answer = begins[0] * ends[0];
  for (size_t first = 0; first < start.size(); ++first) {
    if (allowed[first] == 0) continue;
    for (size_t last = first; last < std::min(first + max_tokens, start.size()); ++last) {
      if (allowed[last] != 0) out.spans.push_back({first, last, begins[first] * ends[last]});
    }
  }
  std::stable_sort(
      out.spans.begin(), out.spans.end(),
      [](const AnswerSpan& a, const AnswerSpan& b) { return a.probability > b.probability; });
  if (out.spans.size() > count) out.spans.resize(count);
  return out;
}

std::vector<TaggedSpan> merge_tags(const std::vector<std::string>& labels,
                                   const std::vector<double>& probabilities,
                                   const std::vector<uint8_t>& special) {
  std::vector<TaggedSpan> out;
  std::string before = "O";
  for (size_t i = 0; i < labels.size(); ++i) {
    if (special[i] != 0) continue;
    const bool prefixed = labels[i].starts_with("B-") || labels[i].starts_with("I-");
    const std::string tag = prefixed ? labels[i].substr(2) : labels[i];
    const bool goes_on = tag == before && !labels[i].starts_with("B-");
    before = tag;
    if (tag == "O") continue;
    if (goes_on) {
      out.back().probability += probabilities[i];
      out.back().last = i;
    } else {
      out.push_back({tag, probabilities[i], i, i});
    }
  }
  for (TaggedSpan& span : out) {
    const auto counted = std::count(special.begin() + static_cast<ptrdiff_t>(span.first),
                                    special.begin() + static_cast<ptrdiff_t>(span.last) + 1, 0);
    span.probability /= static_cast<double>(counted);
  }
  return out;
}

std::vector<float> mean_rows(std::span<const float> hidden, const std::vector<uint8_t>& mask) {
  DH_CHECK(!mask.empty() && hidden.size() % mask.size() == 0);
  const size_t width = hidden.size() / mask.size();
  std::vector<double> sums(width, 0);
  size_t count = 0;
  for (size_t row = 0; row < mask.size(); ++row) {
    if (mask[row] == 0) continue;
    ++count;
    for (size_t i = 0; i < width; ++i) sums[i] += hidden[row * width + i];
  }
  std::vector<float> out(width, 0);
  for (size_t i = 0; i < width && count > 0; ++i) {
    out[i] = static_cast<float>(sums[i] / static_cast<double>(count));
  }
  return out;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  DH_CHECK(a.size() == b.size());
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return aa > 0 && bb > 0 ? dot / std::sqrt(aa * bb) : 0;
}

void normalize_length(std::vector<float>& v) {
  double sum = 0;
  for (const float x : v) sum += double{x} * x;
  if (sum == 0) return;
  for (float& x : v) x = static_cast<float>(x / std::sqrt(sum));
}

}  // namespace downhaul
