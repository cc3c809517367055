#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

/// What a path looks like from its first bytes, for messages such as "expected a .pte program, this
/// is a safetensors file".
namespace downhaul {

enum class FileType {
  kMissing,
  kUnreadable,  ///< no permission
  kSpecial,     ///< a pipe, a socket or a device
  kEmpty,
  kPt2,  ///< exported program, any layout
  kPte,
  kSafetensors,
  kTorchSave,        ///< ZIP form of torch.save
  kTorchSaveLegacy,  ///< the form before 1.6
  kPickle,
  kZip,        ///< a ZIP without a known content
  kJson,       ///< starts like a JSON object or list
  kModelSpec,  ///< JSON with keys of a model spec
  kJpeg,
  kPng,
  kMlPackage,         ///< folder with Manifest.json
  kMlModelCompiled,   ///< folder of a compiled model (.mlmodelc)
  kMlModel,           ///< file of a model in the single-file form
  kCheckpointFolder,  ///< folder with config.json or weights
  kFolder,
  kText,
  kUnknown,
};

/// Never blocks (FIFO) and reads a few KiB at most.
FileType sniff(const std::string& path);

/// "a safetensors file", "a folder", "a JPEG image": completes "this is …".
std::string_view describe(FileType type);

/// "'x.pte': expected a .pte program, this is a JPEG image" (kInvalidFile; kNotFound and kIo for
/// missing and unreadable paths). `expected` completes "expected …".
Status unexpected_file(const std::string& path, std::string_view expected);

}  // namespace downhaul
