#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/strings.h"
#include "formats/pte/pte.h"
#include "formats/pte/schema.h"
#include "formats/sniff.h"

namespace downhaul {
namespace {

using pte::ByteRange;

constexpr std::string_view kIdentifier = "ET12";
constexpr std::string_view kHeaderMagic = "eh00";
constexpr uint32_t kSchemaVersion = 0;
constexpr uint64_t kMinimumFile = 64;  // what the stock reader loads first
constexpr uint64_t kMaxFlatbuffer = (uint64_t{1} << 31) - 1;
constexpr uint32_t kOldHeaderLength = 24;  // without segment_data_size
constexpr uint32_t kNewHeaderLength = 32;
// What a small file may take in memory; larger ones may take as much again as they are long.
constexpr uint64_t kBaseMemory = 40u << 20;

template <typename T>
T load(Bytes bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

class Reader {
 public:
  explicit Reader(std::shared_ptr<const MappedFile> file) : bytes_(file->bytes()) {
    out_.file = std::move(file);
  }

  Result<PteFile> run() {
    DH_TRY(check_identifier());
    Status status = read_all();
    if (!status.ok()) return std::move(status).with_context(quoted_path());
    return std::move(out_);
  }

 private:
  // What a segment is for. A segment with several uses counts as the first.
  struct Use {
    bool constants = false;
    bool initial = false;
    bool named = false;
    std::optional<uint32_t> payload;      // position in PteFile::payloads
    std::optional<uint32_t> named_index;  // position in PteFile::named_data
  };

  std::string quoted_path() const { return cat("'", printable(out_.file->path()), "'"); }

  Status check_identifier() const {
    const std::string_view found =
        bytes_.size() < pte::kLeadingBytes ? "" : as_text(bytes_.subspan(4, 4));
    if (found == kIdentifier) return {};
    if (found.starts_with("ET")) {
      return invalid_file(cat(quoted_path(), ": file identifier is '", printable(found),
                              "', expected '", kIdentifier,
                              "' (written by another generation of ExecuTorch)"));
    }
    return unexpected_file(out_.file->path(), "a .pte program");
  }

  Status read_all() {
    DH_TRY(read_header());
    if (out_.program_size > kMaxFlatbuffer) {
      return invalid_file(cat("program_size is ", out_.program_size,
                              ", a flatbuffer holds at most ", kMaxFlatbuffer));
    }
    auto decoded =
        pte::decode_program(bytes_.first(out_.program_size), kBaseMemory + bytes_.size());
    if (!decoded.ok()) return decoded.status();
    pte::RawProgram raw = *std::move(decoded);
    out_.version = raw.version;
    if (raw.version != kSchemaVersion) {
      return invalid_file(cat("schema version ", raw.version, ", this reader knows version ",
                              kSchemaVersion, " (written by a newer exporter)"));
    }
    DH_TRY(place_segments(raw));
    DH_TRY(place_constants(raw));
    DH_TRY(place_payloads(raw));
    DH_TRY(place_named_data(raw));
    out_.program = std::move(raw.program);
    DH_TRY(map_parts());
    return pte::verify_program(out_.program, limits());
  }

  Status read_header() {
    if (bytes_.size() < kMinimumFile) {
      return invalid_file(
          cat("the file is cut off: ", bytes_.size(), " bytes, expected at least ", kMinimumFile));
    }
    if (as_text(bytes_.subspan(8, 4)) != kHeaderMagic) {
      out_.program_size = bytes_.size();
      return {};
    }
    const auto length = load<uint32_t>(bytes_, 12);
    if (length < kOldHeaderLength) {
      return invalid_file(
          cat("extended header of ", length, " bytes, expected at least ", kOldHeaderLength));
    }
    out_.header_length = length;
    out_.program_size = load<uint64_t>(bytes_, 16);
    out_.segment_base = load<uint64_t>(bytes_, 24);
    if (length >= kNewHeaderLength) out_.segment_data_size = load<uint64_t>(bytes_, 32);
    if (!in_range(0, out_.program_size, bytes_.size())) {
      return invalid_file(cat("the file is cut off or its header damaged: the program has ",
                              out_.program_size, " bytes, the file ", bytes_.size()));
    }
    if (out_.program_size < pte::kLeadingBytes + kOldHeaderLength) {
      return invalid_file(cat("program_size is ", out_.program_size, ", less than the header"));
    }
    if (out_.segment_base > bytes_.size()) {
      return invalid_file(cat("the file is cut off or its header damaged: segments start at ",
                              out_.segment_base, ", the file has ", bytes_.size(), " bytes"));
    }
    if (out_.segment_base != 0 && out_.segment_base < out_.program_size) {
      return invalid_file(cat("segments start at ", out_.segment_base, ", inside the program of ",
                              out_.program_size, " bytes"));
    }
    if (!in_range(out_.segment_base, out_.segment_data_size, bytes_.size())) {
      return invalid_file(cat("the file is cut off: segments of ", out_.segment_data_size,
                              " bytes start at ", out_.segment_base, ", the file has ",
                              bytes_.size(), " bytes"));
    }
    return {};
  }

  Status place_segments(const pte::RawProgram& raw) {
    // The stock exporter lists an empty constant segment even when it writes no segments at all.
    const bool has_bytes =
        std::ranges::any_of(raw.segments, [](const ByteRange& s) { return s.size > 0; });
    if (has_bytes && out_.segment_base == 0) {
      return invalid_file(cat("the program has ", raw.segments.size(),
                              " segments, but the header does not say where they start"));
    }
    const uint64_t end =
        out_.segment_data_size > 0 ? out_.segment_base + out_.segment_data_size : bytes_.size();
    for (size_t i = 0; i < raw.segments.size(); ++i) {
      const ByteRange& s = raw.segments[i];
      if (!in_range(s.offset, s.size, end - out_.segment_base)) {
        return invalid_file(cat("segment ", i, ": ", s.size, " bytes at offset ", s.offset,
                                ", but the segments have ", end - out_.segment_base, " bytes"));
      }
      out_.segments.push_back({out_.segment_base + s.offset, s.size});
    }
    uses_.resize(out_.segments.size());
    return {};
  }

  Status check_segment(uint32_t index, std::string_view what) const {
    if (index < out_.segments.size()) return {};
    return invalid_file(
        cat(what, ": segment ", index, ", but the file has ", out_.segments.size()));
  }

  // Offsets inside one segment, each running to its end.
  Status place_subsegments(const pte::RawProgram::Subsegments& s, std::string_view what,
                           std::vector<ByteRange>& ranges) const {
    DH_TRY(check_segment(s.segment, what));
    const ByteRange& segment = out_.segments[s.segment];
    ranges.reserve(s.offsets.size());
    for (size_t i = 0; i < s.offsets.size(); ++i) {
      if (i == 0) {
        ranges.push_back({segment.offset, 0});  // the placeholder for "no data"
        continue;
      }
      if (s.offsets[i] > segment.size) {
        return invalid_file(cat(what, " ", i, ": offset ", s.offsets[i], " in a segment of ",
                                segment.size, " bytes"));
      }
      ranges.push_back({segment.offset + s.offsets[i], segment.size - s.offsets[i]});
    }
    return {};
  }

  Status place_constants(const pte::RawProgram& raw) {
    if (!raw.constants.offsets.empty()) {
      // A program without constants may point at a segment that does not exist.
      if (raw.constants.offsets.size() > 1 || raw.constants.segment < out_.segments.size()) {
        DH_TRY(place_subsegments(raw.constants, "constant", out_.constants));
        uses_[raw.constants.segment].constants = true;
      }
    } else if (!raw.inline_constants.empty()) {
      out_.inline_constants = true;
      out_.constants = raw.inline_constants;
    }
    if (out_.constants.empty()) out_.constants.push_back({});
    if (raw.initial_contents.size() > 1) {
      return unsupported(cat(raw.initial_contents.size(),
                             " segments with initial contents of mutable state, at most 1"));
    }
    for (const auto& s : raw.initial_contents) {
      DH_TRY(place_subsegments(s, "initial content", out_.initial_contents));
      uses_[s.segment].initial = true;
    }
    return {};
  }

  Status place_payloads(pte::RawProgram& raw) {
    // Each payload once, also when several delegates share it.
    std::vector<std::optional<uint32_t>> inline_payload(raw.inline_payloads.size());
    for (pte::Plan& plan : raw.program.plans) {
      for (size_t i = 0; i < plan.delegates.size(); ++i) {
        pte::Delegate& delegate = plan.delegates[i];
        const pte::RawProgram::PayloadReference& from = raw.payloads[delegate.payload];
        const std::string what = cat("delegate ", i);
        if (from.in_segment) {
          DH_TRY(check_segment(from.index, what));
          std::optional<uint32_t>& position = uses_[from.index].payload;
          if (!position) position = add_payload(out_.segments[from.index]);
          delegate.payload = *position;
        } else {
          if (from.index >= inline_payload.size()) {
            return invalid_file(cat(what, ": inline payload ", from.index, ", but the file has ",
                                    inline_payload.size()));
          }
          std::optional<uint32_t>& position = inline_payload[from.index];
          if (!position) position = add_payload(raw.inline_payloads[from.index]);
          delegate.payload = *position;
        }
      }
    }
    return {};
  }

  uint32_t add_payload(const ByteRange& range) {
    out_.payloads.push_back(range);
    return static_cast<uint32_t>(out_.payloads.size() - 1);
  }

  Status place_named_data(const pte::RawProgram& raw) {
    std::unordered_set<std::string_view> keys;
    for (const auto& named : raw.named_data) {
      const std::string what = cat("named data '", printable(named.key, 80), "'");
      DH_TRY(check_segment(named.segment, what));
      if (!keys.insert(named.key).second) return invalid_file(cat(what, " is there twice"));
      Use& use = uses_[named.segment];
      if (!use.named) use.named_index = static_cast<uint32_t>(out_.named_data.size());
      use.named = true;
      out_.named_data.push_back({.key = named.key, .range = out_.segments[named.segment]});
    }
    return {};
  }

  static PtePart part_of(const Use& use, const ByteRange& range) {
    using Kind = PtePart::Kind;
    if (use.constants) return {Kind::kConstants, range, 0};
    if (use.initial) return {Kind::kInitial, range, 0};
    if (use.payload) return {Kind::kPayload, range, *use.payload};
    if (use.named) return {Kind::kNamedData, range, *use.named_index};
    return {Kind::kUnused, range, 0};
  }

  // Accounts for every byte of the file once. Segments must not overlap, except that a named blob
  // may be a stretch of the constants.
  Status map_parts() {
    using Kind = PtePart::Kind;
    const uint64_t header =
        out_.header_length == 0
            ? pte::kLeadingBytes
            : std::min<uint64_t>(pte::kLeadingBytes + out_.header_length, out_.program_size);
    out_.parts.push_back({Kind::kHeader, {0, header}, 0});
    out_.parts.push_back({Kind::kFlatbuffer, {header, out_.program_size - header}, 0});
    uint64_t end = out_.program_size;
    const auto pad_to = [&](uint64_t offset, Kind kind) {
      if (offset > end) out_.parts.push_back({kind, {end, offset - end}, 0});
      end = std::max(end, offset);
    };

    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < out_.segments.size(); ++i) {
      if (out_.segments[i].size > 0) order.push_back(i);
    }
    std::ranges::sort(order, [this](uint32_t a, uint32_t b) {
      const ByteRange& x = out_.segments[a];
      const ByteRange& y = out_.segments[b];
      if (x.offset != y.offset) return x.offset < y.offset;
      if (uses_[a].constants != uses_[b].constants) return uses_[a].constants;
      if (x.size != y.size) return x.size > y.size;
      return a < b;
    });
    ByteRange constants;
    uint32_t previous = 0;
    for (const uint32_t i : order) {
      const ByteRange& segment = out_.segments[i];
      const PtePart part = part_of(uses_[i], segment);
      if (segment.offset < end) {
        const bool alias =
            part.kind == Kind::kNamedData && segment.offset >= constants.offset &&
            in_range(segment.offset - constants.offset, segment.size, constants.size);
        if (!alias) return invalid_file(cat("segments ", previous, " and ", i, " overlap"));
        continue;
      }
      pad_to(segment.offset, Kind::kPadding);
      out_.parts.push_back(part);
      end = segment.offset + segment.size;
      previous = i;
      if (part.kind == Kind::kConstants) constants = segment;
    }
    if (out_.segment_base > end) pad_to(out_.segment_base, Kind::kPadding);
    pad_to(bytes_.size(), Kind::kTrailing);
    for (PteNamedData& named : out_.named_data) {
      named.inside_constants =
          constants.size > 0 && named.range.offset >= constants.offset &&
          in_range(named.range.offset - constants.offset, named.range.size, constants.size);
    }
    return {};
  }

  pte::StorageLimits limits() const {
    pte::StorageLimits limits;
    limits.constants.clear();
    limits.initial_contents.clear();
    for (const ByteRange& r : out_.constants) limits.constants.push_back(r.size);
    for (const ByteRange& r : out_.initial_contents) limits.initial_contents.push_back(r.size);
    limits.num_payloads = out_.payloads.size();
    return limits;
  }

  Bytes bytes_;
  PteFile out_;
  std::vector<Use> uses_;
};

}  // namespace

std::string_view name(PtePart::Kind kind) {
  using Kind = PtePart::Kind;
  switch (kind) {
    case Kind::kHeader:
      return "header";
    case Kind::kFlatbuffer:
      return "program";
    case Kind::kConstants:
      return "constants";
    case Kind::kInitial:
      return "initial state";
    case Kind::kPayload:
      return "delegate payload";
    case Kind::kNamedData:
      return "named data";
    case Kind::kUnused:
      return "unused segment";
    case Kind::kPadding:
      return "padding";
    case Kind::kTrailing:
      return "trailing bytes";
  }
  return "";
}

std::optional<pte::ByteRange> PteFile::data_range(const pte::Tensor& tensor) const {
  if (tensor.data_index == 0 || !tensor.external_name.empty()) return std::nullopt;
  const auto& ranges = tensor.allocation ? initial_contents : constants;
  const std::optional<uint64_t> size = pte::tensor_bytes(tensor);
  DH_CHECK(size && tensor.data_index < ranges.size());
  return ByteRange{ranges[tensor.data_index].offset, *size};
}

std::optional<Bytes> PteFile::find_named_data(std::string_view key) const {
  const auto found = std::ranges::find(named_data, key, &PteNamedData::key);
  if (found == named_data.end()) return std::nullopt;
  return bytes(found->range);
}

Result<PteFile> read_pte(std::shared_ptr<const MappedFile> file) {
  return Reader(std::move(file)).run();
}

}  // namespace downhaul
