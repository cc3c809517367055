#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// Errors that a file, a flag or a model can cause. Our own mistakes are DH_CHECK.
namespace downhaul {

enum class ErrorKind {
  kOk,
  kInvalidFile,      ///< bytes that are not what the format demands
  kInvalidGraph,     ///< a program that breaks the rules of its operators
  kInvalidArgument,  ///< a value handed over by the caller (flag, input tensor)
  kUnsupported,      ///< well-formed, but outside what downhaul handles
  kNotFound,         ///< a file, tensor or name that does not exist
  kIo,               ///< the operating system refused
};

/// The outcome of an operation without a result: fine, or an error of one line.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  bool ok() const { return kind_ == ErrorKind::kOk; }
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }

  /// Prepends what was being done: "while reading 'x.pte': <message>". Keeps the kind.
  Status with_context(std::string_view context) && {
    if (!ok()) message_ = std::string(context) + ": " + message_;
    return std::move(*this);
  }

 private:
  ErrorKind kind_ = ErrorKind::kOk;
  std::string message_;
};

inline Status invalid_file(std::string m) { return {ErrorKind::kInvalidFile, std::move(m)}; }
inline Status invalid_graph(std::string m) { return {ErrorKind::kInvalidGraph, std::move(m)}; }
inline Status invalid_argument(std::string m) {
  return {ErrorKind::kInvalidArgument, std::move(m)};
}
inline Status unsupported(std::string m) { return {ErrorKind::kUnsupported, std::move(m)}; }
inline Status not_found(std::string m) { return {ErrorKind::kNotFound, std::move(m)}; }
inline Status io_error(std::string m) { return {ErrorKind::kIo, std::move(m)}; }

/// A value or a Status that is not ok.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

namespace internal {
inline Status&& to_status(Status&& s) { return std::move(s); }
inline Status to_status(const Status& s) { return s; }
template <typename T>
Status to_status(Result<T>&& r) {
  return std::move(r).status();
}
[[noreturn]] void check_failed(const char* file, int line, const char* condition);
}  // namespace internal

}  // namespace downhaul

#define DH_CONCAT_INNER(a, b) a##b
#define DH_CONCAT(a, b) DH_CONCAT_INNER(a, b)

/// Returns the error of `expr` (a Status or Result) from the enclosing function, if it has one.
#define DH_TRY(expr)                                                 \
  do {                                                               \
    if (auto dh_status_ = (expr); !dh_status_.ok())                  \
      return ::downhaul::internal::to_status(std::move(dh_status_)); \
  } while (false)

/// `DH_ASSIGN(auto x, expr)` declares x from a Result or returns its error.
#define DH_ASSIGN(decl, expr) DH_ASSIGN_INNER(DH_CONCAT(dh_result_, __LINE__), decl, expr)
#define DH_ASSIGN_INNER(tmp, decl, expr)         \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  decl = *std::move(tmp)

/// Ends the program when one of our own assumptions is broken. Never for bad input.
#define DH_CHECK(condition) \
  ((condition) ? void(0) : ::downhaul::internal::check_failed(__FILE__, __LINE__, #condition))
