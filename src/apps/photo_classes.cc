#include "apps/photo_classes.h"

#include <chrono>

#include "base/strings.h"

namespace downhaul {

Result<PhotoClasses> classify_photo(AppModel& model, const PhotoTensor& photo, int64_t top) {
  const auto begin = std::chrono::steady_clock::now();
  DH_ASSIGN(const std::vector<Tensor> outputs, model.run({photo.tensor}));
  PhotoClasses out;
  out.forward_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  const std::string path = printable(model.path());
  if (outputs.empty()) return invalid_argument(cat("'", path, "': no output"));
  const Tensor& scores = outputs[0];
  if (scores.dtype() != DType::kF32 || scores.rank() != 2 || scores.size(0) != 1) {
    return invalid_argument(cat("'", path, "': the output is ", describe(scores),
                                ", expected class scores f32[1,classes]"));
  }
  out.classes = top_k({scores.data<float>(), static_cast<size_t>(scores.size(1))}, top);
  return out;
}

}  // namespace downhaul
