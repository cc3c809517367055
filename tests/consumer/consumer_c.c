/* A C program of somebody else's, linked against libdownhaul.so. */
#include <downhaul/engine_c.h>
#include <stdio.h>

int main(int argc, char** argv) {
  dh_model* model;
  dh_tensor_info info;
  if (argc != 2) return 2;
  if (dh_model_load(argv[1], NULL, &model) != DH_OK) {
    fprintf(stderr, "%s\n", dh_last_error());
    return 1;
  }
  if (dh_model_input(model, 0, &info) != DH_OK) return 1;
  printf("downhaul %s: first input is %s\n", dh_version(), info.name);
  dh_model_free(model);
  return 0;
}
