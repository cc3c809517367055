#include "formats/pickle/machine.h"

#include <bit>
#include <cstring>

#include "base/strings.h"
#include "formats/pickle/globals.h"

namespace downhaul::torch_save {
namespace {

// Opcodes. Source: CPython, Lib/pickletools.py.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// Values that any pickle may make, plus one per some bytes: real files spend about eight a value.
constexpr uint64_t kFreeValues = 1u << 20;
constexpr uint64_t kBytesPerValue = 4;
// Values that weigh more in memory count for more.
constexpr uint64_t kSequenceCost = 2;
constexpr uint64_t kTensorCost = 8;

Value make(Value::Kind kind, uint64_t index) {
  Value v;
  v.kind = kind;
  v.index = static_cast<uint32_t>(index);
  return v;
}

Value make_int(int64_t number) {
  Value v;
  v.kind = Value::Kind::kInt;
  v.integer = number;
  return v;
}

Value make_bool(bool flag) {
  Value v;
  v.kind = Value::Kind::kBool;
  v.integer = flag;
  return v;
}

}  // namespace

Machine::Machine(Bytes bytes)
    : bytes_(bytes), budget_(kFreeValues + bytes.size() / kBytesPerValue) {}

Status Machine::fail(std::string_view message) const {
  return invalid_file(cat("pickle byte ", at_, ": ", message));
}

Status Machine::take(size_t count, Bytes& out) {
  if (count > bytes_.size() - at_) return fail("the data ends");
  out = bytes_.subspan(at_, count);
  at_ += count;
  return {};
}

template <typename T>
Status Machine::take_number(T& out) {
  Bytes raw;
  DH_TRY(take(sizeof(T), raw));
  std::memcpy(&out, raw.data(), sizeof(T));
  return {};
}

Status Machine::take_line(std::string_view& out) {
  const std::string_view rest = as_text(bytes_.subspan(at_));
  const size_t end = rest.substr(0, 1024).find('\n');
  if (end == std::string_view::npos) return fail("a line without end");
  out = rest.substr(0, end);
  at_ += end + 1;
  return {};
}

Status Machine::push(Value v) {
  if (budget_ == 0) return fail("more values than a file of this size can hold");
  --budget_;
  stack_.push_back(v);
  return {};
}

Status Machine::pop(Value& out) {
  if (stack_.empty() || stack_.back().kind == Value::Kind::kMark) return fail("the stack is empty");
  out = stack_.back();
  stack_.pop_back();
  return {};
}

Status Machine::pop_to_mark(std::vector<Value>& out) {
  size_t mark = stack_.size();
  while (mark > 0 && stack_[mark - 1].kind != Value::Kind::kMark) --mark;
  if (mark == 0) return fail("no mark on the stack");
  out.assign(stack_.begin() + static_cast<ptrdiff_t>(mark), stack_.end());
  stack_.resize(mark - 1);
  return {};
}

Status Machine::push_text(uint64_t size) {
  Bytes raw;
  DH_TRY(take(size, raw));
  texts_.emplace_back(as_text(raw));
  return push(make(Value::Kind::kText, texts_.size() - 1));
}

Status Machine::push_sequence(Value::Kind kind, std::vector<Value> items) {
  if (budget_ < kSequenceCost) return fail("more values than a file of this size can hold");
  budget_ -= kSequenceCost;
  sequences_.push_back(std::move(items));
  return push(make(kind, sequences_.size() - 1));
}

Status Machine::push_long(size_t size) {
  Bytes raw;
  DH_TRY(take(size, raw));
  if (size > 8) {
    // Only the mark of the old form is longer; nothing reads the value of such a number.
    texts_.emplace_back(as_text(raw));
    return push(make(Value::Kind::kText, texts_.size() - 1));
  }
  uint64_t number = size > 0 && (raw[size - 1] & 0x80) ? ~uint64_t{0} : 0;
  for (size_t i = 0; i < size; ++i) {
    number &= ~(uint64_t{0xFF} << (8 * i));
    number |= uint64_t{raw[i]} << (8 * i);
  }
  return push(make_int(static_cast<int64_t>(number)));
}

Status Machine::push_global(std::string_view module, std::string_view name) {
  const auto row = find_global(module, name);
  if (!row) {
    return unsupported(cat("the pickle asks for '", printable(module, 80), ".", printable(name, 80),
                           "', which is outside the closed set for tensors; nothing was run"));
  }
  return push(make(Value::Kind::kGlobal, *row));
}

Status Machine::extend(Value::Kind kind, const std::vector<Value>& items) {
  if (stack_.empty() || stack_.back().kind != kind) {
    return fail(kind == Value::Kind::kDict ? "no dictionary to set an item of"
                                           : "no list to append to");
  }
  if (kind == Value::Kind::kDict && items.size() % 2 != 0) return fail("a key without value");
  if (items.size() > budget_) return fail("more values than a file of this size can hold");
  budget_ -= items.size();
  std::vector<Value>& sequence = sequences_[stack_.back().index];
  sequence.insert(sequence.end(), items.begin(), items.end());
  return {};
}

Status Machine::put(uint64_t slot) {
  if (stack_.empty() || stack_.back().kind == Value::Kind::kMark) return fail("nothing to memoize");
  if (budget_ == 0) return fail("more values than a file of this size can hold");
  --budget_;
  memo_[slot] = stack_.back();
  return {};
}

Status Machine::get(uint64_t slot) {
  const auto found = memo_.find(slot);
  if (found == memo_.end()) return fail(cat("memo slot ", slot, " is empty"));
  return push(found->second);
}

Result<Value> Machine::run() {
  stack_.clear();
  memo_.clear();
  bool done = false;
  while (!done) {
    uint8_t opcode = 0;
    DH_TRY(take_number(opcode));
    DH_TRY(step(opcode, done));
  }
  Value top;
  DH_TRY(pop(top));
  return top;
}

Status Machine::step(uint8_t opcode, bool& done) {
  Value value;
  std::vector<Value> items;
  uint8_t small = 0;
  uint16_t medium = 0;
  uint32_t large = 0;
  uint64_t huge = 0;
  switch (opcode) {
    case kProto:
      DH_TRY(take_number(small));
      return small <= 5 ? Status() : fail(cat("protocol ", small, ", at most 5 expected"));
    case kFrame:
      return take_number(huge);
    case kStop:
      done = true;
      return {};
    case kMark:
      return push(make(Value::Kind::kMark, 0));
    case kPop:
      if (stack_.empty()) return fail("the stack is empty");
      stack_.pop_back();
      return {};
    case kPopMark:
      return pop_to_mark(items);
    case kNone:
      return push(Value());
    case kNewTrue:
      return push(make_bool(true));
    case kNewFalse:
      return push(make_bool(false));
    case kBinInt: {
      int32_t number = 0;
      DH_TRY(take_number(number));
      return push(make_int(number));
    }
    case kBinInt1:
      DH_TRY(take_number(small));
      return push(make_int(small));
    case kBinInt2:
      DH_TRY(take_number(medium));
      return push(make_int(medium));
    case kLong1:
      DH_TRY(take_number(small));
      return push_long(small);
    case kBinFloat:
      DH_TRY(take_number(huge));
      value.kind = Value::Kind::kFloat;
      value.real = std::bit_cast<double>(__builtin_bswap64(huge));
      return push(value);
    case kBinUnicode:
    case kBinBytes:
      DH_TRY(take_number(large));
      return push_text(large);
    case kShortBinUnicode:
    case kShortBinBytes:
      DH_TRY(take_number(small));
      return push_text(small);
    case kBinUnicode8:
      DH_TRY(take_number(huge));
      return push_text(huge);
    case kEmptyTuple:
      return push_sequence(Value::Kind::kTuple, {});
    case kEmptyList:
      return push_sequence(Value::Kind::kList, {});
    case kEmptyDict:
      return push_sequence(Value::Kind::kDict, {});
    case kTuple:
      DH_TRY(pop_to_mark(items));
      return push_sequence(Value::Kind::kTuple, std::move(items));
    case kTuple1:
    case kTuple2:
    case kTuple3:
      items.resize(opcode - kTuple1 + 1u);
      for (size_t i = items.size(); i-- > 0;) DH_TRY(pop(items[i]));
      return push_sequence(Value::Kind::kTuple, std::move(items));
    case kAppend:
      items.resize(1);
      DH_TRY(pop(items[0]));
      return extend(Value::Kind::kList, items);
    case kAppends:
      DH_TRY(pop_to_mark(items));
      return extend(Value::Kind::kList, items);
    case kSetItem:
      items.resize(2);
      DH_TRY(pop(items[1]));
      DH_TRY(pop(items[0]));
      return extend(Value::Kind::kDict, items);
    case kSetItems:
      DH_TRY(pop_to_mark(items));
      return extend(Value::Kind::kDict, items);
    case kBinPut:
      DH_TRY(take_number(small));
      return put(small);
    case kLongBinPut:
      DH_TRY(take_number(large));
      return put(large);
    case kMemoize:
      return put(memo_.size());
    case kBinGet:
      DH_TRY(take_number(small));
      return get(small);
    case kLongBinGet:
      DH_TRY(take_number(large));
      return get(large);
    case kGlobal: {
      std::string_view module;
      std::string_view name;
      DH_TRY(take_line(module));
      DH_TRY(take_line(name));
      return push_global(module, name);
    }
    case kStackGlobal: {
      Value module;
      DH_TRY(pop(value));
      DH_TRY(pop(module));
      if (value.kind != Value::Kind::kText || module.kind != Value::Kind::kText) {
        return fail("a global's name is no text");
      }
      return push_global(std::string(text(module)), std::string(text(value)));
    }
    case kReduce:
    case kNewObj:
      return reduce();
    case kBuild:
      return build();
    case kBinPersId:
      return persistent_load();
    default:
      return unsupported(cat("pickle byte ", at_ - 1, ": opcode ", opcode,
                             " is outside the closed set for tensors; nothing was run"));
  }
}

Status Machine::reduce() {
  Value arguments;
  Value callable;
  DH_TRY(pop(arguments));
  DH_TRY(pop(callable));
  if (callable.kind != Value::Kind::kGlobal || arguments.kind != Value::Kind::kTuple) {
    return fail("a call of something that is not in the closed set");
  }
  // Valid until the next push_sequence.
  const std::vector<Value>& list = items(arguments);
  const Global& what = global(callable.index);
  switch (what.meaning) {
    case Global::Meaning::kOrderedDict: {
      std::vector<Value> members;
      if (list.size() > 1) return fail("OrderedDict takes one argument");
      if (!list.empty()) {
        if (list[0].kind != Value::Kind::kList) return fail("OrderedDict takes a list of pairs");
        for (const Value& pair : items(list[0])) {
          const bool sequence = pair.kind == Value::Kind::kTuple || pair.kind == Value::Kind::kList;
          if (!sequence || items(pair).size() != 2) {
            return fail("OrderedDict takes a list of pairs");
          }
          members.insert(members.end(), items(pair).begin(), items(pair).end());
        }
        if (members.size() > budget_) return fail("more values than a file of this size can hold");
        budget_ -= members.size();
      }
      return push_sequence(Value::Kind::kDict, std::move(members));
    }
    case Global::Meaning::kTuple:
      if (list.size() != 1 ||
          (list[0].kind != Value::Kind::kTuple && list[0].kind != Value::Kind::kList)) {
        return fail("torch.Size takes one sequence");
      }
      return push(make(Value::Kind::kTuple, list[0].index));
    case Global::Meaning::kRebuildTensor:
      return rebuild_tensor(list, false);
    case Global::Meaning::kRebuildTypedTensor:
      return rebuild_tensor(list, true);
    case Global::Meaning::kRebuildParameter:
      if (list.empty() || list[0].kind != Value::Kind::kTensor) {
        return fail("_rebuild_parameter takes a tensor");
      }
      return push(list[0]);
    case Global::Meaning::kStorage:
    case Global::Meaning::kUntypedStorage:
    case Global::Meaning::kDType:
      return fail(cat("'", what.name, "' cannot be called"));
  }
  return fail("unreachable meaning");
}

// The state of a state dict is {"_metadata": module versions}, which nobody needs.
Status Machine::build() {
  Value state;
  DH_TRY(pop(state));
  if (stack_.empty() || stack_.back().kind != Value::Kind::kDict) {
    return unsupported("the pickle sets the state of an object; nothing was run");
  }
  return {};
}

// ("storage", type, key, location, count), and in the old form a sixth: the view, None.
Status Machine::persistent_load() {
  Value id;
  DH_TRY(pop(id));
  if (id.kind != Value::Kind::kTuple) return fail("a persistent id that is no tuple");
  const std::vector<Value>& list = items(id);
  using K = Value::Kind;
  if (list.size() < 5 || list.size() > 6 || list[0].kind != K::kText ||
      text(list[0]) != "storage" || list[1].kind != K::kGlobal || list[2].kind != K::kText ||
      list[4].kind != K::kInt) {
    return fail("a persistent id that names no storage");
  }
  if (list.size() == 6 && list[5].kind != K::kNone) {
    return unsupported("the file stores views of storages, as only very old writers did");
  }
  const Global& type = global(list[1].index);
  if (type.meaning != Global::Meaning::kStorage &&
      type.meaning != Global::Meaning::kUntypedStorage) {
    return fail(cat("'", type.name, "' is no storage type"));
  }
  StorageRef ref{std::string(text(list[2])), type.dtype,
                 type.meaning == Global::Meaning::kUntypedStorage, list[4].integer};
  if (ref.count < 0) return fail(cat("storage of ", ref.count, " elements"));
  const auto [known, added] =
      storage_by_key_.try_emplace(ref.key, static_cast<uint32_t>(storages_.size()));
  if (added) {
    storages_.push_back(std::move(ref));
  } else {
    const StorageRef& before = storages_[known->second];
    if (before.dtype != ref.dtype || before.untyped != ref.untyped || before.count != ref.count) {
      return fail(cat("storage '", printable(ref.key, 40), "' is described in two ways"));
    }
  }
  return push(make(Value::Kind::kStorage, known->second));
}

Status Machine::integers(const Value& v, std::vector<int64_t>& out) const {
  if (v.kind != Value::Kind::kTuple && v.kind != Value::Kind::kList) {
    return fail("sizes or strides that are no tuple");
  }
  for (const Value& item : items(v)) {
    if (item.kind != Value::Kind::kInt) return fail("a size or stride that is no integer");
    out.push_back(item.integer);
  }
  return {};
}

// (storage, offset, size, stride, requires_grad, hooks[, dtype][, metadata])
Status Machine::rebuild_tensor(const std::vector<Value>& list, bool typed_by_argument) {
  const size_t required = typed_by_argument ? 7 : 4;
  if (list.size() < required || list[0].kind != Value::Kind::kStorage ||
      list[1].kind != Value::Kind::kInt) {
    return fail("a tensor without storage and offset");
  }
  TensorInfo tensor;
  tensor.storage = list[0].index;
  tensor.storage_offset = list[1].integer;
  const StorageRef& storage = storages_[tensor.storage];
  tensor.dtype = storage.dtype;
  if (typed_by_argument) {
    if (list[6].kind != Value::Kind::kGlobal ||
        global(list[6].index).meaning != Global::Meaning::kDType) {
      return fail("a tensor whose dtype is none");
    }
    tensor.dtype = global(list[6].index).dtype;
  }
  DH_TRY(integers(list[2], tensor.sizes));
  DH_TRY(integers(list[3], tensor.strides));
  const size_t numbers = tensor.sizes.size() + tensor.strides.size() + kTensorCost;
  if (numbers > budget_) return fail("more values than a file of this size can hold");
  budget_ -= numbers;
  tensors_.push_back(std::move(tensor));
  return push(make(Value::Kind::kTensor, tensors_.size() - 1));
}

}  // namespace downhaul::torch_save
