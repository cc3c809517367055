#include "base/file.h"
#include "cli/command_line.h"

int main(int argc, char** argv) {
  downhaul::remove_unfinished_outputs_on_signal();
  return downhaul::run_command_line(argc, argv);
}
