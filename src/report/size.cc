#include "report/size.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/strings.h"
#include "formats/xnn/xnn.h"

namespace downhaul {
namespace {

struct Block {
  Bytes content;
  std::string owner;
};

/// Every constant, named blob and inline delegate constant, each stretch once.
std::vector<Block> blocks_of(const PteFile& file) {
  std::map<uint64_t, Block> by_offset;
  const auto add = [&](pte::ByteRange range, std::string owner) {
    const auto [it, fresh] = by_offset.try_emplace(range.offset, Block{file.bytes(range), owner});
    if (!fresh) it->second.owner += cat(" = ", owner);
  };
  for (const pte::Plan& plan : file.program.plans) {
    for (const auto& instruction : plan.chains[0].instructions) {
      const auto* call = std::get_if<pte::KernelCall>(&instruction);
      if (call == nullptr) continue;
      const std::string name = plan.operators[static_cast<size_t>(call->op_index)].full_name();
      for (size_t i = 0; i < call->args.size(); ++i) {
        const auto& value = plan.values[static_cast<size_t>(call->args[i])];
        const auto* tensor = std::get_if<pte::Tensor>(&value);
        if (tensor == nullptr || tensor->data_index == 0 || tensor->allocation) continue;
        if (const auto range = file.data_range(*tensor)) {
          const std::string owner =
              cat("constant ", tensor->data_index, " (", name, " argument ", i, ")");
          if (!by_offset.contains(range->offset)) add(*range, owner);
        }
      }
    }
  }
  for (const PteNamedData& named : file.named_data) {
    add(named.range, cat("named data '", printable(named.key, 64), "'"));
  }
  for (size_t p = 0; p < file.payloads.size(); ++p) {
    const auto graph = read_xnn_payload(file.bytes(file.payloads[p]));
    if (!graph.ok()) continue;
    for (size_t c = 1; c < graph->constants.size(); ++c) {
      const XnnConstant& constant = graph->constants[c];
      if (constant.data.empty() || !constant.named_key.empty()) continue;
      const auto offset = static_cast<uint64_t>(constant.data.data() - file.file->bytes().data());
      add({offset, constant.size}, cat("payload ", p, " constant ", c));
    }
  }
  std::vector<Block> out;
  for (auto& [offset, block] : by_offset) out.push_back(std::move(block));
  return out;
}

bool less_content(Bytes a, Bytes b) {
  if (a.size() != b.size()) return a.size() < b.size();
  return std::memcmp(a.data(), b.data(), a.size()) < 0;
}

void find_duplicates(std::vector<Block> blocks, uint64_t min_bytes, FileSizeReport& report) {
  std::erase_if(blocks, [&](const Block& b) { return b.content.size() < min_bytes; });
  std::stable_sort(blocks.begin(), blocks.end(), [&](const Block& a, const Block& b) {
    return less_content(a.content, b.content);
  });
  for (size_t i = 0; i < blocks.size();) {
    size_t end = i + 1;
    while (end < blocks.size() && !less_content(blocks[i].content, blocks[end].content)) {
      ++end;
    }
    if (end - i > 1) {
      DuplicateBytes duplicate{blocks[i].content.size(), {}};
      for (size_t k = i; k < end; ++k) duplicate.owners.push_back(blocks[k].owner);
      report.duplicated_bytes += duplicate.bytes * (end - i - 1);
      report.duplicates.push_back(std::move(duplicate));
    }
    i = end;
  }
  std::stable_sort(report.duplicates.begin(), report.duplicates.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

void add_part(const std::string& name, uint64_t bytes, FileSizeReport& report) {
  auto it = std::find_if(report.parts.begin(), report.parts.end(),
                         [&](const SizePart& p) { return p.name == name; });
  if (it == report.parts.end()) it = report.parts.insert(it, SizePart{name, 0});
  it->bytes += bytes;
}

std::string megabytes(uint64_t bytes) {
  return cat(fixed(static_cast<double>(bytes) / 1e6, 2), " MB");
}

}  // namespace

FileSizeReport size_report(const PteFile& file, uint64_t min_duplicate) {
  FileSizeReport report;
  report.file_size = file.file->bytes().size();
  for (const PtePart& part : file.parts) {
    add_part(std::string(name(part.kind)), part.range.size, report);
  }
  find_duplicates(blocks_of(file), min_duplicate, report);
  return report;
}

Result<FileSizeReport> size_report(const ZipArchive& archive, uint64_t file_size,
                                   uint64_t min_duplicate) {
  FileSizeReport report;
  report.file_size = file_size;
  std::vector<Block> blocks;
  std::vector<ZipBytes> inflated;  // keeps alive what the blocks point to
  uint64_t in_entries = 0;
  for (const ZipEntry& entry : archive.entries()) {
    // The first folder is the name of the archive.
    const std::string inside = entry.name.substr(entry.name.find('/') + 1);
    const auto is_in = [&](std::string_view folder) { return inside.starts_with(folder); };
    add_part(is_in("data/weights/")         ? "weights"
             : is_in("data/constants/")     ? "constants"
             : is_in("data/sample_inputs/") ? "sample inputs"
             : is_in("models/")             ? "program"
                                            : "other entries",
             entry.stored_size, report);
    in_entries += entry.stored_size;
    if (entry.size < min_duplicate) continue;
    DH_ASSIGN(ZipBytes content, archive.read(entry));
    blocks.push_back({content.bytes, printable(entry.name, 64)});
    inflated.push_back(std::move(content));
  }
  // Entries that share their bytes would count twice; whole archives of ours and of torch do not.
  add_part("zip headers and padding", file_size - std::min(file_size, in_entries), report);
  find_duplicates(std::move(blocks), min_duplicate, report);
  return report;
}

std::string print(const FileSizeReport& r) {
  std::string out = cat("Size  ", r.file_size, " bytes (", megabytes(r.file_size), ")\n");
  for (const SizePart& p : r.parts) out += cat("  ", p.name, ": ", p.bytes, " bytes\n");
  if (!r.duplicates.empty()) {
    out += cat("  stored more than once: ", megabytes(r.duplicated_bytes), "\n");
  }
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(kShown, r.duplicates.size()); ++i) {
    const DuplicateBytes& d = r.duplicates[i];
    out += cat("    ", d.owners.size(), " copies of ", d.bytes, " bytes: ", join(d.owners, " | "),
               "\n");
  }
  if (r.duplicates.size() > kShown) out += cat("    and ", r.duplicates.size() - kShown, " more\n");
  return out;
}

}  // namespace downhaul
