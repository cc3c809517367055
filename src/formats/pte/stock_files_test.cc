#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/strings.h"
#include "formats/pte/pte.h"
#include "formats/xnn/xnn.h"

namespace downhaul {
namespace {

uint64_t sum(const std::vector<PtePart>& parts) {
  uint64_t total = 0;
  for (const PtePart& p : parts) total += p.range.size;
  return total;
}

// Payloads survive being read, written and read again, with inline constants in place of named
// ones.
void check_payload(const PteFile& file, const pte::Delegate& delegate) {
  auto graph = read_xnn_payload(
      file.payload(delegate), [&file](std::string_view key) { return file.find_named_data(key); });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (XnnConstant& c : graph->constants) c.named_key.clear();
  auto written = write_xnn_payload(*graph);
  ASSERT_TRUE(written.ok()) << written.status().message();
  auto again = read_xnn_payload(*written);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->values, graph->values);
  EXPECT_EQ(again->nodes, graph->nodes);
  ASSERT_EQ(again->constants.size(), graph->constants.size());
  for (size_t i = 0; i < again->constants.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(again->constants[i].data, graph->constants[i].data));
  }
}

// Reads every .pte below the folder that DOWNHAUL_STOCK_FILES names, files of the stock exporter.
TEST(StockFiles, AreReadWithTheirPayloads) {
  const char* folder = std::getenv("DOWNHAUL_STOCK_FILES");
  if (folder == nullptr)
    GTEST_SKIP() << "DOWNHAUL_STOCK_FILES is not set; tests/peers/test_pte_reader.py makes files "
                    "and sets it";
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".pte") continue;
    SCOPED_TRACE(entry.path().string());
    auto mapped = MappedFile::open(entry.path().string());
    ASSERT_TRUE(mapped.ok());
    auto file = read_pte(*mapped);
    EXPECT_TRUE(file.ok()) << file.status().message();
    if (!file.ok()) continue;
    ++files;
    EXPECT_EQ(sum(file->parts), (*mapped)->bytes().size());
    for (const pte::Plan& plan : file->program.plans) {
      for (const pte::Delegate& d : plan.delegates) {
        if (d.id == "XnnpackBackend") check_payload(*file, d);
      }
    }
  }
  EXPECT_GT(files, 0u);
}

}  // namespace
}  // namespace downhaul
