#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/checked.h"
#include "base/strings.h"

namespace downhaul {
namespace {

std::string quoted(const std::string& path) { return cat("'", printable(path), "'"); }

Status system_error(const std::string& action, const std::string& path, int error) {
  const std::string why = std::generic_category().message(error);
  return {error == ENOENT || error == ENOTDIR ? ErrorKind::kNotFound : ErrorKind::kIo,
          cat("cannot ", action, " ", quoted(path), ": ", why)};
}

// Names of unfinished outputs, readable from a signal handler: fixed storage, no locks.
constexpr size_t kMaxUnfinished = 16;
constexpr size_t kMaxPath = 4096;
struct UnfinishedSlot {
  std::atomic<bool> used{false};
  std::atomic<bool> ready{false};
  std::array<char, kMaxPath> path{};
};
std::array<UnfinishedSlot, kMaxUnfinished> unfinished;

void remember_unfinished(const std::string& path) {
  if (path.size() >= kMaxPath) return;
  for (UnfinishedSlot& slot : unfinished) {
    bool expected = false;
    if (!slot.used.compare_exchange_strong(expected, true)) continue;
    std::memcpy(slot.path.data(), path.c_str(), path.size() + 1);
    slot.ready.store(true);
    return;
  }
}

void forget_unfinished(const std::string& path) {
  for (UnfinishedSlot& slot : unfinished) {
    if (!slot.ready.load() || path != slot.path.data()) continue;
    slot.ready.store(false);
    slot.used.store(false);
    return;
  }
}

extern "C" void remove_unfinished_and_die(int signal_number) {
  // Folders hold each other: as many rounds as they nest.
  for (size_t round = 0; round < kMaxUnfinished; ++round) {
    for (UnfinishedSlot& slot : unfinished) {
      if (slot.ready.load() && ::unlink(slot.path.data()) != 0) ::rmdir(slot.path.data());
    }
  }
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

constexpr size_t kBufferBytes = 1u << 20;

/// A file without a name in the folder of `path`, or -1 where that cannot be had. Whatever ends the
/// program, SIGKILL included, nothing of it stays.
int open_unnamed(const std::string& path) {
  if (::access("/proc/self/fd", X_OK) != 0) return -1;  // needed to name it
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  return ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
}

bool is_unnamed(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 && info.st_nlink == 0;
}

int name_unnamed(int fd, const std::string& path) {
  const std::string link = cat("/proc/self/fd/", fd);
  return ::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO without a writer must not hang.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error("open", path, errno);
  auto file = std::shared_ptr<MappedFile>(new MappedFile());
  file->path_ = path;
  file->fd_ = fd;
  struct stat info{};
  if (::fstat(fd, &info) != 0) return system_error("inspect", path, errno);
  if (S_ISDIR(info.st_mode))
    return invalid_file(cat(quoted(path), " is a folder, expected a file"));
  if (!S_ISREG(info.st_mode)) {
    return invalid_file(cat(quoted(path), " is not a regular file (a pipe or a device)"));
  }
  if (info.st_size > 0) {
    const auto size = static_cast<size_t>(info.st_size);
    void* map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return system_error("map", path, errno);
    file->bytes_ = {static_cast<const uint8_t*>(map), size};
  }
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::release(Bytes range) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = static_cast<uint64_t>(range.data() - bytes_.data());
  if (!in_range(begin, range.size(), bytes_.size())) return;
  // Only pages that lie wholly inside: neighbours may be in use.
  const uint64_t first = align_up(begin, page);
  const uint64_t last = (begin + range.size()) / page * page;
  if (first >= last) return;
  ::madvise(const_cast<uint8_t*>(bytes_.data()) + first, last - first, MADV_DONTNEED);
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  if (is_directory(path)) return io_error(cat("cannot write ", quoted(path), ": it is a folder"));
  // A device or a pipe would be replaced by a file.
  if (struct stat info{}; ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return io_error(cat("cannot write ", quoted(path), ": it is not a regular file"));
  }
  OutputFile out;
  out.path_ = path;
  static std::atomic<int> counter{0};
  out.temporary_ = cat(path, ".tmp-", ::getpid(), "-", counter.fetch_add(1));
  out.fd_ = open_unnamed(path);
  if (out.fd_ >= 0) return Result<OutputFile>(std::move(out));
  remember_unfinished(out.temporary_);
  out.fd_ = ::open(out.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (out.fd_ < 0) {
    const int error = errno;
    forget_unfinished(out.temporary_);
    out.temporary_.clear();
    return system_error("create", path, error);
  }
  return Result<OutputFile>(std::move(out));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(other.fd_),
      position_(other.position_),
      buffer_(std::move(other.buffer_)) {
  other.fd_ = -1;
  other.temporary_.clear();
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
    forget_unfinished(temporary_);
  }
}

Status OutputFile::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("write", path_, errno);
    done += static_cast<size_t>(n);
  }
  buffer_.clear();
  return {};
}

Status OutputFile::write(Bytes bytes) {
  position_ += bytes.size();
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (buffer_.size() == kBufferBytes) DH_TRY(flush());
  }
  return {};
}

Status OutputFile::write_zeros(uint64_t count) {
  static constexpr std::array<uint8_t, 4096> kZeros{};
  while (count > 0) {
    const uint64_t n = std::min<uint64_t>(count, kZeros.size());
    DH_TRY(write({kZeros.data(), n}));
    count -= n;
  }
  return {};
}

Status OutputFile::copy_from(const MappedFile& source, uint64_t offset, uint64_t size) {
  if (!in_range(offset, size, source.bytes().size())) {
    return invalid_file(cat(quoted(source.path()), ": bytes ", offset, "+", size,
                            " lie outside the file of ", source.bytes().size()));
  }
  DH_TRY(flush());
  while (size > 0) {
    auto from = static_cast<off_t>(offset);
    ssize_t n = ::copy_file_range(source.fd(), &from, fd_, nullptr, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<uint64_t>(n);
    position_ += static_cast<uint64_t>(n);
  }
  // Across file systems, or where the kernel has no such call: plain reads, never through the map,
  // whose pages would count as ours.
  std::vector<uint8_t> chunk(size > 0 ? std::min<uint64_t>(size, kBufferBytes) : 0);
  while (size > 0) {
    const ssize_t n = ::pread(source.fd(), chunk.data(), std::min<uint64_t>(size, chunk.size()),
                              static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read", source.path(), errno);
    if (n == 0) return invalid_file(cat(quoted(source.path()), " became shorter while being read"));
    DH_TRY(write({chunk.data(), static_cast<size_t>(n)}));
    DH_TRY(flush());
    offset += static_cast<uint64_t>(n);
    size -= static_cast<uint64_t>(n);
  }
  return {};
}

Status OutputFile::commit(bool sync) {
  DH_TRY(flush());
  if (sync && ::fsync(fd_) != 0) return system_error("sync", path_, errno);
  if (is_unnamed(fd_)) {
    remember_unfinished(temporary_);
    if (name_unnamed(fd_, temporary_) != 0) return system_error("write", path_, errno);
  }
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) return system_error("write", path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_error("write", path_, errno);
  forget_unfinished(temporary_);
  temporary_.clear();
  return {};
}

Result<OutputFolder> OutputFolder::create(const std::string& path,
                                          const std::vector<std::string>& folders) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return io_error(cat("cannot write ", quoted(path), ": it is not a folder"));
  }
  static std::atomic<int> counter{0};
  OutputFolder out;
  out.path_ = path;
  out.temporary_ = cat(path, ".tmp-", ::getpid(), "-", counter.fetch_add(1));
  std::vector<std::string> all = {out.temporary_};
  for (const std::string& folder : folders) all.push_back(out.file(folder));
  for (const std::string& folder : all) {
    remember_unfinished(folder);
    out.folders_.push_back(folder);
    if (::mkdir(folder.c_str(), 0755) != 0) return system_error("create", folder, errno);
  }
  return Result<OutputFolder>(std::move(out));
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      folders_(std::move(other.folders_)) {
  other.temporary_.clear();
  other.folders_.clear();
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
  for (const std::string& folder : folders_) forget_unfinished(folder);
}

Status OutputFolder::commit() {
  if (is_directory(path_)) {
    // The old one is whole until the new one takes its name, at once.
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
      return {};  // what has the temporary name now goes with this object
    }
    if (errno != EINVAL && errno != ENOSYS) return system_error("replace", path_, errno);
    const std::string old = cat(temporary_, ".old");
    if (::rename(path_.c_str(), old.c_str()) != 0) return system_error("replace", path_, errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      ::rename(old.c_str(), path_.c_str());
      return system_error("write", path_, error);
    }
    temporary_ = old;
    return {};
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_error("write", path_, errno);
  temporary_.clear();
  return {};
}

void remove_unfinished_outputs_on_signal() {
  struct sigaction action{};
  action.sa_handler = remove_unfinished_and_die;
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU}) {
    ::sigaction(s, &action, nullptr);
  }
  // A file that may not grow further is an error of write, with the path in its message.
  std::signal(SIGXFSZ, SIG_IGN);
}

Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes) {
  DH_ASSIGN(auto file, MappedFile::open(path));
  if (file->bytes().size() > max_bytes) {
    return invalid_file(
        cat(quoted(path), ": ", file->bytes().size(), " bytes, at most ", max_bytes, " expected"));
  }
  return std::string(as_text(file->bytes()));
}

Status write_file(const std::string& path, Bytes bytes) {
  DH_ASSIGN(OutputFile out, OutputFile::create(path));
  DH_TRY(out.write(bytes));
  return out.commit();
}

bool file_exists(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0;
}

bool is_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Status make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return io_error(cat("cannot create folder ", quoted(path), ": ", error.message()));
  return {};
}

}  // namespace downhaul
