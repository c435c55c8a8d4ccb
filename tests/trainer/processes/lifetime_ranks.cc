// The program that lifetimes_test runs as ranks: what lives longer or shorter than was thought.
//
//   lifetime_ranks again | outlive ROUNDS | fork CODE | registered DIRECTORY | repeated DIRECTORY
//
// Prints lines "NAME value".
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "muster/trainer.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

struct NetImpl : torch::nn::Module {
  NetImpl() {
    layers->push_back(torch::nn::Linear(6, 16));
    layers->push_back(torch::nn::Tanh());
    layers->push_back(torch::nn::Linear(16, 16));
    register_module("layers", layers);
    register_module("head", head);
    register_buffer("calls", calls);
  }
  at::Tensor forward(const at::Tensor& x) {
    calls.add_(1);
    return head(layers->forward(x));
  }
  torch::nn::Sequential layers;
  torch::nn::Linear head{16, 3};
  at::Tensor calls = torch::zeros({1});
};
TORCH_MODULE(Net);

const char* const kStages[] = {"ddp", "zero1", "zero2", "zero3"};

void say(const std::string& name, std::string value) {
  for (char& letter : value) letter = letter == '\n' ? ' ' : letter;
  std::printf("%s %s\n", name.c_str(), value.c_str());
}

AcceleratorOptions options_of(int stage, Precision precision = Precision::fp32) {
  AcceleratorOptions options{.cpu = true};
  options.mixed_precision = precision;
  options.sharding.stage = static_cast<ZeroStage>(stage);
  options.sharding.unit_numel_min = 0;
  options.log_step_times_every = -1;
  return options;
}

Net net_of(uint64_t seed) {
  torch::manual_seed(seed);
  return Net();
}

TensorMap copy_of(const TensorMap& tensors) {
  TensorMap copy;
  for (const auto& [name, tensor] : tensors) copy[name] = tensor.clone();
  return copy;
}

bool equal(const TensorMap& a, const TensorMap& b) {
  for (const auto& [name, tensor] : a) {
    if (!tensor.equal(b.at(name))) return false;
  }
  return a.size() == b.size();
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

// Three steps with a new optimizer; returns the weights.
TensorMap train(Accelerator& accelerator, PreparedModel<Net>& model) {
  auto optimizer = accelerator.prepare(AdamW(model.parameters(), {.lr = 0.02}));
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(10 * accelerator.process_index() + step);
    accelerator.backward(model(torch::randn({4, 6})).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  return copy_of(accelerator.get_state_dict(model));
}

// The same from these weights, in a new Accelerator and a new module.
TensorMap train_anew(const AcceleratorOptions& options, const TensorMap& weights) {
  Accelerator accelerator(options);
  Net net = net_of(1);
  {
    const torch::NoGradGuard no_grad;
    for (auto& item : net->named_parameters()) item.value().copy_(weights.at(item.key()));
    for (auto& item : net->named_buffers()) item.value().copy_(weights.at(item.key()));
  }
  auto model = accelerator.prepare(net);
  return train(accelerator, model);
}

// free_memory and prepare again in the same stage, while old handles live; then, when that
// Accelerator is gone, in another stage.
void again_in(int stage, int next, Precision precision) {
  const std::string name = std::string(kStages[stage]) + "-" + kStages[next] +
                           (precision == Precision::bf16 ? "-bf16" : "");
  Net net = net_of(2);
  TensorMap first, second, third;
  {
    Accelerator accelerator(options_of(stage, precision));
    auto old = accelerator.prepare(net);
    first = train(accelerator, old);
    accelerator.free_memory();
    if (stage == 3) say(name + ".read", error_of([&] { net->head->weight.sum().item<float>(); }));
    if (stage > 0) say(name + ".old", error_of([&] { old(torch::ones({1, 6})); }));
    auto model = accelerator.prepare(net);
    say(name + ".kept", equal(first, copy_of(accelerator.get_state_dict(model))) ? "yes" : "no");
    second = train(accelerator, model);
    say(name + ".refused", error_of([&] { old(torch::ones({1, 6})); }));
  }
  {
    Accelerator accelerator(options_of(next, precision));
    auto model = accelerator.prepare(net);
    third = train(accelerator, model);
  }
  say(name + ".same",
      equal(second, train_anew(options_of(stage, precision), first)) ? "yes" : "no");
  say(name + ".other",
      equal(third, train_anew(options_of(next, precision), second)) ? "yes" : "no");
}

void again() {
  for (int stage = 0; stage < 4; ++stage) again_in(stage, (stage + 3) % 4, Precision::fp32);
  again_in(3, 0, Precision::bf16);
}

// Everything that a program holds, ended in this order. All ranks end it in the same one: the end of a
// scope may be collective.
void end_in(int stage, std::mt19937& order) {
  std::optional<Accelerator> accelerator(std::in_place, options_of(stage));
  auto net = std::make_optional<Net>(net_of(2));
  auto model = std::make_optional(accelerator->prepare(*net));
  auto optimizer = std::make_optional(accelerator->prepare(AdamW(model->parameters())));
  auto schedule = std::make_optional(accelerator->prepare(cosine_schedule({.total_steps = 9})));
  auto loader = std::make_optional(
      accelerator->prepare(DataLoader(TensorDataset(torch::ones({8, 6})), {.batch_size = 2})));
  loader->begin();  // a pass in progress
  at::Tensor graph = (*model)(torch::ones({2, 6})).sum();
  auto logger = std::make_optional(accelerator->get_logger("end"));
  using Accumulation = Accelerator::Accumulation;
  std::unique_ptr<Accumulation> accumulation(new Accumulation(accelerator->accumulate(*model)));
  auto no_sync = std::make_unique<NoSync>(*model);
  auto full = std::make_unique<FullParameters>(model->frame());
  auto local = stage == 0 ? std::make_unique<LocalSGD>(*model) : nullptr;
  auto join =
      stage == 0
          ? std::make_unique<JoinUnevenInputs>(std::vector<DataParallel*>{&model->data_parallel()})
          : nullptr;
  std::vector<std::function<void()>> ends = {
      [&] { accelerator.reset(); },
      [&] {
        if (accelerator) accelerator->free_memory();
      },
      [&] { net.reset(); },
      [&] { model.reset(); },
      [&] { optimizer.reset(); },
      [&] { schedule.reset(); },
      [&] { loader.reset(); },
      [&] {
        error_of([&] { graph.backward(); });
        graph.reset();
      },
      [&] { logger->info("so far", {.main_process_only = false, .in_order = true}); },
      [&] { accumulation.reset(); },
      [&] { no_sync.reset(); },
      [&] { full.reset(); },
      [&] { local.reset(); },
      [&] { join.reset(); }};
  std::shuffle(ends.begin(), ends.end(), order);
  for (const auto& end : ends) end();
}

void outlive(int rounds) {
  std::mt19937 order(5);
  for (int stage = 0; stage < 4; ++stage) {
    for (int round = 0; round < rounds; ++round) end_in(stage, order);
    say(kStages[stage], "alive");
  }
  // The others wait in their constructor until the main process ends its scope.
  using FirstScope = Accelerator::FirstScope;
  std::optional<Accelerator> accelerator(std::in_place, options_of(0));
  std::unique_ptr<FirstScope> first(new FirstScope(accelerator->main_process_first()));
  accelerator.reset();
}

// A child that returns from main, from inside everything.
int fork_in(const std::string& code) {
  Accelerator accelerator(options_of(2));
  Net net = net_of(2);
  auto model = accelerator.prepare(net);
  const auto scope = accelerator.accumulate(model);
  const pid_t child = ::fork();
  if (child == 0) return std::atoi(code.c_str());
  int status = 0;
  ::waitpid(child, &status, 0);
  say("child", std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)));
  const at::Tensor own = torch::tensor(int64_t{1 + accelerator.process_index()});
  say("sum", std::to_string(accelerator.reduce(own, Reduction::sum).item<int64_t>()));
  train(accelerator, model);
  return 0;
}

// A registered state that the checkpoint lacks.
void registered(const std::string& directory) {
  const auto state_of = [](at::Tensor& value) {
    return CustomState{[&value] {
                         return TensorMap{{"value", value}};
                       },
                       [&value](const TensorMap& saved) { value = saved.at("value"); }};
  };
  at::Tensor known = torch::ones({1}), added = torch::zeros({1});
  AcceleratorOptions options = options_of(1);
  options.checkpoint_dir = directory;
  {
    Accelerator accelerator(options);
    accelerator.register_for_checkpointing("known", state_of(known));
    accelerator.save_state(1);
  }
  known = torch::zeros({1});
  Accelerator accelerator(options);
  accelerator.register_for_checkpointing("known", state_of(known));
  accelerator.register_for_checkpointing("added", state_of(added));
  say("error", error_of([&] { accelerator.load_state(); }));
}

// A save that is repeated: as the run is now, after a step, after a load, and when it is gone.
void repeated(const std::string& directory) {
  for (const bool asynchronous : {false, true}) {
    const std::string kind = asynchronous ? "asynchronous." : "at_once.";
    AcceleratorOptions options = options_of(2);
    options.checkpoint_dir = directory + "/" + kind;
    options.checkpoint.asynchronous = asynchronous;
    Accelerator accelerator(options);
    Net net = net_of(2);
    auto model = accelerator.prepare(net);
    train(accelerator, model);
    const std::string path = accelerator.save_state(1);
    say(kind + "again", accelerator.save_state(1) == path ? "same" : "another");
    accelerator.wait_for_checkpoint();
    accelerator.load_state();
    say(kind + "loaded", accelerator.save_state(1) == path ? "same" : "another");
    accelerator.free_memory();
    auto anew = accelerator.prepare(net);
    train(accelerator, anew);
    say(kind + "trained", error_of([&] { accelerator.save_state(1); }));
    accelerator.save_state(2);
    accelerator.wait_for_checkpoint();
    accelerator.wait_for_everyone();
    // One rank alone finds it gone, or all do.
    if (accelerator.is_main_process()) {
      std::filesystem::rename(options.checkpoint_dir + "/step-2", directory + "/" + kind + "gone");
    }
    accelerator.wait_for_everyone();
    say(kind + "gone", error_of([&] { accelerator.save_state(2); }));
    // The ranks are still together.
    say(kind + "next", error_of([&] { accelerator.save_state(3); }));
  }
}

int scenario(int argc, char** argv) {
  torch::set_num_threads(1);
  const std::string what = argv[1];
  if (what == "again") again();
  if (what == "outlive") outlive(std::atoi(argv[2]));
  if (what == "fork") return fork_in(argv[2]);
  if (what == "registered") registered(argv[2]);
  if (what == "repeated") repeated(argv[2]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, scenario); }
