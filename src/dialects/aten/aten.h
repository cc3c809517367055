#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/pt2/pt2.h"
#include "ir/graph.h"

/// Exported PyTorch programs as graphs of IR operators. Both kinds of program are read: `TRAINING`
/// (composite and in-place operators) and `ATEN` (functional core). Every overload that is
/// understood is one row of table.inc.
namespace downhaul::aten {

struct ImportOptions {
  /// Which program of a package with several; empty when there is one.
  std::string model;
  /// Names of the outputs to keep, in this order; empty keeps all. Whatever only the others need is
  /// not read at all. State updates always stay.
  std::vector<std::string> keep_outputs;
};

/// A parameter, buffer or constant of the archive that the graph does not use.
struct UnusedWeight {
  std::string name;
  uint64_t bytes = 0;  ///< of its own elements, whoever else shares the payload
};

struct ImportedModel {
  /// Inputs are the user inputs in call order, named as forward() names them ("input_ids",
  /// "args.0"); tensor outputs carry the keys of the output's dictionaries, or "output" when there
  /// is one and "output_0", "output_1", … by position otherwise. Constants have the dotted names of
  /// the archive and share the mapped file. Buffers that the program writes are graph state.
  std::unique_ptr<Graph> graph;
  std::vector<UnusedWeight> unused_weights;
  /// One line each, for people.
  std::vector<std::string> warnings;

  std::string model_name;
  std::string torch_version;
  std::string schema_version;  ///< "8.20"
  std::string dialect;         ///< "TRAINING" or "ATEN"
  int64_t num_source_nodes = 0;
};

/// Errors: those of read_pt2; kUnsupported listing every operator that has no row, each with its
/// count, or naming the node and what about it is not handled; kInvalidGraph naming the node when
/// its arguments break the operator's rules or its result differs from what the archive states;
/// kInvalidArgument for an output name that does not exist (lists the names).
Result<ImportedModel> import_pt2(const std::string& path, const ImportOptions& options = {});
/// `archive` may be destroyed afterwards; its mapped file lives on in the constants.
Result<ImportedModel> import_program(const pt2::Archive& archive, const pt2::Model& model,
                                     const ImportOptions& options = {});

/// Every overload that the dialect reads: "aten.add.Tensor". In the order of the table.
std::vector<std::string> supported_overloads();

}  // namespace downhaul::aten
