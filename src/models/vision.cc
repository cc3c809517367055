#include "models/vision.h"

#include "base/strings.h"

namespace downhaul::models {
namespace {

/// Size `dim` of a stored tensor; `otherwise` when it is missing or of another rank, which `take`
/// reports.
int64_t stored(const Net& net, const std::string& name, size_t rank, size_t dim,
               int64_t otherwise) {
  const Sizes* sizes = net.weights().sizes(name);
  return sizes != nullptr && sizes->size() == rank ? (*sizes)[dim] : otherwise;
}

}  // namespace

Value* conv(Net& net, Value* x, const std::string& module, const ConvForm& form) {
  const std::string name = module + ".weight";
  const int64_t out = stored(net, name, 4, 0, 1);
  int64_t group_in = stored(net, name, 4, 1, 1);
  int64_t groups = 1;
  if (x != nullptr) {
    const int64_t in = x->dim(1).value();
    if (form.depthwise) {
      group_in = 1;
      groups = in;
    } else if (group_in > 0 && in % group_in == 0 && out % (in / group_in) == 0) {
      groups = in / group_in;
    } else {
      group_in = in;
    }
  }
  Value* w =
      net.weight(name, {{form.depthwise ? "channels" : "", form.depthwise && x ? groups : out},
                        {"input channels of a group", group_in},
                        {"kernel", form.kernel},
                        {"kernel", form.kernel}});
  Value* b = form.bias ? net.weight(module + ".bias", {{"channels", out}}) : nullptr;
  net.enter(module);
  const int64_t pad = (form.kernel - 1) / 2 * form.dilation;
  return net.op(ops::kConv2d, {x, w, b},
                {{"stride", Ints{form.stride, form.stride}},
                 {"padding", Ints{pad, pad, pad, pad}},
                 {"dilation", Ints{form.dilation, form.dilation}},
                 {"groups", groups}});
}

Value* batch_norm(Net& net, Value* x, const std::string& module, double eps) {
  const int64_t channels =
      x != nullptr ? x->dim(1).value() : stored(net, module + ".weight", 1, 0, 1);
  std::vector<Value*> operands = {x};
  for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
    operands.push_back(net.weight(module + part, {{"channels", channels}}));
  }
  net.enter(module);
  return net.op(ops::kBatchNorm, std::move(operands), {{"eps", eps}});
}

Value* act(Net& net, Value* x, Act act) {
  switch (act) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return net.relu(x);
    case Act::kRelu6:
      return net.op(ops::kClamp, {x}, {{"min", 0.0}, {"max", 6.0}});
    case Act::kHardswish:
      return net.op(ops::kHardswish, {x});
  }
  return x;
}

Result<Value*> image_input(Job& job, int64_t side, std::string_view name) {
  const BuildOptions& o = job.options;
  // Specs name a task, which build_options spells as a head; a model's own task is no choice.
  const bool own = !job.out.task.empty() && o.head == head_of_task(job.out.task);
  if (!o.head.empty() && o.head != "base" && !own) {
    return invalid_argument(cat("--head ", printable(o.head, 60), ": ", job.out.family,
                                " has no heads to choose from"));
  }
  if (o.seq_len) return invalid_argument(cat("--seq-len: ", job.out.family, " takes pictures"));
  const auto image = o.image.value_or(std::array<int64_t, 2>{side, side});
  constexpr int64_t kMaxSide = 16384;
  constexpr int64_t kMaxBatch = 1024;
  const SizeRange batch = o.batch.value_or(SizeRange{1, 1});
  if (batch.min != batch.max || batch.min < 1 || batch.max > kMaxBatch) {
    return invalid_argument(cat("--batch: expected one number from 1 to ", kMaxBatch));
  }
  if (image[0] < 1 || image[1] < 1 || image[0] > kMaxSide || image[1] > kMaxSide) {
    return invalid_argument(
        cat("picture of ", image[0], " x ", image[1], ": expected 1 to ", kMaxSide, " each way"));
  }
  return job.graph().add_input(
      job.input_name(0, name),
      {DType::kF32, {Dim(batch.min), Dim(3), Dim(image[0]), Dim(image[1])}});
}

Value* global_average(Net& net, Value* x) {
  return net.op(ops::kAdaptiveAvgPool2d, {x}, {{"output_size", Ints{1, 1}}});
}

Value* pooled(Net& net, Value* x) {
  net.enter("avgpool");
  Value* y = global_average(net, x);
  return y == nullptr ? nullptr : net.reshape(y, {y->dim(0), y->dim(1)});
}

Value* dense(Net& net, Value* x, const std::string& module) {
  const std::string name = module + ".weight";
  const int64_t in = x != nullptr ? x->dim(1).value() : stored(net, name, 2, 1, 1);
  return net.linear(x, module, {"features", in}, {"", stored(net, name, 2, 0, 1)});
}

}  // namespace downhaul::models
