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

// Where everything goes, for one writing.
class PteBuilder::Placement {
 public:
  Placement(const PteBuilder& builder, const pte::Program& program) : builder_(builder) {
    raw_.program = program;
    find_aliases();
    place_constants();
    place_initial_contents();
    place_payloads();
    place_own_named_data();
    refer_to_segments();
  }

  Result<PteLayout> write(OutputFile& out) {
    DH_ASSIGN(std::vector<uint8_t> flatbuffer, pte::encode_program(raw_));
    base_ = end_ == 0 ? 0 : align_up(flatbuffer.size(), kSegmentAlignment);
    write_header(flatbuffer, base_, end_);
    DH_TRY(out.write(flatbuffer));
    layout_.flatbuffer_size = flatbuffer.size();
    const uint64_t header = pte::kLeadingBytes + pte::kExtendedHeaderBytes;
    layout_.parts.push_back({PtePart::Kind::kHeader, {0, header}, 0});
    layout_.parts.push_back({PtePart::Kind::kFlatbuffer, {header, flatbuffer.size() - header}, 0});
    for (const Placed& segment : placed_) {
      if (segment.range.size > 0) DH_TRY(write_segment(segment, out));
    }
    layout_.file_size = out.position();
    describe();
    return std::move(layout_);
  }

 private:
  // A stretch of a constant.
  struct Alias {
    uint32_t data_index;
    uint64_t offset;
    uint64_t size;
  };
  // A segment with bytes of its own; offsets from the segment base.
  struct Placed {
    PtePart::Kind kind;
    uint32_t index;
    ByteRange range;
    std::vector<std::pair<uint64_t, const Blob*>> blobs;  // by offset in the segment
  };

  // A named blob that is also a constant becomes a stretch of the constants; the others are stored
  // once each, whatever number of keys they have.
  void find_aliases() {
    for (const Entry& e : builder_.constants_) alignments_.push_back(e.alignment);
    ByHash own_by_hash;
    for (uint32_t i = 0; i < builder_.named_.size(); ++i) {
      const Named& n = builder_.named_[i];
      const uint32_t data_index = n.data_index > 0 ? n.data_index : find_constant(n.blob);
      if (data_index > 0) {
        uint64_t& alignment = alignments_[data_index - 1];
        alignment = std::max(alignment, kSegmentAlignment);
        named_places_.emplace_back(Alias{data_index, n.offset, n.size});
        continue;
      }
      const uint32_t position = find_or_add(own_, own_by_hash, n.blob, kConstantAlignment);
      if (position == first_key_.size()) first_key_.push_back(i);
      named_places_.emplace_back(position);
    }
  }

  uint32_t find_constant(const Blob& blob) const {
    if (blob.size() == 0) return 0;
    const auto [begin, end] = builder_.constants_by_hash_.equal_range(blob.hash());
    const auto found = std::find_if(begin, end, [&](const auto& candidate) {
      return builder_.constants_[candidate.second].blob.same_as(blob);
    });
    return found == end ? 0 : found->second + 1;
  }

  uint32_t add_segment(PtePart::Kind kind, uint32_t index, uint64_t size) {
    // An empty segment takes no padding, or it would end behind the file's last byte.
    const uint64_t offset = size == 0 ? end_ : align_up(end_, kSegmentAlignment);
    placed_.push_back({.kind = kind, .index = index, .range = {offset, size}, .blobs = {}});
    raw_.segments.push_back({offset, size});
    end_ = offset + size;
    return static_cast<uint32_t>(raw_.segments.size() - 1);
  }

  uint32_t add_packed_segment(PtePart::Kind kind, const std::vector<Entry>& entries,
                              const Packed& packed) {
    const uint32_t segment = add_segment(kind, 0, packed.size);
    for (size_t i = 0; i < entries.size(); ++i) {
      placed_.back().blobs.emplace_back(packed.entries[i].offset, &entries[i].blob);
    }
    return segment;
  }

  // The constants are segment 0, also when there are none. Their named stretches follow at once, so
  // that the segments' offsets stay sorted.
  void place_constants() {
    for (size_t i = 0; i < builder_.constants_.size(); ++i) {
      constants_.add(builder_.constants_[i].blob.size(), alignments_[i]);
    }
    raw_.constants = constants_.subsegments(
        add_packed_segment(PtePart::Kind::kConstants, builder_.constants_, constants_));
    for (const auto& place : named_places_) {
      if (const auto* a = std::get_if<Alias>(&place)) aliases_.push_back(range_of(*a));
    }
    std::ranges::sort(aliases_, before);
    aliases_.erase(std::unique(aliases_.begin(), aliases_.end()), aliases_.end());
    raw_.segments.insert(raw_.segments.end(), aliases_.begin(), aliases_.end());
  }

  static bool before(const ByteRange& a, const ByteRange& b) {
    return std::pair(a.offset, a.size) < std::pair(b.offset, b.size);
  }

  ByteRange range_of(const Alias& a) const {
    return {constants_.entries[a.data_index - 1].offset + a.offset, a.size};
  }

  void place_initial_contents() {
    if (builder_.initial_contents_.empty()) return;
    Packed packed;
    for (const Entry& e : builder_.initial_contents_) packed.add(e.blob.size(), e.alignment);
    raw_.initial_contents.push_back(packed.subsegments(
        add_packed_segment(PtePart::Kind::kInitial, builder_.initial_contents_, packed)));
  }

  void place_payloads() {
    for (uint32_t i = 0; i < builder_.payloads_.size(); ++i) {
      const Blob& blob = builder_.payloads_[i].blob;
      payload_segments_.push_back(add_segment(PtePart::Kind::kPayload, i, blob.size()));
      placed_.back().blobs.emplace_back(0, &blob);
    }
  }

  void place_own_named_data() {
    for (size_t i = 0; i < own_.size(); ++i) {
      own_segments_.push_back(
          add_segment(PtePart::Kind::kNamedData, first_key_[i], own_[i].blob.size()));
      placed_.back().blobs.emplace_back(0, &own_[i].blob);
    }
  }

  void refer_to_segments() {
    for (pte::Plan& plan : raw_.program.plans) {
      for (pte::Delegate& delegate : plan.delegates) {
        const uint32_t segment = payload_segments_[delegate.payload];
        delegate.payload = static_cast<uint32_t>(raw_.payloads.size());
        raw_.payloads.push_back({.in_segment = true, .index = segment});
      }
    }
    for (size_t i = 0; i < named_places_.size(); ++i) {
      uint32_t segment = 0;
      if (const auto* a = std::get_if<Alias>(&named_places_[i])) {
        const auto at = std::ranges::lower_bound(aliases_, range_of(*a), before);
        segment = 1 + static_cast<uint32_t>(at - aliases_.begin());
      } else {
        segment = own_segments_[std::get<uint32_t>(named_places_[i])];
      }
      raw_.named_data.push_back({builder_.named_[i].key, segment});
    }
  }

  Status write_segment(const Placed& segment, OutputFile& out) {
    const uint64_t start = base_ + segment.range.offset;
    if (const uint64_t gap = start - out.position(); gap > 0) {
      layout_.parts.push_back({PtePart::Kind::kPadding, {out.position(), gap}, 0});
      layout_.padding += gap;
      DH_TRY(out.write_zeros(gap));
    }
    for (const auto& [offset, blob] : segment.blobs) {
      DH_TRY(out.write_zeros(start + offset - out.position()));
      DH_TRY(blob->write(out));
    }
    layout_.parts.push_back({segment.kind, {start, segment.range.size}, segment.index});
    size_by(segment.kind) += segment.range.size;
    return {};
  }

  uint64_t& size_by(PtePart::Kind kind) {
    switch (kind) {
      case PtePart::Kind::kConstants:
        return layout_.constants_size;
      case PtePart::Kind::kInitial:
        return layout_.initial_size;
      case PtePart::Kind::kPayload:
        return layout_.payloads_size;
      default:
        return layout_.named_data_size;
    }
  }

  ByteRange in_file(uint32_t segment) const {
    return {base_ + raw_.segments[segment].offset, raw_.segments[segment].size};
  }

  void describe() {
    layout_.constants_padding = constants_.padding;
    layout_.constants.push_back({});
    for (const ByteRange& e : constants_.entries) {
      layout_.constants.push_back({base_ + e.offset, e.size});
    }
    for (const uint32_t s : payload_segments_) layout_.payloads.push_back(in_file(s));
    for (const auto& n : raw_.named_data) layout_.named_data.push_back(in_file(n.segment));
    for (const ByteRange& a : aliases_) layout_.aliased_size += a.size;
  }

  const PteBuilder& builder_;
  pte::RawProgram raw_;
  std::vector<uint64_t> alignments_;  // of the constants
  Packed constants_;
  std::vector<std::variant<Alias, uint32_t>> named_places_;  // by key; a number counts through own_
  std::vector<ByteRange> aliases_;                           // sorted, each once
  std::vector<Entry> own_;                                   // named blobs that are no constants
  std::vector<uint32_t> first_key_;                          // of each of own_
  std::vector<uint32_t> payload_segments_;
  std::vector<uint32_t> own_segments_;
  std::vector<Placed> placed_;
  uint64_t end_ = 0;   // of the segments so far
  uint64_t base_ = 0;  // where they start in the file
  PteLayout layout_;
};

Result<PteLayout> PteBuilder::write(const pte::Program& program, OutputFile& out) const {
  DH_CHECK(out.position() == 0);
  pte::StorageLimits limits;
  for (const Entry& e : constants_) limits.constants.push_back(e.blob.size());
  for (const Entry& e : initial_contents_) limits.initial_contents.push_back(e.blob.size());
  limits.num_payloads = payloads_.size();
  Status status = pte::verify_program(program, limits);
  if (status.kind() == ErrorKind::kInvalidFile) return invalid_graph(status.message());
  DH_TRY(std::move(status));
  return Placement(*this, program).write(out);
}

}  // namespace downhaul
