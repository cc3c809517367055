/* The C interface from C: engine_c_test SAMPLE.pt2. Ends with 0 when all is right. */
#include "api/engine_c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int faults = 0;

static void expect(int condition, const char* what, int line) {
  if (!condition) {
    fprintf(stderr, "line %d: %s; last error: %s\n", line, what, dh_last_error());
    ++faults;
  }
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

int main(int argc, char** argv) {
  dh_model* model = NULL;
  dh_session* session = NULL;
  dh_tensor_info info;
  dh_input in[2];
  dh_output out[1];
  dh_load_options options;
  dh_session_options choice;
  const char* keep[1] = {"no_such_output"};
  int64_t sizes[8], in_sizes[2];
  int32_t rank = 0;
  size_t count = 1, i;
  int64_t* ids;
  float *first, *second;

  if (argc != 2) return 2;
  EXPECT(strlen(dh_version()) > 0);
  EXPECT(strcmp(dh_last_error(), "") == 0);

  EXPECT(dh_model_load("/nonexistent", NULL, &model) == DH_NOT_FOUND && model == NULL);
  EXPECT(strstr(dh_last_error(), "/nonexistent") != NULL);
  EXPECT(dh_model_load(NULL, NULL, &model) == DH_INVALID_ARGUMENT);
  EXPECT(dh_model_load(argv[1], NULL, NULL) == DH_INVALID_ARGUMENT);
  memset(&options, 0, sizeof options);
  EXPECT(dh_model_load(argv[1], &options, &model) == DH_INVALID_ARGUMENT);
  options.struct_bytes = sizeof options;
  options.keep_outputs = keep;
  options.num_keep_outputs = 1;
  EXPECT(dh_model_load(argv[1], &options, &model) == DH_INVALID_ARGUMENT && model == NULL);
  EXPECT(strstr(dh_last_error(), "no_such_output") != NULL);

  EXPECT(dh_model_load(argv[1], NULL, &model) == DH_OK);
  if (model == NULL) return 1;
  EXPECT(dh_model_num_inputs(model) == 2 && dh_model_num_outputs(model) == 1);
  EXPECT(dh_model_input(model, 2, &info) == DH_INVALID_ARGUMENT);
  EXPECT(dh_model_input(model, 0, &info) == DH_OK);
  EXPECT(strcmp(info.name, "input_ids") == 0 && info.dtype == DH_I64 && info.rank == 2);
  EXPECT(info.min_sizes[1] == info.max_sizes[1]);

  EXPECT(dh_model_num_inputs(NULL) == 0 && dh_model_output(NULL, 0, &info) == DH_INVALID_ARGUMENT);
  EXPECT(dh_session_run(NULL, in, 2, out, 1) == DH_INVALID_ARGUMENT);
  EXPECT(dh_session_reshape(NULL, in, 2) == DH_INVALID_ARGUMENT);
  EXPECT(dh_session_output_sizes(NULL, 0, sizes, 8, &rank) == DH_INVALID_ARGUMENT);
  EXPECT(strcmp(dh_last_error(), "session is null") == 0);
  dh_session_reset_state(NULL);
  memset(&choice, 0, sizeof choice);
  EXPECT(dh_session_create_with(model, &choice, &session) == DH_INVALID_ARGUMENT);
  choice.struct_bytes = sizeof choice;
  choice.precision = 7;
  EXPECT(dh_session_create_with(model, &choice, &session) == DH_INVALID_ARGUMENT);
  choice.precision = DH_PRECISION_F16;
  choice.num_threads = 1;
  EXPECT(dh_session_create_with(model, &choice, &session) == DH_OK);
  dh_session_free(session);
  choice.precision = DH_PRECISION_BF16;
  choice.num_threads = 2;
  EXPECT(dh_session_create_with(model, &choice, &session) == DH_OK);
  dh_session_reset_state(session);
  dh_session_free(session);
  EXPECT(dh_session_create_with(model, NULL, &session) == DH_OK);
  dh_session_free(session);
  EXPECT(dh_session_create(model, 0, &session) == DH_INVALID_ARGUMENT && session == NULL);
  EXPECT(dh_session_create(model, 2, &session) == DH_OK);
  EXPECT(dh_session_output_sizes(session, 0, sizes, 8, &rank) == DH_INVALID_ARGUMENT);

  memset(in, 0, sizeof in);
  in_sizes[0] = info.max_sizes[0]; /* the model's arrays go with its handle */
  in_sizes[1] = info.max_sizes[1];
  ids = calloc((size_t)(in_sizes[0] * in_sizes[1]), sizeof *ids);
  if (ids == NULL) return 1;
  for (i = 0; i < (size_t)in_sizes[1]; ++i) ids[i] = 4; /* the sample's [MASK] */
  for (i = 0; i < 2; ++i) {
    in[i].dtype = DH_I64;
    in[i].rank = 2;
    in[i].sizes = in_sizes;
    in[i].data = ids;
  }
  in[1].name = "attention_mask";
  EXPECT(dh_session_reshape(session, in, 1) == DH_INVALID_ARGUMENT);
  EXPECT(dh_session_reshape(session, NULL, 2) == DH_INVALID_ARGUMENT);
  EXPECT(dh_session_reshape(session, in, 2) == DH_OK);
  EXPECT(dh_session_output_sizes(session, 1, sizes, 8, &rank) == DH_INVALID_ARGUMENT);
  EXPECT(dh_session_output_sizes(session, 0, sizes, 0, &rank) == DH_INVALID_ARGUMENT);
  EXPECT(dh_session_output_sizes(session, 0, sizes, 8, &rank) == DH_OK && rank == 2);
  for (i = 0; i < (size_t)rank; ++i) count *= (size_t)sizes[i];
  first = calloc(count, sizeof *first);
  second = calloc(count, sizeof *second);
  if (first == NULL || second == NULL) return 1;

  out[0].name = NULL;
  out[0].data = first;
  out[0].bytes = count * sizeof *first - 1;
  EXPECT(dh_session_run(session, in, 2, out, 1) == DH_INVALID_ARGUMENT);
  out[0].bytes = count * sizeof *first;
  in[0].dtype = DH_F32;
  EXPECT(dh_session_run(session, in, 2, out, 1) == DH_INVALID_ARGUMENT);
  EXPECT(strstr(dh_last_error(), "input_ids") != NULL);
  in[0].dtype = 99;
  EXPECT(dh_session_run(session, in, 2, out, 1) == DH_INVALID_ARGUMENT);
  in[0].dtype = -1;
  EXPECT(dh_session_run(session, in, 2, out, 1) == DH_INVALID_ARGUMENT);
  in[0].dtype = DH_I64;
  EXPECT(dh_session_run(session, in, 2, out, 0) == DH_INVALID_ARGUMENT);
  EXPECT(dh_session_run(session, in, 2, NULL, 1) == DH_INVALID_ARGUMENT);
  EXPECT(dh_session_run(session, in, 2, out, 1) == DH_OK);

  dh_model_free(model); /* the session goes on */
  out[0].name = "logits";
  out[0].data = second;
  EXPECT(dh_session_run(session, in, 2, out, 1) == DH_OK);
  EXPECT(memcmp(first, second, count * sizeof *first) == 0);
  for (i = 0; i < count; ++i) {
    if (!isfinite(first[i])) break;
  }
  EXPECT(i == count);

  dh_session_free(session);
  dh_session_free(NULL);
  dh_model_free(NULL);
  free(ids);
  free(first);
  free(second);
  return faults == 0 ? 0 : 1;
}
