#include "api/engine.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/strings.h"
#include "engine/engine.h"
#include "kernels/isa.h"
#include "ops/evaluate.h"
#include "report/artifact.h"

namespace downhaul::api {
namespace {

constexpr int kMaxThreads = 1024;  // more than any one machine has; a mistake above it

Status public_status(downhaul::Status status) {
  static_assert(static_cast<int>(Code::kInvalidFile) == static_cast<int>(ErrorKind::kInvalidFile));
  static_assert(static_cast<int>(Code::kIo) == static_cast<int>(ErrorKind::kIo));
  return {static_cast<Code>(status.kind()), status.message()};
}

Status argument_error(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

/// What the standard library throws becomes a status at this border.
template <typename Body>
auto guarded(Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "out of memory");
  } catch (const std::length_error&) {
    return Status(Code::kOutOfMemory, "out of memory");
  } catch (const std::system_error& error) {
    return Status(Code::kIo, error.what());
  }
}

bool is_valid(DType dtype) { return static_cast<size_t>(dtype) < kNumDTypes; }

TensorInfo info_of(const std::string& name, const TensorType& type) {
  static_assert(static_cast<int>(DType::kF64) == static_cast<int>(downhaul::DType::kF64));
  static_assert(static_cast<int>(DType::kF16) == static_cast<int>(downhaul::DType::kF16));
  TensorInfo info{name, static_cast<DType>(type.dtype), {}};
  for (const downhaul::Dim& d : type.shape) info.shape.push_back({d.min(), d.max(), d.str()});
  return info;
}

/// Which of the model's tensors each of `given` is, into `order` (as long as `infos`).
template <typename Given>
Status match(std::span<const Given> given, const std::vector<TensorInfo>& infos,
             std::string_view kind, std::vector<const Given*>& order) {
  if (given.size() != infos.size()) {
    return argument_error(cat("expected ", infos.size(), " ", kind, "s, found ", given.size()));
  }
  std::fill(order.begin(), order.end(), nullptr);
  for (size_t i = 0; i < given.size(); ++i) {
    size_t at = i;
    if (!given[i].name.empty()) {
      at = 0;
      while (at < infos.size() && infos[at].name != given[i].name) ++at;
      if (at == infos.size()) {
        std::vector<std::string> names;
        for (const TensorInfo& info : infos) names.push_back(printable(info.name));
        return argument_error(cat("the model has no ", kind, " '", printable(given[i].name),
                                  "'; there are: ", join(names, ", ")));
      }
    }
    if (order[at] != nullptr) {
      return argument_error(cat(kind, " '", printable(infos[at].name), "' is given twice"));
    }
    order[at] = &given[i];
  }
  return {};
}

Status check_memory(const void* data, DType dtype, size_t bytes, std::string_view kind,
                    const std::string& name) {
  if (bytes == 0) return {};
  if (data == nullptr) {
    return argument_error(cat(kind, " '", printable(name), "' has no memory: data is null"));
  }
  if (reinterpret_cast<uintptr_t>(data) % item_size(dtype) != 0) {
    return argument_error(cat(kind, " '", printable(name), "' is not aligned to its ",
                              item_size(dtype), "-byte elements"));
  }
  return {};
}

size_t bytes_of(std::span<const int64_t> sizes, DType dtype) {
  size_t bytes = item_size(dtype);
  for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
  return bytes;
}

}  // namespace

size_t item_size(DType dtype) {
  return is_valid(dtype) ? downhaul::item_size(static_cast<downhaul::DType>(dtype)) : 0;
}

std::string_view name(DType dtype) {
  return is_valid(dtype) ? downhaul::name(static_cast<downhaul::DType>(dtype)) : "";
}

std::string_view version() { return DOWNHAUL_VERSION; }

std::string_view instruction_set() { return downhaul::name(active_isa()); }

/// Both enumerations list the same precisions in the same order.
static_assert(static_cast<int>(Precision::kF16) == static_cast<int>(engine::Precision::kF16));

struct Model::Impl {
  std::shared_ptr<EngineModel> engine;
  std::unique_ptr<Graph> source;  ///< as read; its constants point into the file
  std::string cache_folder;
  std::mutex mutex;                     ///< of in_f16
  std::shared_ptr<EngineModel> in_f16;  ///< null until a session wants it

  downhaul::Result<std::shared_ptr<EngineModel>> prepared(Precision precision) {
    if (precision != Precision::kF16) return engine;
    const std::lock_guard lock(mutex);
    if (in_f16 == nullptr) {
      DH_ASSIGN(in_f16, EngineModel::prepare(*source, cache_folder, engine::Precision::kF16));
    }
    return in_f16;
  }
  std::vector<TensorInfo> inputs, outputs, states;
  std::vector<std::string> warnings;
};

struct Session::Impl {
  Impl(std::shared_ptr<Model::Impl> of, std::shared_ptr<EngineModel> engine,
       const SessionOptions& options)
      : model(std::move(of)),
        session(std::move(engine),
                EngineOptions{.num_threads = options.num_threads,
                              .precision = static_cast<engine::Precision>(options.precision)}),
        sizes(model->inputs.size()),
        inputs(model->inputs.size()),
        outputs(model->outputs.size()),
        in(model->inputs.size()),
        out(model->outputs.size()) {}

  /// `inputs` is filled already. Returns at once when the sizes are those of the last time.
  Status reshape() {
    bool same = ready;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorInfo& info = model->inputs[i];
      if (inputs[i]->dtype != info.dtype) {
        return argument_error(
            cat("input '", printable(info.name), "': expected ", name(info.dtype), ", found ",
                is_valid(inputs[i]->dtype) ? std::string(name(inputs[i]->dtype))
                                           : cat("type ", static_cast<int>(inputs[i]->dtype))));
      }
      same = same && std::ranges::equal(inputs[i]->sizes, sizes[i]);
    }
    if (same) return {};
    ready = false;
    std::vector<TensorType> types;
    for (const Input* input : inputs) {
      const Sizes given(input->sizes.begin(), input->sizes.end());
      types.push_back({static_cast<downhaul::DType>(input->dtype), shape_of(given)});
    }
    auto bindings = bind_symbols(model->engine->graph(), types);
    if (!bindings.ok()) return public_status(std::move(bindings).status());
    if (auto status = session.reshape(*bindings); !status.ok()) {
      return public_status(std::move(status));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      sizes[i].assign(inputs[i]->sizes.begin(), inputs[i]->sizes.end());
    }
    ready = true;
    return {};
  }

  std::shared_ptr<Model::Impl> model;
  downhaul::Session session;
  bool ready = false;        // `session` is laid out for `sizes`
  std::vector<Sizes> sizes;  // of each input
  // For one run; kept so that it does not allocate.
  std::vector<const Input*> inputs;
  std::vector<const Output*> outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Status Session::reshape(std::span<const Input> inputs) {
  return guarded([&]() -> Status {
    if (Status s = match(inputs, impl_->model->inputs, "input", impl_->inputs); !s.ok()) return s;
    return impl_->reshape();
  });
}

std::span<const int64_t> Session::output_sizes(size_t index) const {
  if (!impl_->ready || index >= impl_->outputs.size()) return {};
  return impl_->session.plan()->output_sizes[index];
}

Status Session::run(std::span<const Input> inputs, std::span<const Output> outputs) {
  return guarded([&]() -> Status {
    Impl& s = *impl_;
    if (Status bad = match(inputs, s.model->inputs, "input", s.inputs); !bad.ok()) return bad;
    if (Status bad = match(outputs, s.model->outputs, "output", s.outputs); !bad.ok()) return bad;
    if (Status bad = s.reshape(); !bad.ok()) return bad;
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      const TensorInfo& info = s.model->inputs[i];
      s.in[i] = s.inputs[i]->data;
      if (Status bad = check_memory(s.in[i], info.dtype, bytes_of(s.sizes[i], info.dtype), "input",
                                    info.name);
          !bad.ok()) {
        return bad;
      }
    }
    for (size_t i = 0; i < s.outputs.size(); ++i) {
      const TensorInfo& info = s.model->outputs[i];
      const size_t bytes = bytes_of(output_sizes(i), info.dtype);
      s.out[i] = s.outputs[i]->data;
      if (s.outputs[i]->bytes < bytes) {
        return argument_error(cat("output '", printable(info.name), "': expected room for ", bytes,
                                  " bytes, found ", s.outputs[i]->bytes));
      }
      if (Status bad = check_memory(s.out[i], info.dtype, bytes, "output", info.name); !bad.ok()) {
        return bad;
      }
    }
    return public_status(s.session.run(s.in, s.out));
  });
}

void Session::reset_state() { impl_->session.reset_state(); }

int Session::num_threads() const { return impl_->session.num_threads(); }

Model::Model(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<Model> Model::load(const std::string& path, const LoadOptions& options) {
  return guarded([&]() -> Result<Model> {
    static const downhaul::Status isa = lower_isa_by_environment();
    if (!isa.ok()) return public_status(isa);
    auto artifact = load_artifact(path, {.keep_outputs = options.keep_outputs, .model = {}});
    if (!artifact.ok()) return public_status(std::move(artifact).status());
    auto engine = EngineModel::prepare(*artifact->graph, options.cache_folder);
    if (!engine.ok()) {
      return public_status(std::move(engine).status().with_context(cat("'", printable(path), "'")));
    }
    auto impl = std::make_shared<Impl>();
    impl->engine = *std::move(engine);
    impl->source = std::move(artifact->graph);
    impl->cache_folder = options.cache_folder;
    const Graph& graph = impl->engine->graph();
    for (const Value* v : graph.inputs()) impl->inputs.push_back(info_of(v->name(), v->type()));
    for (const downhaul::Output& o : graph.outputs()) {
      impl->outputs.push_back(info_of(o.name, o.value->type()));
    }
    for (const Value* v : graph.states()) impl->states.push_back(info_of(v->name(), v->type()));
    impl->warnings = std::move(artifact->warnings);
    return Model(std::move(impl));
  });
}

const std::vector<TensorInfo>& Model::inputs() const { return impl_->inputs; }
const std::vector<TensorInfo>& Model::outputs() const { return impl_->outputs; }
const std::vector<TensorInfo>& Model::states() const { return impl_->states; }
const std::vector<std::string>& Model::warnings() const { return impl_->warnings; }

Result<Session> Model::new_session(const SessionOptions& options) const {
  return guarded([&]() -> Result<Session> {
    if (options.num_threads < 1 || options.num_threads > kMaxThreads) {
      return argument_error(
          cat("num_threads: expected 1 to ", kMaxThreads, ", found ", options.num_threads));
    }
    if (options.precision < Precision::kF32 || options.precision > Precision::kF16) {
      return argument_error(cat("precision: expected kF32, kBf16 or kF16, found ",
                                static_cast<int>(options.precision)));
    }
    auto prepared = impl_->prepared(options.precision);
    if (!prepared.ok()) return public_status(std::move(prepared).status());
    return Session(std::make_unique<Session::Impl>(impl_, *std::move(prepared), options));
  });
}

}  // namespace downhaul::api
