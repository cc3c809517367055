// Time of one thread to tokenize the lines of a file, pass by pass:
//   tokenizer_bench TOKENIZER FILE [PASSES]
// Prints one line a pass: seconds, then the tokens and the bytes of a pass.

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"
#include "text/tokenizer.h"

int main(int argc, char** argv) {
  using namespace downhaul;
  if (argc < 3) return std::fprintf(stderr, "usage: tokenizer_bench TOKENIZER FILE [PASSES]\n"), 2;
  const int passes = argc > 3 ? std::atoi(argv[3]) : 5;
  const auto tokenizer = text::Tokenizer::load(argv[1]);
  const auto file = read_text_file(argv[2], uint64_t{1} << 30);
  for (const Status& status : {tokenizer.status(), file.status()}) {
    if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
  }
  const auto lines = split(*file, '\n');
  for (int pass = 0; pass < passes; ++pass) {
    text::Tokenizer::Workspace workspace;
    text::Encoding encoding;
    size_t tokens = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string_view line : lines) {
      const Status status = tokenizer->encode(line, nullptr, {}, workspace, encoding);
      if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
      tokens += encoding.size();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("%.6f %zu %zu\n", seconds.count(), tokens, file->size());
    std::fflush(stdout);
  }
}
