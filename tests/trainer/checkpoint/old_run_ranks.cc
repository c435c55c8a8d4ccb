// Wrote checkpoints-0.2.0.tar.xz with the SDK of 0.2.0, on two ranks for each SHAPE:
//   old_run_ranks SHAPE DIRECTORY
// writes two steps' checkpoint of that run as DIRECTORY/step-2.
#include <cstdio>
#include <string>

#include "checkpoint/old_run.h"

namespace {

int run(int argc, char** argv) {
  if (argc != 3) throw muster::DoNotRetryError("usage: old_run_ranks SHAPE DIRECTORY");
  for (const muster::OldRunShape& shape : muster::old_run_shapes()) {
    if (shape.name() != argv[1]) continue;
    muster::OldRun old(shape, argv[2], /*seed=*/1);
    old.step();
    old.step();
    old.accelerator.save_state(2);
    return 0;
  }
  throw muster::DoNotRetryError(std::string("no shape ") + argv[1]);
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, run); }
