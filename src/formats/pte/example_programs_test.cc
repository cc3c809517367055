#include "formats/pte/example_programs.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace downhaul {
namespace {

// With DOWNHAUL_EXAMPLES=DIR in the environment the files stay in DIR, for the stock runtime to
// run.
TEST(ExamplePrograms, AreWrittenAndReadBack) {
  const char* wanted = std::getenv("DOWNHAUL_EXAMPLES");
  const std::string folder = wanted != nullptr ? wanted : ::testing::TempDir();
  auto all = examples::all();
  ASSERT_TRUE(all.ok()) << all.status().message();
  for (const examples::Example& e : *all) {
    SCOPED_TRACE(e.name);
    const std::string path = folder + "/" + e.name + ".pte";
    auto out = OutputFile::create(path);
    ASSERT_TRUE(out.ok()) << out.status().message();
    auto layout = e.builder.write(e.program, *out);
    ASSERT_TRUE(layout.ok()) << layout.status().message();
    ASSERT_TRUE(out->commit().ok());
    auto file = MappedFile::open(path);
    ASSERT_TRUE(file.ok());
    auto read = read_pte(*file);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->program, e.program);
    EXPECT_EQ(layout->file_size, (*file)->bytes().size());
  }
}

}  // namespace
}  // namespace downhaul
