#ifndef DOWNHAUL_ENGINE_C_H_
#define DOWNHAUL_ENGINE_C_H_

/* The engine for C and for whatever can call C; installed as <downhaul/engine_c.h>, and all that
 * libdownhaul.so exports. What the functions mean, which errors they give, and what may be called
 * from which thread is told in <downhaul/engine.h>; in short: a dh_model may be used by any number
 * of threads at once, a dh_session by one at a time.
 *
 * Functions that can fail return a dh_code; dh_last_error has the message. Strings and arrays that
 * a function hands out belong to the model and live as long as its handle. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DH_API __attribute__((visibility("default")))
#else
#define DH_API
#endif

typedef enum dh_code {
  DH_OK = 0,
  DH_INVALID_FILE = 1,
  DH_INVALID_GRAPH = 2,
  DH_INVALID_ARGUMENT = 3,
  DH_UNSUPPORTED = 4,
  DH_NOT_FOUND = 5,
  DH_IO = 6,
  DH_OUT_OF_MEMORY = 7
} dh_code;

typedef enum dh_dtype {
  DH_BOOL = 0,
  DH_U8 = 1,
  DH_I8 = 2,
  DH_I16 = 3,
  DH_I32 = 4,
  DH_I64 = 5,
  DH_F16 = 6,
  DH_BF16 = 7,
  DH_F32 = 8,
  DH_F64 = 9
} dh_dtype;

typedef struct dh_model dh_model;
typedef struct dh_session dh_session;

/* An input or output of a model. A dimension is fixed when min and max are equal; a max of
 * INT64_MAX has no bound. */
typedef struct dh_tensor_info {
  const char* name;
  dh_dtype dtype;
  int32_t rank;
  const int64_t* min_sizes; /* [rank], outermost first */
  const int64_t* max_sizes;
} dh_tensor_info;

/* The caller's memory, row-major without gaps, aligned to its element. */
typedef struct dh_input {
  const char* name; /* NULL: by position */
  int32_t dtype;    /* a dh_dtype; a number, so that any value may be checked */
  int32_t rank;
  const int64_t* sizes; /* [rank], outermost first */
  const void* data;
} dh_input;

typedef struct dh_output {
  const char* name; /* NULL: by position */
  void* data;
  size_t bytes; /* room at `data` */
} dh_output;

/* Fields that are zero mean the default. */
typedef struct dh_load_options {
  size_t struct_bytes; /* sizeof(dh_load_options), so that fields can be added */
  const char* const* keep_outputs;
  size_t num_keep_outputs;
  const char* cache_folder;
} dh_load_options;

typedef enum dh_precision {
  DH_PRECISION_F32 = 0,
  DH_PRECISION_BF16 = 1,
  DH_PRECISION_F16 = 2
} dh_precision;

/* Fields that are zero mean the default, one thread too. */
typedef struct dh_session_options {
  size_t struct_bytes; /* sizeof(dh_session_options), so that fields can be added */
  int32_t num_threads;
  int32_t precision; /* a dh_precision; a number, so that any value may be checked */
} dh_session_options;

/* "0.1.0" */
DH_API const char* dh_version(void);
/* Message of the last call of this thread that failed, one line; "" before. Valid until this
 * thread's next failure. */
DH_API const char* dh_last_error(void);

/* `options` may be NULL. On success *model is to be freed with dh_model_free; on an error it is
 * NULL. */
DH_API dh_code dh_model_load(const char* path, const dh_load_options* options, dh_model** model);
/* Sessions of the model go on working. NULL is fine. */
DH_API void dh_model_free(dh_model* model);
DH_API size_t dh_model_num_inputs(const dh_model* model);
DH_API size_t dh_model_num_outputs(const dh_model* model);
/* DH_INVALID_ARGUMENT for an index that does not exist. */
DH_API dh_code dh_model_input(const dh_model* model, size_t index, dh_tensor_info* info);
DH_API dh_code dh_model_output(const dh_model* model, size_t index, dh_tensor_info* info);

/* On success *session is to be freed with dh_session_free; on an error it is NULL. */
DH_API dh_code dh_session_create(const dh_model* model, int32_t num_threads, dh_session** session);
/* The same with more to choose; `options` may be NULL. */
DH_API dh_code dh_session_create_with(const dh_model* model, const dh_session_options* options,
                                      dh_session** session);
DH_API void dh_session_free(dh_session* session);
/* Makes ready for inputs of these sizes; `data` is not looked at. */
DH_API dh_code dh_session_reshape(dh_session* session, const dh_input* inputs, size_t num_inputs);
/* Sizes of an output after a reshape or run that succeeded: up to `capacity` of them into `sizes`,
 * their number into *rank. DH_INVALID_ARGUMENT when there was none, for an index that does not
 * exist and for too little room. */
DH_API dh_code dh_session_output_sizes(const dh_session* session, size_t index, int64_t* sizes,
                                       int32_t capacity, int32_t* rank);
DH_API dh_code dh_session_run(dh_session* session, const dh_input* inputs, size_t num_inputs,
                              const dh_output* outputs, size_t num_outputs);
/* Buffers that runs change are again as the file has them. */
DH_API void dh_session_reset_state(dh_session* session);

#ifdef __cplusplus
}
#endif

#endif /* DOWNHAUL_ENGINE_C_H_ */
