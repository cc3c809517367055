#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "formats/pickle/pickle.h"

namespace downhaul::torch_save {

/// A value on the pickle stack. Texts, lists and tensors live in tables of the Machine, and
/// `index` names a row there; so values are small, and aliases and cycles need no care.
struct Value {
  enum class Kind : uint8_t {
    kMark,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,     ///< texts
    kTuple,    ///< sequences
    kList,     ///< sequences
    kDict,     ///< sequences: key, value, key, value, …
    kGlobal,   ///< row of the table of accepted names
    kStorage,  ///< storages
    kTensor,   ///< tensors
  };
  Kind kind = Kind::kNone;
  uint32_t index = 0;
  union {
    int64_t integer = 0;
    double real;
  };
};

/// A storage as the pickle names it.
struct StorageRef {
  std::string key;
  DType dtype = DType::kUint8;  ///< of the typed storage; kUint8 for an untyped one
  bool untyped = false;
  int64_t count = 0;  ///< elements of dtype
};

/// Interprets one pickle after the other; tables are kept between them.
class Machine {
 public:
  explicit Machine(Bytes bytes);

  /// Runs the pickle at position(), up to and with its STOP. Errors: kInvalidFile, kUnsupported.
  Result<Value> run();
  uint64_t position() const { return at_; }

  std::string_view text(const Value& v) const { return texts_[v.index]; }
  const std::vector<Value>& items(const Value& v) const { return sequences_[v.index]; }
  const std::vector<StorageRef>& storages() const { return storages_; }
  /// `storage` of these tensors indexes storages(); names are empty.
  const TensorInfo& tensor(const Value& v) const { return tensors_[v.index]; }

 private:
  Status step(uint8_t opcode, bool& done);
  Status fail(std::string_view message) const;
  Status take(size_t count, Bytes& out);
  template <typename T>
  Status take_number(T& out);
  Status take_line(std::string_view& out);

  Status push(Value v);
  Status pop(Value& out);
  Status pop_to_mark(std::vector<Value>& out);
  Status push_text(uint64_t size);
  Status push_sequence(Value::Kind kind, std::vector<Value> items);
  Status push_long(size_t size);
  Status push_global(std::string_view module, std::string_view name);
  Status extend(Value::Kind kind, const std::vector<Value>& items);
  Status put(uint64_t slot);
  Status get(uint64_t slot);

  Status reduce();
  Status build();
  Status persistent_load();
  Status rebuild_tensor(const std::vector<Value>& arguments, bool typed_by_argument);
  Status integers(const Value& v, std::vector<int64_t>& out) const;

  Bytes bytes_;
  uint64_t at_ = 0;
  uint64_t budget_ = 0;  ///< values that may still be made
  std::vector<Value> stack_;
  std::unordered_map<uint64_t, Value> memo_;
  std::vector<std::string> texts_;
  std::vector<std::vector<Value>> sequences_;
  std::vector<StorageRef> storages_;
  std::unordered_map<std::string, uint32_t> storage_by_key_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace downhaul::torch_save
