// The program that the ranks of parallel_test run: parallel_ranks SCENARIO ARGUMENT…
#include <map>

#include "muster/base/run_main.h"
#include "parallel/rank_model.h"

namespace {

int scenario(int argc, char** argv) {
  const std::map<std::string, muster::Scenario> scenarios = {
      {"twins", muster::train_twins},
      {"unused", muster::unused},
      {"static_graph", muster::static_graph},
      {"second_backward", muster::second_backward},
      {"agreement", muster::agreement},
      {"join_numbers", muster::join_numbers},
      {"join_edges", muster::join_edges},
      {"local_sgd", muster::local_sgd},
      {"timings", muster::timings},
      {"alone", muster::alone},
      {"sync_batch_norm", muster::sync_batch_norm},
      {"side_group", muster::side_group},
      {"sub_groups", muster::sub_groups},
      {"leave", muster::leave},
      {"strangers", muster::strangers},
      {"meeting_place", muster::meeting_place},
      {"mismatches", muster::mismatches},
      {"lonely_reduce", muster::lonely_reduce},
      {"after_a_timeout", muster::after_a_timeout}};
  scenarios.at(argv[1])(muster::Arguments(argv + 2, argv + argc));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, scenario); }
