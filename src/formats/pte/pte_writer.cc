#include "formats/pte/pte_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/strings.h"
#include "formats/pte/schema.h"

namespace downhaul {
namespace {

using pte::ByteRange;

// Alignment of segments in files of the stock exporter; what its runtime maps and hands to kernels.
constexpr uint64_t kSegmentAlignment = 128;
constexpr uint64_t kConstantAlignment = 16;

template <typename T>
void store(std::vector<uint8_t>& bytes, uint64_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

void write_header(std::vector<uint8_t>& flatbuffer, uint64_t segment_base,
                  uint64_t segment_data_size) {
  std::copy_n("eh00", 4, flatbuffer.begin() + pte::kLeadingBytes);
  store<uint32_t>(flatbuffer, 12, static_cast<uint32_t>(pte::kExtendedHeaderBytes));
  store<uint64_t>(flatbuffer, 16, flatbuffer.size());
  store<uint64_t>(flatbuffer, 24, segment_base);
  store<uint64_t>(flatbuffer, 32, segment_data_size);
}

// Entries of a segment one after the other, each at its alignment.
struct Packed {
  std::vector<ByteRange> entries;  // offsets in the segment
  uint64_t size = 0;
  uint64_t padding = 0;

  void add(uint64_t size_of_entry, uint64_t alignment) {
    const uint64_t offset = align_up(size, alignment);
    padding += offset - size;
    entries.push_back({offset, size_of_entry});
    size = offset + size_of_entry;
  }

  pte::RawProgram::Subsegments subsegments(uint32_t segment) const {
    pte::RawProgram::Subsegments out{.segment = segment, .offsets = {0}};
    for (const ByteRange& e : entries) out.offsets.push_back(e.offset);
    return out;
  }
};

// Bytes that follow each other in the file, offsets from the segment base.
struct Placed {
  PtePart::Kind kind;
  uint32_t index;
  ByteRange range;
  std::vector<std::pair<uint64_t, const Blob*>> blobs;  // by offset in the segment
};

}  // namespace

uint32_t PteBuilder::find_or_add(std::vector<Entry>& entries, ByHash& by_hash, const Blob& blob,
                                 uint32_t alignment) {
  const uint64_t hash = blob.hash();
  const auto [begin, end] = by_hash.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    Entry& entry = entries[it->second];
    if (!entry.blob.same_as(blob)) continue;
    entry.alignment = std::max(entry.alignment, alignment);
    return it->second;
  }
  const auto index = static_cast<uint32_t>(entries.size());
  by_hash.emplace(hash, index);
  entries.push_back({blob, alignment});
  return index;
}

uint32_t PteBuilder::add_constant(const Blob& blob, uint32_t alignment) {
  DH_CHECK(std::has_single_bit(alignment) && alignment >= kConstantAlignment && alignment <= 4096);
  return find_or_add(constants_, constants_by_hash_, blob, alignment) + 1;
}

uint32_t PteBuilder::add_initial_content(const Blob& blob) {
  return find_or_add(initial_contents_, initial_by_hash_, blob, kConstantAlignment) + 1;
}

uint32_t PteBuilder::add_payload(const Blob& blob) {
  return find_or_add(payloads_, payloads_by_hash_, blob, kConstantAlignment);
}

void PteBuilder::add_named_data(const std::string& key, const Blob& blob) {
  const auto [it, added] = named_by_key_.emplace(key, named_.size());
  if (!added) {
    const Named& present = named_[it->second];
    DH_CHECK(present.data_index == 0 && present.blob.same_as(blob));
    return;
  }
  named_.push_back({.key = key, .blob = blob, .data_index = 0, .offset = 0, .size = blob.size()});
}

void PteBuilder::add_named_constant(const std::string& key, uint32_t data_index, uint64_t offset,
                                    uint64_t size) {
  DH_CHECK(data_index >= 1 && data_index <= constants_.size());
  DH_CHECK(in_range(offset, size, constants_[data_index - 1].blob.size()));
  const auto [it, added] = named_by_key_.emplace(key, named_.size());
  if (!added) {
    const Named& present = named_[it->second];
    DH_CHECK(present.data_index == data_index && present.offset == offset && present.size == size);
    return;
  }
  named_.push_back(
      {.key = key, .blob = {}, .data_index = data_index, .offset = offset, .size = size});
}

Result<PteLayout> PteBuilder::write(const pte::Program& program, OutputFile& out) const {
  DH_CHECK(out.position() == 0);

  pte::StorageLimits limits;
  for (const Entry& e : constants_) limits.constants.push_back(e.blob.size());
  for (const Entry& e : initial_contents_) limits.initial_contents.push_back(e.blob.size());
  limits.num_payloads = payloads_.size();
  if (Status status = pte::verify_program(program, limits); !status.ok()) {
    return Status(
        status.kind() == ErrorKind::kInvalidFile ? ErrorKind::kInvalidGraph : status.kind(),
        status.message());
  }

  // A named blob that is also a constant becomes a stretch of the constants; the others are stored
  // once each, whatever number of keys they have.
  struct Alias {
    uint32_t data_index;
    uint64_t offset;
    uint64_t size;
    bool operator==(const Alias&) const = default;
  };
  std::vector<std::variant<Alias, uint32_t>> named_place;  // alias, or position in `own`
  std::vector<Entry> own;
  ByHash own_by_hash;
  std::vector<uint64_t> alignments;
  for (const Entry& e : constants_) alignments.push_back(e.alignment);
  for (const Named& n : named_) {
    uint32_t data_index = n.data_index;
    if (data_index == 0 && n.size > 0) {
      const auto [begin, end] = constants_by_hash_.equal_range(n.blob.hash());
      const auto found = std::find_if(begin, end, [&](const auto& candidate) {
        return constants_[candidate.second].blob.same_as(n.blob);
      });
      if (found != end) data_index = found->second + 1;
    }
    if (data_index > 0) {
      uint64_t& alignment = alignments[data_index - 1];
      alignment = std::max(alignment, kSegmentAlignment);
      named_place.emplace_back(Alias{data_index, n.offset, n.size});
    } else {
      named_place.emplace_back(find_or_add(own, own_by_hash, n.blob, kConstantAlignment));
    }
  }

  Packed constants;
  for (size_t i = 0; i < constants_.size(); ++i) {
    constants.add(constants_[i].blob.size(), alignments[i]);
  }
  Packed initial;
  for (const Entry& e : initial_contents_) initial.add(e.blob.size(), e.alignment);

  // Segments in file order; aliases right after the constants, so that offsets stay sorted.
  pte::RawProgram raw;
  raw.program = program;
  std::vector<Placed> placed;
  uint64_t end = 0;
  const auto add_segment = [&](PtePart::Kind kind, uint32_t index, uint64_t size) -> Placed& {
    // An empty segment takes no padding, or it would end behind the file's last byte.
    const uint64_t offset = size == 0 ? end : align_up(end, kSegmentAlignment);
    placed.push_back({.kind = kind, .index = index, .range = {offset, size}, .blobs = {}});
    raw.segments.push_back({offset, size});
    end = offset + size;
    return placed.back();
  };
  const auto last_segment = [&] { return static_cast<uint32_t>(raw.segments.size() - 1); };

  Placed& constant_segment = add_segment(PtePart::Kind::kConstants, 0, constants.size);
  for (size_t i = 0; i < constants_.size(); ++i) {
    constant_segment.blobs.emplace_back(constants.entries[i].offset, &constants_[i].blob);
  }
  raw.constants = constants.subsegments(0);

  std::vector<ByteRange> aliases;
  const auto alias_range = [&](const Alias& a) {
    return ByteRange{constants.entries[a.data_index - 1].offset + a.offset, a.size};
  };
  for (const auto& place : named_place) {
    if (const auto* a = std::get_if<Alias>(&place)) aliases.push_back(alias_range(*a));
  }
  std::ranges::sort(aliases, [](const ByteRange& a, const ByteRange& b) {
    return std::pair(a.offset, a.size) < std::pair(b.offset, b.size);
  });
  aliases.erase(std::unique(aliases.begin(), aliases.end()), aliases.end());
  raw.segments.insert(raw.segments.end(), aliases.begin(), aliases.end());

  if (!initial_contents_.empty()) {
    Placed& segment = add_segment(PtePart::Kind::kInitial, 0, initial.size);
    for (size_t i = 0; i < initial_contents_.size(); ++i) {
      segment.blobs.emplace_back(initial.entries[i].offset, &initial_contents_[i].blob);
    }
    raw.initial_contents.push_back(initial.subsegments(last_segment()));
  }
  std::vector<uint32_t> payload_segments;
  for (uint32_t i = 0; i < payloads_.size(); ++i) {
    const Blob& blob = payloads_[i].blob;
    add_segment(PtePart::Kind::kPayload, i, blob.size()).blobs.emplace_back(0, &blob);
    payload_segments.push_back(last_segment());
  }
  std::vector<uint32_t> own_segments;
  for (uint32_t i = 0; i < own.size(); ++i) {
    const auto first_key = std::ranges::find_if(named_place, [i](const auto& place) {
      const auto* position = std::get_if<uint32_t>(&place);
      return position != nullptr && *position == i;
    });
    const auto index = static_cast<uint32_t>(first_key - named_place.begin());
    add_segment(PtePart::Kind::kNamedData, index, own[i].blob.size())
        .blobs.emplace_back(0, &own[i].blob);
    own_segments.push_back(last_segment());
  }

  for (pte::Plan& plan : raw.program.plans) {
    for (pte::Delegate& delegate : plan.delegates) {
      const uint32_t segment = payload_segments[delegate.payload];
      delegate.payload = static_cast<uint32_t>(raw.payloads.size());
      raw.payloads.push_back({.in_segment = true, .index = segment});
    }
  }
  for (size_t i = 0; i < named_.size(); ++i) {
    uint32_t segment = 0;
    if (const auto* a = std::get_if<Alias>(&named_place[i])) {
      const auto position = std::ranges::find(aliases, alias_range(*a)) - aliases.begin();
      segment = 1 + static_cast<uint32_t>(position);
    } else {
      segment = own_segments[std::get<uint32_t>(named_place[i])];
    }
    raw.named_data.push_back({named_[i].key, segment});
  }

  DH_ASSIGN(std::vector<uint8_t> flatbuffer, pte::encode_program(raw));
  const uint64_t base = end == 0 ? 0 : align_up(flatbuffer.size(), kSegmentAlignment);
  write_header(flatbuffer, base, end);

  PteLayout layout;
  layout.flatbuffer_size = flatbuffer.size();
  layout.constants_padding = constants.padding;
  const uint64_t header = pte::kLeadingBytes + pte::kExtendedHeaderBytes;
  layout.parts.push_back({PtePart::Kind::kHeader, {0, header}, 0});
  layout.parts.push_back({PtePart::Kind::kFlatbuffer, {header, flatbuffer.size() - header}, 0});
  const auto pad_to = [&](uint64_t offset) -> Status {
    const uint64_t gap = offset - out.position();
    if (gap == 0) return {};
    layout.parts.push_back({PtePart::Kind::kPadding, {out.position(), gap}, 0});
    layout.padding += gap;
    return out.write_zeros(gap);
  };
  DH_TRY(out.write(flatbuffer));
  if (base > 0) DH_TRY(pad_to(base));
  for (const Placed& segment : placed) {
    if (segment.range.size == 0) continue;
    const uint64_t start = base + segment.range.offset;
    DH_TRY(pad_to(start));
    layout.parts.push_back({segment.kind, {start, segment.range.size}, segment.index});
    for (const auto& [offset, blob] : segment.blobs) {
      DH_TRY(out.write_zeros(start + offset - out.position()));
      DH_TRY(blob->write(out));
    }
    switch (segment.kind) {
      case PtePart::Kind::kConstants:
        layout.constants_size += segment.range.size;
        break;
      case PtePart::Kind::kInitial:
        layout.initial_size += segment.range.size;
        break;
      case PtePart::Kind::kPayload:
        layout.payloads_size += segment.range.size;
        break;
      default:
        layout.named_data_size += segment.range.size;
    }
  }
  layout.file_size = out.position();

  layout.constants.push_back({});
  for (const ByteRange& e : constants.entries)
    layout.constants.push_back({base + e.offset, e.size});
  for (const uint32_t s : payload_segments) {
    layout.payloads.push_back({base + raw.segments[s].offset, raw.segments[s].size});
  }
  for (const auto& named : raw.named_data) {
    const ByteRange& s = raw.segments[named.segment];
    layout.named_data.push_back({base + s.offset, s.size});
  }
  for (const ByteRange& a : aliases) layout.aliased_size += a.size;
  return layout;
}

}  // namespace downhaul
