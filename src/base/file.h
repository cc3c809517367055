#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

/// Mapped input files, and output files that appear whole or not at all.
namespace downhaul {

using Bytes = std::span<const uint8_t>;

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A regular file mapped read-only for as long as the object lives. Pages are read when touched.
/// Not copyable; share it by shared_ptr. Thread-safe to read.
class MappedFile {
 public:
  /// Errors: kNotFound, kIo (permission), kInvalidFile for a folder, FIFO or device (never blocks).
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  int fd() const { return fd_; }

  /// Gives the resident pages inside `range` (a part of bytes()) back to the system. The content
  /// stays readable. Keeps peak memory low after a range has been read once.
  void release(Bytes range) const;

 private:
  MappedFile() = default;
  std::string path_;
  int fd_ = -1;
  Bytes bytes_;
};

/// Writes a file without a name (else a temporary one) in the folder of `path`; `commit` moves it
/// to `path`. Without commit (an error, an exception, a signal between) the destination stays as it
/// was and nothing else stays. A link at `path` is replaced; what it points to is left alone.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status write(Bytes bytes);
  Status write_zeros(uint64_t count);
  /// Appends `size` bytes of `source` from `offset`, inside the kernel where it can.
  Status copy_from(const MappedFile& source, uint64_t offset, uint64_t size);
  uint64_t position() const { return position_; }
  /// Flushes and renames. With `sync`, also waits until the data is on the disk.
  Status commit(bool sync = false);

 private:
  OutputFile() = default;
  Status flush();
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  uint64_t position_ = 0;
  std::vector<uint8_t> buffer_;
};

/// Writes a folder under a temporary name beside `path`; `commit` moves it to `path` and removes
/// the folder that was there. Without commit the destination stays as it was.
class OutputFolder {
 public:
  /// `folders`: to create in it, parents first. Errors: kIo when `path` is a file or a link.
  static Result<OutputFolder> create(const std::string& path,
                                     const std::vector<std::string>& folders);
  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  ~OutputFolder();

  /// Where to write a file of it.
  std::string file(const std::string& relative) const { return temporary_ + "/" + relative; }
  Status commit();

 private:
  OutputFolder() = default;
  std::string path_;
  std::string temporary_;
  std::vector<std::string> folders_;
};

/// Removes the temporaries of all unfinished OutputFiles when a signal ends the program; lets a
/// limit on the size of files be an error of writing instead. Call once from main.
void remove_unfinished_outputs_on_signal();

/// Whole small file as text. Errors: as MappedFile::open, and kInvalidFile above `max_bytes`.
Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes = 64u << 20);

/// Writes `bytes` to `path` through OutputFile.
Status write_file(const std::string& path, Bytes bytes);

bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
/// Creates `path` and its parents. Fine when it exists.
Status make_directories(const std::string& path);

}  // namespace downhaul
