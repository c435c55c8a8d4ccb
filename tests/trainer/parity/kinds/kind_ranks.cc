// The C++ side of kinds_test.cc: parity_kind_ranks OUTPUTS trains every kind, one after another with
// one Accelerator, and records them in OUTPUTS/muster.RANK.json. kind_twin.py is the same program on
// Hugging Face Accelerate.
#include <fstream>

#include "parity/kinds/kind.h"

namespace {

int train_kinds(int, char** argv) {
  torch::set_num_threads(1);
  muster::Accelerator accelerator(muster::accelerate_compat({.cpu = true}));
  nlohmann::json seen;
  for (const auto& kinds : {parity::number_kinds(), parity::objective_kinds(),
                            parity::sequence_kinds(), parity::structure_kinds()}) {
    for (const auto& [name, train] : kinds) {
      parity::Kind kind(accelerator);
      train(kind);
      seen[name] = kind.seen();
      accelerator.free_memory();
    }
  }
  std::ofstream(std::string(argv[1]) + "/muster." + std::to_string(accelerator.process_index()) +
                ".json")
      << seen;
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, train_kinds); }
