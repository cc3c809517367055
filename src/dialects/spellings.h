#pragma once

#include <string>
#include <vector>

#include "ir/op.h"

/// How every operator is spelled in every dialect: the tables of the dialects, turned round.
namespace downhaul {

struct OpSpellings {
  const OpDef* op = nullptr;
  std::vector<std::string> aten;          ///< overloads that are read as this operator
  std::vector<std::string> kernels;       ///< stock kernels that it is written as
  std::vector<std::string> kernels_read;  ///< stock kernels that are only read as it
  std::vector<std::string> xnnpack;       ///< XNNPACK nodes that it is written as
};

/// In the order of the list of operators.
std::vector<OpSpellings> all_spellings();
/// Overloads that are read as several operators, or as none that the table names.
std::vector<std::string> composed_overloads();

}  // namespace downhaul
