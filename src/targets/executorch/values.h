#pragma once

#include <bit>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/pte/pte.h"
#include "tensor/dtype.h"

namespace downhaul {

pte::ScalarType scalar_type(DType dtype);

/// The list of values and operators of a plan under construction. Numbers, texts and lists that
/// were asked for before keep their id: the runtime never writes to them.
class ValueTable {
 public:
  explicit ValueTable(pte::Plan& plan) : plan_(plan) {}

  /// A new value, whatever exists already.
  int32_t add(pte::Value value) {
    plan_.values.push_back(std::move(value));
    return static_cast<int32_t>(plan_.values.size() - 1);
  }

  int32_t null() {
    return shared(nulls_, 0, [] { return pte::Null{}; });
  }
  int32_t integer(int64_t v) {
    return shared(integers_, v, [&] { return pte::Int{v}; });
  }
  int32_t flag(bool v) {
    return shared(flags_, v, [&] { return pte::Bool{v}; });
  }
  int32_t number(double v) {
    return shared(numbers_, std::bit_cast<uint64_t>(v), [&] { return pte::Double{v}; });
  }
  int32_t text(const std::string& v) {
    return shared(texts_, v, [&] { return pte::String{v}; });
  }
  /// `items`: ids of Ints.
  int32_t int_list(const std::vector<int64_t>& items) {
    return shared(int_lists_, items, [&] { return pte::IntList{items}; });
  }
  /// `items`: ids of tensors that exist.
  int32_t tensor_list(const std::vector<int32_t>& items) {
    return shared(tensor_lists_, items, [&] { return pte::TensorList{items}; });
  }

  /// Position of the operator "aten::add.out" in the plan's list.
  int32_t operator_index(std::string_view full_name);

 private:
  template <typename Key, typename Make>
  int32_t shared(std::map<Key, int32_t>& known, const Key& key, Make make) {
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    const int32_t id = add(make());
    known.emplace(key, id);
    return id;
  }

  pte::Plan& plan_;
  std::map<int, int32_t> nulls_;
  std::map<int64_t, int32_t> integers_;
  std::map<bool, int32_t> flags_;
  std::map<uint64_t, int32_t> numbers_;  // by bit pattern: -0.0 is not 0.0
  std::map<std::string, int32_t> texts_;
  std::map<std::vector<int64_t>, int32_t> int_lists_;
  std::map<std::vector<int32_t>, int32_t> tensor_lists_;
  std::map<std::string, int32_t, std::less<>> operators_;
};

}  // namespace downhaul
