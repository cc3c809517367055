#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Runs exported models (`.pt2`, and `.pte` for the portable kernels or for XNNPACK, whoever made
/// them) on this machine's CPU. This header is all that a program needs; it is installed as
/// <downhaul/engine.h>. For C and other languages there is <downhaul/engine_c.h>.
///
///     using namespace downhaul::api;
///     auto model = Model::load("model.pte");
///     if (!model.ok()) return fail(model.status().message());
///     auto session = model->new_session({.num_threads = 2});
///     if (!session.ok()) return fail(session.status().message());
///     const Input in[] = {{.data = x, .dtype = DType::kF32, .sizes = x_sizes}};
///     const Output out[] = {{.data = y, .bytes = sizeof y}};
///     const Status status = session->run(in, out);
///
/// Nothing here throws: whatever a file, an argument or the system causes is a Status. Ownership:
/// a Model and a Session are handles; what they need lives as long as one of them does.
/// Threads: a Model may be used by any number of threads at once. A Session by one at a time;
/// sessions of one model run beside each other and share its weights.
/// Results do not depend on the number of threads, nor on what other sessions do: same file, same
/// inputs, same CPU, same bits.
namespace downhaul::api {

enum class Code : int {
  kOk = 0,
  kInvalidFile = 1,      ///< bytes that are not what their format demands
  kInvalidGraph = 2,     ///< a program that breaks the rules of its operators
  kInvalidArgument = 3,  ///< a value handed over by the caller
  kUnsupported = 4,      ///< well-formed, but outside what downhaul handles
  kNotFound = 5,         ///< a file or name that does not exist
  kIo = 6,               ///< the operating system refused (permission, threads)
  kOutOfMemory = 7,
};

/// Fine, or an error with a message of one line: where, what was expected, what was found.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

/// A value, or a Status that is not ok. `*` and `->` only when ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

/// Little-endian in memory; bool is one byte of 0 or 1; f16 and bf16 are bit patterns of 2 bytes.
enum class DType : int {
  kBool = 0,
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kF16 = 6,
  kBF16 = 7,
  kF32 = 8,
  kF64 = 9,
};
/// Bytes of one element; 0 for a number that is none of the above.
size_t item_size(DType dtype);
/// "bool u8 i8 i16 i32 i64 f16 bf16 f32 f64"; empty for a number that is none of them.
std::string_view name(DType dtype);

/// A size of a dimension: fixed, or free for each run within inclusive bounds. Dimensions with the
/// same text have the same size in one run.
struct Dim {
  int64_t min = 0;
  int64_t max = 0;   ///< INT64_MAX: unbounded
  std::string text;  ///< "128", "s0", "2*s0 + 1"

  bool is_fixed() const { return min == max; }
};

/// One input or output of a model.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Dim> shape;  ///< outermost first; images are [N, C, H, W]. Empty: a single number
};

/// An input of a run, in the caller's memory: row-major without gaps, aligned to its element,
/// outermost size first. Unchanged by the run; may not overlap an output.
struct Input {
  std::string_view name = {};  ///< empty: by position
  const void* data = nullptr;
  DType dtype = DType::kF32;
  std::span<const int64_t> sizes = {};
};

/// Memory of the caller for an output: row-major without gaps, aligned to its element.
struct Output {
  std::string_view name = {};  ///< empty: by position
  void* data = nullptr;
  size_t bytes = 0;  ///< room at `data`; at least what Session::output_sizes demands
};

struct LoadOptions {
  /// Names of the outputs to compute, in the file's order; empty: all. What only the others need is
  /// neither read nor computed.
  std::vector<std::string> keep_outputs;
  /// A folder in which packed weights are kept between processes, so that the next one maps them
  /// instead of packing; made when it does not exist. Empty: nothing is written anywhere.
  std::string cache_folder;
};

/// kBf16 concerns linear layers alone: it rounds both factors of each product to bf16 and sums in
/// f32: up to twice as fast where instruction_set() is "avx512" and the CPU has
/// AVX-512-BF16, emulated and no faster elsewhere. It changes results by about 2^-8 of their
/// magnitude for each layer on the way (`downhaul compare --precision bf16` measures it).
/// kF16 shows what a device gives that stores half floats: every operator of the program, none
/// merged with another, rounds its result to f16 and sums in f32. No faster than f32. The first
/// such session of a model prepares it once more, with weights of its own.
enum class Precision : int { kF32 = 0, kBf16 = 1, kF16 = 2 };

struct SessionOptions {
  int num_threads = 1;  ///< in [1, 1024]; the caller of `run` is one of them
  Precision precision = Precision::kF32;
};

/// One stream of runs: activations, threads and state of its own, weights shared.
///
/// State: buffers that the model itself changes (a cache, a counter; Model::states). A new session
/// has them as the file has them; each run finds what the last one left, whatever the sizes of its
/// inputs; a run that fails changes none. Other sessions do not see it.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Makes ready for inputs of these sizes (`data` is not looked at): lays out activations, packs
  /// weights that no session needed before. A repetition costs nothing.
  /// Errors: kInvalidArgument for a number of inputs, a name, a type or sizes that do not fit
  /// (names the input, what is expected and what was found); kOutOfMemory.
  Status reshape(std::span<const Input> inputs);

  /// Sizes of output `index`, outermost first, as the last reshape or run has set them; empty
  /// before the first, for a single number, and for an index that does not exist.
  std::span<const int64_t> output_sizes(size_t index) const;

  /// Computes all outputs. Every input and every output is given once, by name or by position.
  /// Reshapes first when sizes differ from the last ones; otherwise it does not allocate (but for
  /// the few operators that have no fast kernel).
  /// Errors: those of reshape; kInvalidArgument for an output that is missing, too small or not
  /// aligned, and for data that no kernel may follow (an index outside its table). After an error
  /// the content of the outputs is unspecified, and the session may be used again.
  Status run(std::span<const Input> inputs, std::span<const Output> outputs);

  /// State as the file has it, as in a new session. Nothing to do for a model without.
  void reset_state();

  int num_threads() const;

 private:
  friend class Model;
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A file made ready to run. Copies are handles on the same model.
class Model {
 public:
  /// Reads the file as far as a program and prepares it. Weights are mapped, so the file must not
  /// change while the model lives. Input and output names come from the file; a model_spec.json
  /// beside a file without names is taken instead.
  /// Errors: kNotFound, kIo; kInvalidFile for what is neither `.pt2` nor `.pte`, or malformed;
  /// kInvalidGraph; kUnsupported listing every operator that is not handled; kInvalidArgument for
  /// an output in `keep_outputs` that does not exist.
  static Result<Model> load(const std::string& path, const LoadOptions& options = {});

  /// In the order in which `run` takes and gives them.
  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  /// Buffers that runs change; see Session. Empty for most models.
  const std::vector<TensorInfo>& states() const;
  /// What the reader found odd about the file, a line each.
  const std::vector<std::string>& warnings() const;

  /// Errors: kInvalidArgument for a number of threads out of range or no such precision; kIo when
  /// the system gives no more threads; kInvalidGraph when a program cannot be prepared for kF16.
  Result<Session> new_session(const SessionOptions& options = {}) const;

 private:
  friend class Session;
  struct Impl;
  explicit Model(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

/// "0.1.0".
std::string_view version();
/// Which instructions the kernels use on this CPU: "avx512", "avx2", "baseline", "neon". The
/// environment variable DOWNHAUL_ISA lowers the choice.
std::string_view instruction_set();

}  // namespace downhaul::api
