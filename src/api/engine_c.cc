#include "api/engine_c.h"

#include <algorithm>
#include <new>

#include "api/engine.h"

using downhaul::api::Code;
using downhaul::api::DType;
using downhaul::api::Input;
using downhaul::api::LoadOptions;
using downhaul::api::Model;
using downhaul::api::Output;
using downhaul::api::Precision;
using downhaul::api::Session;
using downhaul::api::SessionOptions;
using downhaul::api::Status;
using downhaul::api::TensorInfo;

namespace {

struct Bounds {
  std::vector<int64_t> min, max;
};

std::vector<Bounds> bounds_of(const std::vector<TensorInfo>& infos) {
  std::vector<Bounds> all;
  for (const TensorInfo& info : infos) {
    Bounds& bounds = all.emplace_back();
    for (const auto& dim : info.shape) {
      bounds.min.push_back(dim.min);
      bounds.max.push_back(dim.max);
    }
  }
  return all;
}

}  // namespace

struct dh_model {
  Model model;
  std::vector<Bounds> inputs, outputs;
};

struct dh_session {
  Session session;
  size_t num_outputs;
  // For one call; kept so that a run does not allocate.
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  bool ready = false;
};

namespace {

/// Of each thread. A plain array, so that to keep an error never fails.
struct LastError {
  char text[1024] = "";
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

dh_code fail(Code code, std::string_view message) {
  char* text = last_error().text;
  const size_t length = std::min(message.size(), sizeof(LastError::text) - 1);
  std::copy_n(message.data(), length, text);
  text[length] = '\0';
  return static_cast<dh_code>(code);
}

dh_code finish(const Status& status) {
  return status.ok() ? DH_OK : fail(status.code(), status.message());
}

template <typename Body>
dh_code guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(Code::kOutOfMemory, "out of memory");
  }
}

std::string_view text_or_empty(const char* text) { return text == nullptr ? "" : text; }

dh_code describe(const std::vector<TensorInfo>& infos, const std::vector<Bounds>& bounds,
                 size_t index, dh_tensor_info* info) {
  if (info == nullptr) return fail(Code::kInvalidArgument, "info is null");
  if (index >= infos.size()) return fail(Code::kInvalidArgument, "index is out of range");
  const TensorInfo& from = infos[index];
  *info = {from.name.c_str(), static_cast<dh_dtype>(from.dtype),
           static_cast<int32_t>(from.shape.size()), bounds[index].min.data(),
           bounds[index].max.data()};
  return DH_OK;
}

Status take_inputs(dh_session& session, const dh_input* inputs, size_t count) {
  session.inputs.clear();
  if (count > 0 && inputs == nullptr) return {Code::kInvalidArgument, "inputs are null"};
  for (size_t i = 0; i < count; ++i) {
    const dh_input& from = inputs[i];
    if (from.rank < 0 || (from.rank > 0 && from.sizes == nullptr)) {
      return {Code::kInvalidArgument, "an input has a rank but no sizes"};
    }
    session.inputs.push_back({.name = text_or_empty(from.name),
                              .data = from.data,
                              .dtype = static_cast<DType>(from.dtype),
                              .sizes = {from.sizes, static_cast<size_t>(from.rank)}});
  }
  return {};
}

}  // namespace

const char* dh_version(void) {
  static const std::string text(downhaul::api::version());
  return text.c_str();
}

const char* dh_last_error(void) { return last_error().text; }

dh_code dh_model_load(const char* path, const dh_load_options* options, dh_model** model) {
  if (model == nullptr) return fail(Code::kInvalidArgument, "model is null");
  *model = nullptr;
  if (path == nullptr) return fail(Code::kInvalidArgument, "path is null");
  return guarded([&] {
    LoadOptions load;
    if (options != nullptr) {
      if (options->struct_bytes < sizeof(dh_load_options)) {
        return fail(Code::kInvalidArgument, "options.struct_bytes is not sizeof(dh_load_options)");
      }
      if (options->num_keep_outputs > 0 && options->keep_outputs == nullptr) {
        return fail(Code::kInvalidArgument, "options.keep_outputs is null");
      }
      for (size_t i = 0; i < options->num_keep_outputs; ++i) {
        load.keep_outputs.emplace_back(text_or_empty(options->keep_outputs[i]));
      }
      load.cache_folder = text_or_empty(options->cache_folder);
    }
    auto loaded = Model::load(path, load);
    if (!loaded.ok()) return finish(loaded.status());
    const Model& m = *loaded;
    *model = new dh_model{m, bounds_of(m.inputs()), bounds_of(m.outputs())};
    return DH_OK;
  });
}

void dh_model_free(dh_model* model) { delete model; }

size_t dh_model_num_inputs(const dh_model* model) {
  return model == nullptr ? 0 : model->inputs.size();
}
size_t dh_model_num_outputs(const dh_model* model) {
  return model == nullptr ? 0 : model->outputs.size();
}

dh_code dh_model_input(const dh_model* model, size_t index, dh_tensor_info* info) {
  if (model == nullptr) return fail(Code::kInvalidArgument, "model is null");
  return describe(model->model.inputs(), model->inputs, index, info);
}

dh_code dh_model_output(const dh_model* model, size_t index, dh_tensor_info* info) {
  if (model == nullptr) return fail(Code::kInvalidArgument, "model is null");
  return describe(model->model.outputs(), model->outputs, index, info);
}

namespace {

dh_code create(const dh_model* model, const SessionOptions& options, dh_session** session) {
  if (session == nullptr) return fail(Code::kInvalidArgument, "session is null");
  *session = nullptr;
  if (model == nullptr) return fail(Code::kInvalidArgument, "model is null");
  return guarded([&] {
    auto made = model->model.new_session(options);
    if (!made.ok()) return finish(made.status());
    *session = new dh_session{*std::move(made), model->outputs.size(), {}, {}};
    (*session)->inputs.reserve(model->inputs.size());
    (*session)->outputs.reserve(model->outputs.size());
    return DH_OK;
  });
}

}  // namespace

dh_code dh_session_create(const dh_model* model, int32_t num_threads, dh_session** session) {
  return create(model, {.num_threads = num_threads}, session);
}

dh_code dh_session_create_with(const dh_model* model, const dh_session_options* options,
                               dh_session** session) {
  SessionOptions chosen;
  if (options != nullptr) {
    if (options->struct_bytes < sizeof(dh_session_options)) {
      if (session != nullptr) *session = nullptr;
      return fail(Code::kInvalidArgument, "options.struct_bytes is not sizeof(dh_session_options)");
    }
    if (options->num_threads != 0) chosen.num_threads = options->num_threads;
    chosen.precision = static_cast<Precision>(options->precision);
  }
  return create(model, chosen, session);
}

void dh_session_free(dh_session* session) { delete session; }

dh_code dh_session_reshape(dh_session* session, const dh_input* inputs, size_t num_inputs) {
  if (session == nullptr) return fail(Code::kInvalidArgument, "session is null");
  return guarded([&] {
    session->ready = false;
    if (const Status s = take_inputs(*session, inputs, num_inputs); !s.ok()) return finish(s);
    const Status status = session->session.reshape(session->inputs);
    session->ready = status.ok();
    return finish(status);
  });
}

dh_code dh_session_output_sizes(const dh_session* session, size_t index, int64_t* sizes,
                                int32_t capacity, int32_t* rank) {
  if (session == nullptr) return fail(Code::kInvalidArgument, "session is null");
  if (rank == nullptr) return fail(Code::kInvalidArgument, "rank is null");
  if (!session->ready) return fail(Code::kInvalidArgument, "the session has no sizes yet");
  if (index >= session->num_outputs) return fail(Code::kInvalidArgument, "index is out of range");
  const std::span<const int64_t> from = session->session.output_sizes(index);
  *rank = static_cast<int32_t>(from.size());
  if (*rank > capacity) return fail(Code::kInvalidArgument, "too little room for the sizes");
  if (sizes == nullptr && *rank > 0) return fail(Code::kInvalidArgument, "sizes are null");
  std::copy(from.begin(), from.end(), sizes);
  return DH_OK;
}

dh_code dh_session_run(dh_session* session, const dh_input* inputs, size_t num_inputs,
                       const dh_output* outputs, size_t num_outputs) {
  if (session == nullptr) return fail(Code::kInvalidArgument, "session is null");
  return guarded([&] {
    if (const Status s = take_inputs(*session, inputs, num_inputs); !s.ok()) return finish(s);
    if (num_outputs > 0 && outputs == nullptr) {
      return fail(Code::kInvalidArgument, "outputs are null");
    }
    session->outputs.clear();
    for (size_t i = 0; i < num_outputs; ++i) {
      session->outputs.push_back({.name = text_or_empty(outputs[i].name),
                                  .data = outputs[i].data,
                                  .bytes = outputs[i].bytes});
    }
    const Status status = session->session.run(session->inputs, session->outputs);
    session->ready = status.ok();
    return finish(status);
  });
}

void dh_session_reset_state(dh_session* session) {
  if (session != nullptr) session->session.reset_state();
}
