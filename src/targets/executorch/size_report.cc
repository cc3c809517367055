#include <algorithm>
#include <numeric>
#include <type_traits>

#include "base/strings.h"
#include "dialects/edge/node_names.h"
#include "targets/executorch/emit.h"

namespace downhaul {
namespace {

template <typename T>
std::string owner_or(const std::vector<T>& owners, size_t index, const std::string& otherwise) {
  if (index >= owners.size() || owners[index].empty()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return owners[index];
  } else {
    return join(owners[index], ", ");
  }
}

/// The constant segment, constant by constant, with the gaps between.
void split_constants(const EmittedProgram& program, const PteLayout& layout, const PtePart& part,
                     std::vector<SizeEntry>& entries) {
  std::vector<size_t> order(layout.constants.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return layout.constants[a].offset < layout.constants[b].offset;
  });
  const uint64_t end = part.range.offset + part.range.size;
  uint64_t at = part.range.offset;
  const auto add_gap = [&](uint64_t until) {
    if (until > at)
      entries.push_back({SizeEntry::Kind::kPadding, "between constants", until - at, 0});
    at = std::max(at, until);
  };
  for (const size_t i : order) {
    const pte::ByteRange& range = layout.constants[i];
    if (i == 0 || range.size == 0) continue;
    add_gap(range.offset);
    const int references = i < program.constant_owners.size()
                               ? static_cast<int>(program.constant_owners[i].size())
                               : 0;
    entries.push_back({SizeEntry::Kind::kConstant,
                       owner_or(program.constant_owners, i, cat("constant ", i)), range.size,
                       references});
    for (size_t n = 0; n < layout.named_data.size(); ++n)
      if (layout.named_data[n] == range) ++entries.back().references;
    at = range.offset + range.size;
  }
  add_gap(end);
}

}  // namespace

const char* name(SizeEntry::Kind kind) {
  switch (kind) {
    case SizeEntry::Kind::kProgram:
      return "program";
    case SizeEntry::Kind::kConstant:
      return "constant";
    case SizeEntry::Kind::kInitialContent:
      return "initial content";
    case SizeEntry::Kind::kPayload:
      return "payload";
    case SizeEntry::Kind::kNamedData:
      return "named data";
    case SizeEntry::Kind::kPadding:
      return "padding";
  }
  return "";
}

uint64_t SizeReport::total(SizeEntry::Kind kind) const {
  uint64_t sum = 0;
  for (const SizeEntry& entry : entries)
    if (entry.kind == kind) sum += entry.bytes;
  return sum;
}

Result<SizeReport> write_program(const EmittedProgram& program, OutputFile& out) {
  DH_ASSIGN(const PteLayout layout, program.builder.write(program.program, out));
  SizeReport report{.file_size = layout.file_size, .entries = {}};
  for (const PtePart& part : layout.parts) {
    using Kind = SizeEntry::Kind;
    switch (part.kind) {
      case PtePart::Kind::kConstants:
        split_constants(program, layout, part, report.entries);
        break;
      case PtePart::Kind::kHeader:
      case PtePart::Kind::kFlatbuffer:
        report.entries.push_back(
            {Kind::kProgram, std::string(name(part.kind)), part.range.size, 1});
        break;
      case PtePart::Kind::kInitial:
        report.entries.push_back({Kind::kInitialContent, join(program.state_names, ", "),
                                  part.range.size, static_cast<int>(program.state_names.size())});
        break;
      case PtePart::Kind::kPayload:
        report.entries.push_back({Kind::kPayload,
                                  owner_or(program.payload_owners, part.index, "payload"),
                                  part.range.size, 1});
        break;
      case PtePart::Kind::kNamedData:
        report.entries.push_back({Kind::kNamedData,
                                  owner_or(program.named_keys, part.index, edge::kNodesKey),
                                  part.range.size, 1});
        break;
      default:
        report.entries.push_back(
            {Kind::kPadding, std::string(name(part.kind)), part.range.size, 0});
    }
  }
  uint64_t sum = 0;
  for (const SizeEntry& entry : report.entries) sum += entry.bytes;
  DH_CHECK(sum == report.file_size);
  return report;
}

}  // namespace downhaul
