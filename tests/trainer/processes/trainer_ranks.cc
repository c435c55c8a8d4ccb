// The program that the multi-process tests run as ranks: trainer_ranks SCENARIO [ARGUMENT...].
// It prints lines "name value" that the test compares, and exits with 0 unless an exception
// escapes.
#include <muster/trainer.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace {

using Arguments = std::vector<std::string>;

// More than one MiB of gradients, so that there are several buckets; dropout for random numbers,
// batch normalization for buffers.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t width = 600) {
    first = register_module("first", torch::nn::Linear(16, width));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
    second = register_module("second", torch::nn::Linear(width, width));
    third = register_module("third", torch::nn::Linear(width, width));
    last = register_module("last", torch::nn::Linear(width, 4));
    dropout = register_module("dropout", torch::nn::Dropout(0.2));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = torch::relu(norm(first(input)));
    x = torch::relu(third(dropout(torch::relu(second(x)))));
    return last(x);
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Net);

constexpr int64_t kSamples = 60;

at::Device place = at::kCPU;  // of the run

at::Tensor dataset() {
  return torch::sin(torch::arange(kSamples * 16, at::kFloat)).view({kSamples, 16}).to(place);
}

at::Tensor input_of(const std::vector<int64_t>& batch) {
  return dataset().index_select(0, torch::tensor(batch).to(place));
}

// Works on the prepared model and on a bare copy of it alike.
template <typename Model>
at::Tensor loss_of(Model& model, const std::vector<int64_t>& batch) {
  return model(input_of(batch)).pow(2).mean();
}

// A number that changes when one bit of the tensor does, and that people can compare.
std::string fingerprint(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.detach().cpu().contiguous();
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  const auto* data = static_cast<const unsigned char*>(bytes.const_data_ptr());
  for (size_t i = 0; i < bytes.nbytes(); ++i) hash = (hash ^ data[i]) * 0x100000001b3ULL;
  char text[20];
  std::snprintf(text, sizeof(text), "%016lx", hash);
  return text;
}

std::string fingerprint(torch::nn::Module& module) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : module.parameters()) all.push_back(parameter.flatten());
  return fingerprint(torch::cat(all));
}

void say(const std::string& name, const std::string& value) {
  std::printf("%s %s\n", name.c_str(), value.c_str());
}
void say(const std::string& name, bool value) { say(name, std::string(value ? "yes" : "no")); }

muster::AcceleratorOptions small_buckets() {
  muster::AcceleratorOptions options;
  options.data_parallel.bucket_cap_mb = 1;
  return options;
}

// Everything that training needs, prepared; the same seeds on every start.
struct Run {
  explicit Run(const muster::AcceleratorOptions& options, uint64_t seed = 5)
      : accelerator(options) {
    place = accelerator.device();
    accelerator.set_seed(seed);
    net = Net();
    model.emplace(accelerator.prepare(net));
    optimizer.emplace(accelerator.prepare(
        torch::optim::AdamW(net->parameters(), torch::optim::AdamWOptions(0.01))));
    sampler = accelerator.prepare(muster::ShardedSampler(
        {.dataset_size = kSamples, .batch_size = 12 / accelerator.num_processes(), .seed = 3}));
    accelerator.set_seed(seed + 100, /*device_specific=*/true);
  }

  void step() {
    auto batch = sampler->next_batch();
    if (!batch) batch = sampler->next_batch();
    optimizer->zero_grad();
    accelerator.backward(loss_of(*model, *batch));
    optimizer->step();
    ++steps;
  }

  muster::Accelerator accelerator;
  Net net{nullptr};
  std::optional<muster::PreparedModel<Net>> model;
  std::optional<muster::PreparedOptimizer> optimizer;
  std::shared_ptr<muster::ShardedSampler> sampler;
  int64_t steps = 0;
};

void copy_weights(const Net& from, const Net& to) {
  const torch::NoGradGuard no_grad;
  const auto source = from->parameters();
  const auto target = to->parameters();
  for (size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
}

// The largest difference between DDP's gradients and the mean of the ranks' own.
double difference_from_mean(Run& run, const Net& copy) {
  double greatest = 0;
  const auto with_ddp = run.net->parameters();
  const auto own = copy->parameters();
  for (size_t i = 0; i < own.size(); ++i) {
    const at::Tensor mean = run.accelerator.reduce(own[i].grad());
    const double scale = mean.abs().max().item<double>() + 1e-12;
    greatest = std::max(greatest, (with_ddp[i].grad() - mean).abs().max().item<double>() / scale);
  }
  return greatest;
}

void gradients(const Arguments&) {
  Run run(small_buckets());
  Net copy;
  copy_weights(run.net, copy);
  run.model->eval();  // no dropout: the copy must compute the same
  copy->eval();
  const auto bare = [&](const at::Tensor& input) { return copy->forward(input); };
  // However the model is called. The second forward rebuilds the buckets.
  const muster::PreparedModel<Net> model = *run.model;
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> calls = {
      [&](const at::Tensor& input) { return model(input); },
      [&](const at::Tensor& input) { return model->forward(input); },
      [&](const at::Tensor& input) { return (*model).forward(input); }};
  double difference = 0;
  for (const auto& call : calls) {
    const auto batch = *run.sampler->next_batch();
    run.optimizer->zero_grad();
    run.accelerator.backward(loss_of(call, batch));
    copy->zero_grad();
    loss_of(bare, batch).backward();
    difference = std::max(difference, difference_from_mean(run, copy));
  }
  say("difference", std::to_string(difference));

  // Two micro-batches: the first only accumulates, the second reduces the sum.
  const auto first = *run.sampler->next_batch();
  const auto second = *run.sampler->next_batch();
  run.optimizer->zero_grad();
  copy->zero_grad();
  {
    const muster::NoSync no_sync(*run.model);
    run.accelerator.backward(loss_of(*run.model, first));
  }
  loss_of(bare, first).backward();
  say("local", run.net->last->weight.grad().equal(copy->last->weight.grad()));
  run.accelerator.backward(loss_of(*run.model, second));
  loss_of(bare, second).backward();
  say("accumulated", std::to_string(difference_from_mean(run, copy)));
}

void keeps_ranks_identical(const Arguments&) {
  // Each rank builds different weights: rank 0's must win.
  Run run(small_buckets(), 5 + static_cast<uint64_t>(std::atoi(std::getenv("RANK"))));
  say("start", fingerprint(*run.net));
  for (int i = 0; i < 5; ++i) run.step();
  say("end", fingerprint(*run.net));
  say("name", run.net->named_parameters()[0].key());
  const auto order = run.model->data_parallel().bucket_order();
  say("several_buckets", order.size() > 1);
  // Evaluation is not collective: one rank may do it alone.
  if (run.accelerator.is_main_process()) {
    const torch::NoGradGuard no_grad;
    (*run.model)(dataset());
  }
}

void different_models(const Arguments&) {
  muster::Accelerator accelerator;
  Net net(accelerator.process_index() == 1 ? 700 : 600);
  try {
    accelerator.prepare(net);
  } catch (const muster::CommunicationError& error) {
    say("error", std::string(error.what()));
  }
}

// What scripts written for a bare module do: the ranks would silently diverge.
void bypass(const Arguments&) {
  Run run(small_buckets());
  const auto batch = *run.sampler->next_batch();
  run.accelerator.backward(run.model->unwrap()->forward(input_of(batch)).pow(2).mean());
  try {
    run.optimizer->step();
  } catch (const muster::Error& error) {
    say("error", std::string(error.what()));
  }
  run.step();
  say("end", fingerprint(*run.net));
}

void collectives(const Arguments&) {
  muster::Accelerator accelerator;
  const double rank = accelerator.process_index();
  const auto list = [](const at::Tensor& tensor) {
    std::string text;
    const at::Tensor flat = tensor.flatten().to(at::kDouble);
    for (int64_t i = 0; i < flat.numel(); ++i) {
      text += (i > 0 ? "," : "") + std::to_string(static_cast<int>(flat[i].item<double>()));
    }
    return text;
  };
  say("scalar", list(accelerator.gather(torch::tensor(rank))));
  say("rows", list(accelerator.gather(torch::full({2, 2}, rank))));
  say("empty", std::to_string(accelerator.gather(torch::zeros({0, 3})).size(1)));
  say("doubles", std::to_string(accelerator.gather(rank).size()));
  say("sum", list(accelerator.reduce(torch::full({2}, static_cast<int64_t>(rank) + 1),
                                     muster::Reduction::sum)));
  say("mean", std::to_string(accelerator.reduce(rank)));
  say("max", std::to_string(accelerator.reduce(rank, muster::Reduction::max)));
  say("min", std::to_string(accelerator.reduce(rank, muster::Reduction::min)));
  const at::Tensor kept = torch::ones({3});
  accelerator.reduce(kept, muster::Reduction::sum);
  say("input_kept", kept.equal(torch::ones({3})));
  try {
    accelerator.reduce(torch::ones({1}, at::kInt));
  } catch (const std::invalid_argument&) {
    say("integer_mean", std::string("refused"));
  }
  accelerator.wait_for_everyone();
}

void stop(const Arguments&) {
  muster::Accelerator accelerator;
  say("before", accelerator.should_stop());
  if (accelerator.is_last_process()) ::raise(SIGTERM);
  say("after", accelerator.should_stop());
  say("told", accelerator.stop_requested());
}

void agent_store(const Arguments&) {
  muster::Accelerator accelerator;
  say("agent_store", accelerator.topology().agent_store);
  say("sum", std::to_string(static_cast<int>(accelerator.reduce(1, muster::Reduction::sum))));
}

void meet(const Arguments&) {
  muster::Accelerator accelerator({.init_timeout = std::chrono::seconds(1)});
}

// train DIRECTORY STEPS SAVE_EVERY. KILL="rank stage step" kills that rank at that stage.
void train(const Arguments& arguments) {
  muster::AcceleratorOptions options = small_buckets();
  options.checkpoint_dir = arguments.at(0);
  int64_t saving = 0;
  options.on_checkpoint_stage = [&saving](const char* stage) {
    const char* kill = std::getenv("KILL");
    const std::string here =
        std::string(std::getenv("RANK")) + " " + stage + " " + std::to_string(saving);
    if (kill != nullptr && here == kill) ::kill(::getpid(), SIGKILL);
  };
  Run run(options);
  run.steps = run.accelerator.load_state().value_or(0);
  say("resumed", std::to_string(run.steps));
  say("loaded", fingerprint(*run.net));
  say("consumed",
      std::to_string(run.sampler->position().epoch * kSamples + run.sampler->position().consumed));
  const int64_t total = std::stoll(arguments.at(1));
  const int64_t save_every = std::stoll(arguments.at(2));
  while (run.steps < total) {
    run.step();
    saving = run.steps;
    if (run.steps % save_every == 0) run.accelerator.save_state(run.steps);
  }
  say("end", fingerprint(*run.net));
  say("mean", fingerprint(run.net->norm->running_mean));
  say("random", fingerprint(torch::rand({4})));
}

// save DIRECTORY: one save; prints its failure.
void save(const Arguments& arguments) {
  muster::AcceleratorOptions options;
  options.checkpoint_dir = arguments.at(0);
  Run run(options);
  run.step();
  try {
    say("saved", run.accelerator.save_state(1));
  } catch (const muster::CheckpointError& error) {
    say("error", std::string(error.what()));
  }
}

// save_without_space DIRECTORY: in one of three saves, the last rank cannot write files above 1,000
// bytes.
void save_without_space(const Arguments& arguments) {
  muster::AcceleratorOptions options;
  options.checkpoint_dir = arguments.at(0);
  Run run(options);
  run.accelerator.save_state(1);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit before = limit;
  limit.rlim_cur = 1'000;
  ::signal(SIGXFSZ, SIG_IGN);
  if (run.accelerator.is_last_process()) ::setrlimit(RLIMIT_FSIZE, &limit);
  try {
    run.accelerator.save_state(2);
  } catch (const muster::CheckpointError& error) {
    ::setrlimit(RLIMIT_FSIZE, &before);
    say("error", std::string(error.what()));
  }
  run.accelerator.save_state(3);
}

std::string one_line(std::string text) {
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text;
}

// A loss that is not a number at one step, and infinite on the last rank.
void watch_loss(const Arguments&) {
  Run run(small_buckets());
  try {
    for (int64_t step = 1; step <= 4; ++step) {
      at::Tensor loss = loss_of(*run.model, *run.sampler->next_batch());
      if (step == 3) loss = run.accelerator.is_last_process() ? loss / 0 : (loss - loss) / 0;
      run.accelerator.check_loss(loss, step);
      run.accelerator.backward(loss);
      run.optimizer->step();
      run.optimizer->zero_grad();
      say("good", std::to_string(step));
    }
  } catch (const muster::NonFiniteLossError& error) {
    say("error", one_line(error.what()));
  }
  run.accelerator.wait_for_everyone();  // the ranks are still in step
}

// The last rank comes late to each backward; the longest wait of a step, in milliseconds.
void waits(const Arguments&) {
  Run run(muster::AcceleratorOptions{});
  for (int64_t step = 1; step <= 4; ++step) {
    const at::Tensor loss = loss_of(*run.model, *run.sampler->next_batch());
    const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(80);
    while (run.accelerator.is_last_process() && std::chrono::steady_clock::now() < late) {
      const at::Tensor busy = torch::ones({64, 64}).mm(torch::ones({64, 64}));
    }
    run.accelerator.backward(loss);
    run.optimizer->step();
    run.optimizer->zero_grad();
  }
  const muster::StepTimeSummary summary = run.accelerator.step_timer().summary();
  say("waited_ms", std::to_string(1e3 * summary[muster::StepPart::communication].max));
  say("backward_ms", std::to_string(1e3 * summary[muster::StepPart::backward].p50));
}

// Optimizers that would step on local gradients.
void unprepared_model(const Arguments&) {
  muster::Accelerator accelerator;
  const auto refused = [&](const char* name, muster::PreparedOptimizer optimizer,
                           const at::Tensor& loss) {
    loss.backward();
    try {
      optimizer.step();
    } catch (const muster::Error& error) {
      say(name, one_line(error.what()));
    }
  };
  Net forgotten;
  auto alone = accelerator.prepare(torch::optim::SGD(forgotten->parameters(), 0.1));
  refused("no_model", alone, forgotten->forward(dataset()).mean());
  // A parameter outside the model.
  Net net;
  auto model = accelerator.prepare(net);
  const at::Tensor scale = torch::ones({3}, at::requires_grad());
  std::vector<at::Tensor> all = net->parameters();
  all.push_back(scale);
  auto beside = accelerator.prepare(torch::optim::SGD(all, 0.1));
  refused("beside", beside, (model(dataset()).mean() * scale).sum());
  // Prepared before its model, and two models with one optimizer each.
  Net first, second;
  auto steps_first = accelerator.prepare(torch::optim::SGD(first->parameters(), 0.1));
  auto [a, b] = accelerator.prepare(first, second);
  auto steps_second = accelerator.prepare(torch::optim::SGD(second->parameters(), 0.1));
  refused("two_models", steps_first, a(dataset()).mean());
  refused("two_models", steps_second, b(dataset()).mean());
  say("end", std::string("reached"));
}

// rounds COUNT: Accelerators one after another; the ranks leave a round in changing order.
void rounds(const Arguments& arguments) {
  int64_t sum = 0;
  for (int64_t round = 0; round < std::stol(arguments.at(0)); ++round) {
    muster::Accelerator accelerator({.cpu = true});
    const at::Tensor own = torch::tensor(round + accelerator.process_index());
    sum += accelerator.reduce(own, muster::Reduction::sum).item<int64_t>();
    // The other rank is through with the round before this one.
    if (round % 2 == accelerator.process_index()) {
      torch::rand({600, 600}).matmul(torch::rand({600, 600}));
    }
  }
  say("sum", std::to_string(sum));
}

// A second one while the first is alive.
void two_at_once(const Arguments&) {
  muster::Accelerator first({.cpu = true});
  try {
    muster::Accelerator second({.cpu = true});
    say("second", std::string("made"));
  } catch (const muster::Error& error) {
    say("second", std::string(error.what()));
  }
  const at::Tensor sum = first.reduce(torch::tensor(int64_t{1}), muster::Reduction::sum);
  say("sum", std::to_string(sum.item<int64_t>()));
}

int scenario(int argc, char** argv) {
  const std::map<std::string, std::function<void(const Arguments&)>> scenarios = {
      {"gradients", gradients},
      {"keeps_ranks_identical", keeps_ranks_identical},
      {"different_models", different_models},
      {"bypass", bypass},
      {"collectives", collectives},
      {"stop", stop},
      {"agent_store", agent_store},
      {"rounds", rounds},
      {"two_at_once", two_at_once},
      {"meet", meet},
      {"train", train},
      {"save", save},
      {"save_without_space", save_without_space},
      {"waits", waits},
      {"watch_loss", watch_loss},
      {"unprepared_model", unprepared_model}};
  scenarios.at(argv[1])(Arguments(argv + 2, argv + argc));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, scenario); }
