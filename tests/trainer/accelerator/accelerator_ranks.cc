// The program that accelerator_test runs as ranks:
//
//   accelerator_ranks closure STAGE…           an optimizer that evaluates the loss several times a step
//   accelerator_ranks parting STAGE            one whose ranks evaluate differently often
//   accelerator_ranks base DIRECTORY STAGE…    another run's state
//   accelerator_ranks buckets DIRECTORY        a model of very many tensors
//
// Alone, `closure` trains on the batches of both ranks. Prints lines "NAME value".
#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "muster/trainer.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace
namespace fs = std::filesystem;

constexpr int64_t kIn = 6, kHidden = 24, kOut = 3, kRows = 6;

void say(const std::string& name, const std::string& value) {
  std::string line = value;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::printf("%s %s\n", name.c_str(), line.c_str());
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t out = kOut) : head(kHidden, out) {
    register_module("body", body);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head(torch::tanh(body(x))); }
  torch::nn::Linear body{kIn, kHidden}, head;
};
TORCH_MODULE(Net);

AcceleratorOptions options_of(const std::string& stage, const std::string& directory = "") {
  AcceleratorOptions options{.cpu = true};
  options.sharding.stage = parse_zero_stage(stage);
  options.sharding.unit_numel_min = 0;
  options.checkpoint_dir = directory;
  options.log_step_times_every = -1;
  return options;
}

// Rank 1's is larger: for it alone, other steps are too long.
at::Tensor batch_of(int rank, int step, int64_t columns) {
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(1 + rank + 16 * step));
  return torch::randn({kRows, columns}, generator) * (1 + 7 * rank);
}

at::Tensor batch_here(const Accelerator& accelerator, int step, int64_t columns) {
  if (accelerator.use_distributed()) return batch_of(accelerator.process_index(), step, columns);
  return torch::cat({batch_of(0, step, columns), batch_of(1, step, columns)});
}

std::string weights_of(Accelerator& accelerator, const PreparedModel<Net>& model) {
  std::ostringstream text;
  text.precision(9);
  for (const auto& [name, tensor] : accelerator.get_state_dict(model)) {
    const at::Tensor flat = tensor.to(torch::kDouble).flatten();
    for (int64_t i = 0; i < flat.numel(); ++i) text << flat[i].item<double>() << " ";
  }
  return text.str();
}

// ---- Closures ----

// Halves its rate until the step lowers the loss.
struct Backtracking : torch::optim::SGD {
  using torch::optim::SGD::SGD;
  at::Tensor step(LossClosure closure) override {
    const torch::NoGradGuard no_grad;
    const at::Tensor before = closure();
    ++evaluations;
    std::vector<at::Tensor> values, gradients;
    for (const at::Tensor& parameter : param_groups()[0].params()) {
      values.push_back(parameter.clone());
      gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
    }
    for (double rate = 64; rate > 1e-6; rate /= 2) {
      for (size_t i = 0; i < values.size(); ++i) {
        at::Tensor& parameter = param_groups()[0].params()[i];
        if (gradients[i].defined()) parameter.copy_(values[i] - rate * gradients[i]);
      }
      ++evaluations;
      if (closure().item<double>() < before.item<double>()) break;
    }
    return before;
  }
  int evaluations = 0;
};

void closure(const std::string& stage) {
  Accelerator accelerator(options_of(stage));
  torch::manual_seed(3);
  Net net;
  const auto model = accelerator.prepare(net);
  const auto own = std::make_shared<Backtracking>(net->parameters(), 0.1);
  const auto optimizer = accelerator.prepare(own);
  std::string evaluations, losses;
  for (int step = 0; step < 5; ++step) {
    own->evaluations = 0;
    const at::Tensor loss = optimizer.step([&] {
      optimizer.zero_grad();
      at::Tensor value = torch::mse_loss(model(batch_here(accelerator, step, kIn)),
                                         batch_here(accelerator, step, kOut));
      accelerator.backward(value);
      return value;
    });
    evaluations += std::to_string(own->evaluations) + " ";
    losses += std::to_string(loss.item<double>()) + " ";
  }
  say(stage + ".evaluations", evaluations);
  say(stage + ".losses", losses);
  say(stage + ".weights", weights_of(accelerator, model));
}

// Moves the weights before it evaluates, so the evaluation is at another place.
struct Lookahead : torch::optim::SGD {
  using torch::optim::SGD::SGD;
  at::Tensor step(LossClosure closure) override {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : param_groups()[0].params()) parameter.mul_(1.5);
    return closure();
  }
};

// Its shards decide how often it evaluates, which is another number on each rank.
struct ByGradients : torch::optim::SGD {
  using torch::optim::SGD::SGD;
  at::Tensor step(LossClosure closure) override {
    const at::Tensor loss = closure();
    if (rank == 0) closure();
    return loss;
  }
  int rank = 0;
};

template <typename Own>
std::string step_by(const std::string& stage, const std::function<void(Own&, int)>& set) {
  Accelerator accelerator(options_of(stage));
  torch::manual_seed(3);
  Net net;
  const auto model = accelerator.prepare(net);
  const auto own = std::make_shared<Own>(net->parameters(), 0.1);
  if (set) set(*own, accelerator.process_index());
  const auto optimizer = accelerator.prepare(own);
  std::string loss;
  const std::string error = error_of([&] {
    loss = std::to_string(optimizer
                              .step([&] {
                                optimizer.zero_grad();
                                at::Tensor value =
                                    torch::mse_loss(model(batch_here(accelerator, 1, kIn)),
                                                    batch_here(accelerator, 1, kOut));
                                accelerator.backward(value);
                                return value;
                              })
                              .template item<double>());
  });
  return error == "none" ? loss : error;
}

void refused_closures() {
  const auto try_one = [](const AcceleratorOptions& options, const at::Tensor& returned) {
    Accelerator accelerator(options);
    Net net;
    const auto model = accelerator.prepare(net);
    const auto optimizer = accelerator.prepare(SGD(net->parameters(), {.lr = 0.1}));
    return error_of([&] {
      auto window = accelerator.accumulate(model);
      optimizer.step([&] { return returned; });
    });
  };
  AcceleratorOptions options = options_of("none");
  say("no_loss", try_one(options, {}));
  say("many_losses", try_one(options, torch::ones({3})));
  say("no_forward", try_one(options, torch::ones({})));
  options.gradient_accumulation.num_steps = 4;
  say("window", try_one(options, torch::ones({})));
  {
    Accelerator accelerator(options);
    Net net;
    const auto model = accelerator.prepare(net);
    const auto optimizer = accelerator.prepare(SGD(net->parameters(), {.lr = 0.1}));
    for (int i = 0; i < 4; ++i) {
      auto window = accelerator.accumulate(model);
      accelerator.backward(model(batch_of(0, 0, kIn)).sum());
    }
    accelerator.set_gradient_accumulation_steps(1);
    const std::string error = error_of([&] {
      optimizer.step([&] {
        at::Tensor loss = model(batch_of(0, 0, kIn)).sum();
        accelerator.backward(loss);
        return loss;
      });
    });
    say("later", error == "none" ? "stepped" : error);
  }
  options = options_of("none");
  options.mixed_precision = "fp16";
  say("fp16", try_one(options, torch::ones({})));
}

// ---- Another run's state ----

struct Run {
  Run(const AcceleratorOptions& options, int64_t out) : accelerator(options), out(out) {
    torch::manual_seed(out);
    net = Net(out);
    model = std::make_unique<PreparedModel<Net>>(accelerator.prepare(net));
    optimizer = std::make_unique<PreparedOptimizer>(
        accelerator.prepare(AdamW(net->parameters(), {.lr = 0.02})));
    schedule = std::make_unique<PreparedScheduler>(
        accelerator.prepare(linear_schedule({.total_steps = 10})));
    accelerator.register_load_state_post_hook([this](const LoadedState& loaded) {
      hooked += std::to_string(loaded.step) + fs::path(loaded.path).filename().string() + " ";
    });
  }
  void step(int number) {
    accelerator.backward(
        torch::mse_loss((*model)(batch_of(accelerator.process_index(), number, kIn)),
                        batch_of(accelerator.process_index(), number, out)));
    optimizer->step();
    schedule->step();
    optimizer->zero_grad();
  }
  std::string weights() { return weights_of(accelerator, *model); }

  Accelerator accelerator;
  int64_t out;
  Net net{nullptr};
  std::unique_ptr<PreparedModel<Net>> model;
  std::unique_ptr<PreparedOptimizer> optimizer;
  std::unique_ptr<PreparedScheduler> schedule;
  std::string hooked;
};

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + " ";
  return text;
}

std::string compare(const std::string& weights, const std::string& other) {
  return weights == other ? "equal" : "differ";
}

TensorMap copy_of(const TensorMap& tensors) {
  TensorMap copies;
  for (const auto& [name, tensor] : tensors) copies[name] = tensor.clone();
  return copies;
}

// Trains two steps with a checkpoint each, and one more.
std::string make_base(const std::string& base, const std::string& stage) {
  Run run(options_of(stage, base), kOut);
  for (int step = 1; step <= 2; ++step) {
    run.step(step);
    run.accelerator.save_state(step);
  }
  run.step(3);
  return run.weights();
}

void start_from(const std::string& root, const std::string& stage) {
  const std::string base = root + "/" + stage + "-base";
  const std::string further = make_base(base, stage);
  for (const bool restarted : {false, true}) {
    Run run(options_of(stage, root + "/" + stage + "-own"), kOut);
    if (!run.accelerator.load_state()) run.accelerator.load_state({.from = base});
    if (restarted) {
      say(stage + ".restarted", run.hooked);
      return;
    }
    run.step(3);
    say(stage + ".whole", compare(run.weights(), further));
    say(stage + ".iteration", std::to_string(run.accelerator.save_iteration()));
    say(stage + ".hooked", run.hooked);
    run.accelerator.save_state();
  }
}

void fit_from(const std::string& root, const std::string& stage) {
  const std::string base = root + "/" + stage + "-base";
  Run run(options_of(stage, root + "/" + stage + "-fit"), /*out=*/5);
  const TensorMap before = copy_of(run.accelerator.get_state_dict(*run.model));
  const LoadedState loaded = run.accelerator.load_state({.from = base, .strict = false});
  const TensorMap after = run.accelerator.get_state_dict(*run.model);
  say(stage + ".loaded", join(loaded.report.loaded));
  say(stage + ".missing", join(loaded.report.missing));
  say(stage + ".unexpected", join(loaded.report.unexpected));
  std::string mismatched;
  for (const auto& mismatch : loaded.report.mismatched) mismatched += mismatch.name + " ";
  say(stage + ".mismatched", mismatched);
  const bool head_stays = after.at("head.weight").equal(before.at("head.weight"));
  const bool body_came = !after.at("body.weight").equal(before.at("body.weight"));
  say(stage + ".fit", std::string(head_stays ? "head stays" : "head changed") +
                          (body_came ? ", body came" : ", body stays"));
  say(stage + ".others", std::to_string(run.accelerator.save_iteration()) + " " +
                             std::to_string(run.schedule->unwrap().last_step()));
  run.step(1);
}

void refuse_from(const std::string& root, const std::string& stage) {
  const std::string base = root + "/" + stage + "-base";
  const std::string damaged = root + "/" + stage + "-damaged";
  {
    Run other(options_of(stage), 5);
    say("strict", error_of([&] { other.accelerator.load_state({.from = base}); }));
  }
  Run run(options_of(stage, root + "/" + stage + "-none"), kOut);
  if (run.accelerator.is_main_process()) {
    fs::copy(base, damaged, fs::copy_options::recursive);
    fs::resize_file(damaged + "/step-2/shard-00000-of-00002.safetensors", 100);
  }
  run.accelerator.wait_for_everyone();
  const auto load = [&](const LoadStateOptions& options) {
    return error_of([&] { run.accelerator.load_state(options); });
  };
  say("damaged", load({.from = damaged}));
  say("absent", load({.from = root + "/nowhere"}));
  say("empty", load({.from = root}));
  say("unnamed", load({}));
  say("empty_hook", error_of([&] { run.accelerator.register_load_state_post_hook(nullptr); }));
}

// Starts from a checkpoint of another optimizer, and steps once.
void fit_other(const std::string& name, const std::string& base,
               std::shared_ptr<torch::optim::Optimizer> own, Net net) {
  Accelerator accelerator(options_of("none"));
  const auto model = accelerator.prepare(net);
  const auto optimizer = accelerator.prepare(std::move(own));
  const LoadedState loaded = accelerator.load_state({.from = base, .strict = false});
  say(name + ".loaded", join(loaded.report.loaded));
  say(name + ".missing", join(loaded.report.missing));
  say(name + ".unexpected", join(loaded.report.unexpected));
  say(name + ".step", error_of([&] {
        accelerator.backward(model(batch_of(0, 0, kIn)).sum());
        optimizer.step();
      }));
}

void fit_other_optimizers(const std::string& root) {
  const std::string base = root + "/none-base", momentum = root + "/momentum-base";
  {
    Accelerator accelerator(options_of("none", momentum));
    Net net;
    const auto model = accelerator.prepare(net);
    const auto optimizer =
        accelerator.prepare(SGD(net->parameters(), {.lr = 0.1, .momentum = 0.9}));
    accelerator.backward(model(batch_of(0, 0, kIn)).sum());
    optimizer.step();
    accelerator.save_state(1);
    accelerator.wait_for_checkpoint();
  }
  using torch::optim::AdamOptions;
  const Net rmsprop, after_momentum, amsgrad, adam;
  fit_other("rmsprop", base, std::make_shared<torch::optim::RMSprop>(rmsprop->parameters()),
            rmsprop);
  fit_other("momentum", momentum,
            std::make_shared<torch::optim::RMSprop>(after_momentum->parameters()), after_momentum);
  fit_other(
      "amsgrad", base,
      std::make_shared<torch::optim::Adam>(amsgrad->parameters(), AdamOptions().amsgrad(true)),
      amsgrad);
  fit_other("adam", base, std::make_shared<torch::optim::Adam>(adam->parameters(), AdamOptions()),
            adam);
}

// The worker has a checkpoint for this job.
void ignore_worker(const std::string& root, const std::string& stage) {
  const std::string base = root + "/" + stage + "-base";
  ::setenv("MUSTER_RESUME_FROM", (base + "/step-1").c_str(), 1);
  Run run(options_of(stage), kOut);
  ::unsetenv("MUSTER_RESUME_FROM");
  const int64_t named = run.accelerator.load_state({.from = base + "/step-2"}).step;
  say("worker",
      std::to_string(run.accelerator.load_state().value_or(-1)) + " " + std::to_string(named));
}

// ---- Many tensors ----

struct ManyImpl : torch::nn::Module {
  ManyImpl() {
    for (int i = 0; i < 1100; ++i) {
      all.push_back(register_parameter("p" + std::to_string(i), torch::ones({3})));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor sum = x;
    for (const at::Tensor& one : all) sum = sum + one * x;
    return sum;
  }
  std::vector<at::Tensor> all;
};
TORCH_MODULE(Many);

std::string train_many(const std::string& directory, bool loads, bool as_0_2_0, int from) {
  AcceleratorOptions options = options_of("none", directory);
  Accelerator accelerator(options);
  Many net;
  const auto model = accelerator.prepare(net);
  const auto optimizer = accelerator.prepare(SGD(net->parameters(), {.lr = 1e-4, .momentum = 0.9}));
  DataParallel& parallel = model.data_parallel();
  if (as_0_2_0) {
    std::vector<int64_t> all(1100);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    parallel.set_bucket_order({all});
  }
  if (loads) accelerator.load_state();
  for (int step = from; step < 5; ++step) {
    if (!loads && !as_0_2_0 && step == 2) accelerator.save_state(step);
    accelerator.backward(model(batch_of(accelerator.process_index(), step, 3)[0]).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  std::string sizes;
  for (const auto& bucket : parallel.bucket_order()) sizes += std::to_string(bucket.size()) + " ";
  say(loads ? "resumed" : as_0_2_0 ? "old" : "buckets", sizes);
  std::ostringstream text;
  text.precision(9);
  for (const at::Tensor& one : net->all) text << one[1].item<double>() << " ";
  return text.str();
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  const std::string what = argv[1];
  for (int i = 2; what == "closure" && i < argc; ++i) {
    closure(argv[i]);
    say(std::string(argv[i]) + ".lookahead", step_by<Lookahead>(argv[i], nullptr));
  }
  if (what == "parting") {
    say("parting",
        step_by<ByGradients>(argv[2], [](ByGradients& own, int rank) { own.rank = rank; }));
  }
  if (what == "closure") refused_closures();
  for (int i = 3; what == "base" && i < argc; ++i) {
    start_from(argv[2], argv[i]);
    fit_from(argv[2], argv[i]);
  }
  if (what == "base") {
    refuse_from(argv[2], argv[3]);
    ignore_worker(argv[2], argv[3]);
    fit_other_optimizers(argv[2]);
  }
  if (what == "buckets") {
    const std::string whole = train_many(argv[2], false, false, 0);
    say("same", compare(train_many(argv[2], true, false, 2), whole));
    train_many("", false, true, 0);
  }
  return 0;
}
