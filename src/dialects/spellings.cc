#include "dialects/spellings.h"

#include <algorithm>
#include <set>

#include "dialects/aten/table.h"
#include "dialects/edge/table.h"
#include "dialects/xnn/one_to_one.h"
#include "dialects/xnn/spelling.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

/// The name in front of the arguments.
std::string_view head(std::string_view spelling) { return spelling.substr(0, spelling.find('(')); }

void add(std::vector<std::string>& list, std::string_view name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.emplace_back(name);
}

}  // namespace

std::vector<OpSpellings> all_spellings() {
  std::vector<OpSpellings> out;
  for (const OpDef* op : all_ops()) {
    OpSpellings s{.op = op};
    for (const std::string_view overload : aten::all_overloads()) {
      if (head(aten::find_row(overload)->spelling) == op->name) add(s.aten, overload);
    }
    for (const edge::Row& row : edge::table()) {
      if (head(row.op) != op->name) continue;
      const bool text = std::string_view(row.op).find('(') != std::string_view::npos;
      if (text || row.emit != nullptr) add(s.kernels, head(row.kernel));
    }
    for (const edge::Row& row : edge::table()) {
      const std::string kernel(head(row.kernel));
      const bool written = std::find(s.kernels.begin(), s.kernels.end(), kernel) != s.kernels.end();
      if (head(row.op) == op->name && !written) add(s.kernels_read, kernel);
    }
    for (const xnn::OneToOneRow& row : xnn::one_to_one_rows()) {
      if (row.op == op) add(s.xnnpack, info(row.kind).name);
    }
    for (const xnn::Functions& f : xnn::functions_table()) {
      if (f.op == op) add(s.xnnpack, "by functions");
    }
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<std::string> composed_overloads() {
  std::vector<std::string> out;
  for (const std::string_view overload : aten::all_overloads()) {
    const std::string_view name = head(aten::find_row(overload)->spelling);
    if (find_op(name) == nullptr) out.emplace_back(overload);
  }
  return out;
}

}  // namespace downhaul
