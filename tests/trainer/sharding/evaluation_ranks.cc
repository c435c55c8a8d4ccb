// The program that evaluation_test runs as ranks: evaluation_ranks STAGE. Each scenario leaves the
// ranks in different places of the program; a rank prints "SCENARIO error", or "SCENARIO none".
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "odd_modules.h"
#include "support/error_text.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

at::Tensor tokens() { return torch::zeros({2, 3}, at::kLong); }

struct Training {
  Accelerator& accelerator;
  PreparedModel<OddNet>& model;
  PreparedOptimizer& optimizer;

  bool is_first() const { return accelerator.process_index() == 0; }
  void evaluate() {
    const torch::NoGradGuard no_grad;
    model(tokens());
  }
  void step() {
    accelerator.backward(model(tokens()).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }
};

void say(const std::string& scenario, std::string error) {
  for (char& c : error) c = c == '\n' ? ' ' : c;
  std::printf("%s %s\n", scenario.c_str(), error.empty() ? "none" : error.c_str());
  std::fflush(stdout);
}

// What rank 0 does alone, while the others are at the next common operation.
void run_all(Training& t) {
  const auto scenario = [&](const char* name, const std::function<void()>& run) {
    say(name, error_of(run));
    t.accelerator.wait_for_everyone();
  };
  scenario("wait", [&] {
    if (t.is_first()) t.evaluate();
    t.accelerator.wait_for_everyone();
  });
  scenario("gather", [&] {
    for (int i = 0; i < (t.is_first() ? 3 : 2); ++i) t.evaluate();
    t.accelerator.gather(1.0);
  });
  scenario("step", [&] {
    if (t.is_first()) t.evaluate();
    t.step();
  });
  scenario("eval_mode", [&] {
    if (t.is_first()) {
      t.model.eval();
      t.model(tokens());
    }
    t.step();
  });
  t.model.train();
  scenario("backward", [&] {
    const at::Tensor loss = t.model(tokens()).pow(2).mean();
    if (t.is_first()) t.evaluate();
    t.accelerator.backward(loss);
  });
  scenario("save", [&] {
    if (t.is_first()) t.evaluate();
    t.accelerator.save_state(1);
  });
  scenario("inside", [&] {
    const auto full = t.accelerator.full_parameters(t.model);
    if (t.is_first()) t.evaluate();
    t.accelerator.wait_for_everyone();
  });
  scenario("all", [&] {
    t.evaluate();
    t.step();
    t.evaluate();
    t.accelerator.wait_for_everyone();
  });
  t.accelerator.wait_for_everyone();
  if (t.is_first()) say("leaves", error_of([&] { t.evaluate(); }));
}

int train(int /*argc*/, char** argv) {
  Accelerator accelerator({.sharding = {.stage = parse_zero_stage(argv[1])},
                           .process_group_timeout = std::chrono::seconds(20),
                           .checkpoint_dir = argv[2]});
  accelerator.set_seed(3);
  OddNet net("usual");
  auto model = accelerator.prepare(net);
  auto optimizer = accelerator.prepare(AdamW(net->parameters(), {.lr = 0.01}));
  Training training{accelerator, model, optimizer};
  run_all(training);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, train); }
