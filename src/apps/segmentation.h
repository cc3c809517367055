#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/image.h"
#include "image/preprocess.h"
#include "tensor/tensor.h"

/// From the class scores of a segmentation network to masks and cut-outs in the photo's own size.
namespace downhaul {

/// The best class of every pixel of the model's output.
struct ClassMap {
  int64_t height = 0;
  int64_t width = 0;
  int64_t num_classes = 0;
  std::vector<int32_t> classes;  ///< [height, width]; the smaller id where scores are equal
};

/// `scores`: float [1, classes, height, width]. NaN is below every number.
/// Errors: kInvalidArgument for another type or shape, fewer than 2 classes, or, when
/// `expected_classes` is not 0, another number of classes.
Result<ClassMap> best_classes(const Tensor& scores, int64_t expected_classes);

struct ClassShare {
  int64_t id = 0;
  int64_t pixels = 0;  ///< of the model's output, padding left out
  double share = 0;    ///< of the picture
};

/// Classes that occur in the picture, the most frequent first; equal ones by id.
std::vector<ClassShare> class_shares(const ClassMap& map, const Placement& placement);

/// The most frequent class but 0, the background; nullopt when there is no other.
std::optional<int64_t> main_class(const std::vector<ClassShare>& shares);

/// How much of each pixel of the picture belongs to class `id`: 0 to 255, in the picture's size.
/// The map is cut out of its padding and enlarged bilinearly, so that edges are smooth; what
/// preprocessing cropped away is 0.
Image class_alpha(const ClassMap& map, const Placement& placement, int64_t id);

/// 255 where alpha is 128 or more, else 0.
Image hard_mask(const Image& alpha);
/// The picture with the colour of class `id` laid half over it where the mask is.
Image overlay(const Image& picture, const Image& alpha, int64_t id);
/// RGBA: the picture where the class is, transparent elsewhere.
Image cutout(const Image& picture, const Image& alpha);

/// The colour of a class in the palette of the Pascal VOC pictures: bits of the id, from the
/// lowest, dealt to red, green and blue in turn, from the highest bit of each down.
std::array<uint8_t, 3> class_color(int64_t id);

}  // namespace downhaul
