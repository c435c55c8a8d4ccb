// The program that changes_test runs as ranks: what changes after prepare().
//
//   changes_ranks train STAGE… DIRECTORY         a layer that is unfrozen, and one that is frozen
//   changes_ranks answer "STAGE CHANGE all|one"…  on all ranks, or on the last one alone
//   changes_ranks look                            what looking at 10,000 parameters costs
//
// Alone it trains on the batches of all ranks. Prints lines "NAME value".
#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "muster/trainer.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

constexpr int kSteps = 8;
constexpr int64_t kIn = 6, kHidden = 24, kOut = 3, kRows = 6;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    body->push_back(torch::nn::Linear(kIn, kHidden));
    body->push_back(torch::nn::Tanh());
    body->push_back(torch::nn::Linear(kHidden, kHidden));
    register_module("body", body);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head(torch::tanh(body->forward(x))); }
  torch::nn::Sequential body;
  torch::nn::Linear head{kHidden, kOut};
};
TORCH_MODULE(Net);

void mark(torch::nn::Module& module, bool trains) {
  for (at::Tensor& parameter : module.parameters()) parameter.requires_grad_(trains);
}

// The layers that a step trains: the head from the third step on, the first of the body not in the
// sixth and seventh.
void mark_for(Net& net, int step) {
  mark(*net->head, step >= 2);
  mark(*net->body[0], step < 5 || step >= 7);
}

const char* const kStages[] = {"ddp", "zero1", "zero2", "zero3"};

int world_of_test() { return std::atoi(std::getenv("TEST_WORLD")); }

AcceleratorOptions options_of(const std::string& stage, const std::string& directory = "",
                              const std::string& resume_from = "") {
  AcceleratorOptions options{.cpu = true};
  options.checkpoint_dir = directory;
  options.resume_from = resume_from;
  for (int i = 0; i < 4; ++i) {
    if (stage == kStages[i]) options.sharding.stage = static_cast<ZeroStage>(i);
  }
  options.sharding.unit_numel_min = 0;
  if (world_of_test() == 4 && stage != "ddp" && Topology::from_environment().world_size == 4) {
    options.sharding.shard_group_size = 2;
  }
  options.log_step_times_every = -1;
  // Several buckets, whose order the sums of three ranks depend on.
  options.data_parallel.first_bucket_cap_mb = 1;
  return options;
}

at::Tensor batch_of(int rank, int step, int64_t columns) {
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(1 + rank + 16 * step));
  return torch::randn({kRows, columns}, generator);
}

// A rank's batch, or, alone, those of all.
at::Tensor batch_here(const Accelerator& accelerator, int step, int64_t columns) {
  if (accelerator.use_distributed()) return batch_of(accelerator.process_index(), step, columns);
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < world_of_test(); ++rank) all.push_back(batch_of(rank, step, columns));
  return torch::cat(all);
}

// How the optimizer gets the layer that is frozen at first.
enum class Way { from_start, added };

std::vector<double> weights_of(Accelerator& accelerator, const PreparedModel<Net>& model) {
  std::vector<double> all;
  for (const auto& [name, tensor] : accelerator.get_state_dict(model)) {
    const at::Tensor flat = tensor.to(torch::kDouble).flatten();
    const double* begin = flat.const_data_ptr<double>();
    all.insert(all.end(), begin, begin + flat.numel());
  }
  return all;
}

struct Training {
  Training(const AcceleratorOptions& options, Way way) : accelerator(options), way(way) {
    torch::manual_seed(3);
    net = Net();
    mark_for(net, 0);
    const std::vector<at::Tensor> parameters =
        way == Way::from_start ? net->parameters() : net->body->parameters();
    model = std::make_unique<PreparedModel<Net>>(accelerator.prepare(net));
    optimizer =
        std::make_unique<PreparedOptimizer>(accelerator.prepare(AdamW(parameters, {.lr = 0.02})));
  }

  void add_head() {
    if (way == Way::from_start || has_head) return;
    has_head = true;
    optimizer->add_param_group(torch::optim::OptimizerParamGroup(net->head->parameters()));
  }

  void step(int number) {
    mark_for(net, number);
    if (number >= 2) add_head();
    const at::Tensor loss = torch::mse_loss((*model)(batch_here(accelerator, number, kIn)),
                                            batch_here(accelerator, number, kOut));
    accelerator.backward(loss);
    accelerator.clip_grad_norm_(net->parameters(), 0.5);
    optimizer->step();
    optimizer->zero_grad();
  }

  std::vector<double> weights() { return weights_of(accelerator, *model); }

  Accelerator accelerator;
  const Way way;
  bool has_head = false;
  Net net{nullptr};
  std::unique_ptr<PreparedModel<Net>> model;
  std::unique_ptr<PreparedOptimizer> optimizer;
};

void say(const std::string& name, const std::string& value) {
  std::printf("%s %s\n", name.c_str(), value.c_str());
}

std::string text_of(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    char number[40];
    std::snprintf(number, sizeof(number), "%.17g ", value);
    text += number;
  }
  return text;
}

// Trains to the end, with a checkpoint before each step from the third on; then again from some.
void train(const std::string& stage, Way way, const std::string& root) {
  const std::string name = stage + (way == Way::from_start ? ".from_start" : ".added");
  const std::string directory = root + "/" + name;
  std::vector<double> whole;
  bool is_distributed = false;
  {
    Training run(options_of(stage, directory), way);
    is_distributed = run.accelerator.use_distributed();
    for (int step = 0; step < kSteps; ++step) {
      if (is_distributed && step >= 2) run.accelerator.save_state(step);
      run.step(step);
    }
    whole = run.weights();
    say(name, text_of(whole));
  }
  if (!is_distributed) return;
  std::string differ;
  // Before and after the head is unfrozen, before the body is frozen, and in between.
  for (const int from : {2, 3, 5, 6}) {
    Training run(options_of(stage, "", directory + "/step-" + std::to_string(from)), way);
    if (from > 2) run.add_head();
    run.accelerator.load_state();
    for (int step = from; step < kSteps; ++step) run.step(step);
    if (run.weights() != whole) differ += " " + std::to_string(from);
  }
  say(name + ".resumed", differ.empty() ? "equal" : "differ, from" + differ);
}

// Two optimizers of one unit; one keeps its gradients for two steps.
std::vector<double> clear_apart(const std::string& stage) {
  AcceleratorOptions options = options_of(stage);
  options.sharding.unit_numel_min = 1'000'000;
  Accelerator accelerator(options);
  torch::manual_seed(3);
  Net net;
  const auto model = accelerator.prepare(net);
  const auto often = accelerator.prepare(AdamW(net->body[0]->parameters(), {.lr = 0.02}));
  const auto rarely = accelerator.prepare(AdamW(net->body[2]->parameters(), {.lr = 0.02}));
  const auto rest = accelerator.prepare(AdamW(net->head->parameters(), {.lr = 0.02}));
  for (int step = 0; step < kSteps; ++step) {
    accelerator.backward(torch::mse_loss(model(batch_here(accelerator, step, kIn)),
                                         batch_here(accelerator, step, kOut)));
    for (const auto& optimizer : {often, rest}) {
      optimizer.step();
      optimizer.zero_grad();
    }
    if (step % 2 == 0) continue;
    rarely.step();
    rarely.zero_grad();
  }
  return weights_of(accelerator, model);
}

// A change after the first step, and what the next one says of it.
using Change = std::function<void(Training&)>;

void convert(Net& net, at::ScalarType dtype) { net->head->to(dtype); }
void set_data(at::Tensor parameter, const at::Tensor& data) { parameter.set_data(data); }

const std::map<std::string, Change>& changes() {
  static const std::map<std::string, Change> all = {
      {"unfreeze", [](Training& t) { mark(*t.net->head, true); }},
      {"freeze", [](Training& t) { mark(*t.net->body[2], false); }},
      {"unlike",
       [](Training& t) {
         mark(*t.net->body[2], false);
         t.net->head->bias.requires_grad_(t.accelerator.is_last_process());
       }},
      {"dtype", [](Training& t) { convert(t.net, torch::kDouble); }},
      {"dtype-and-back",
       [](Training& t) {
         t.net->body[2]->to(torch::kDouble);
         t.net->body[2]->to(torch::kFloat);
       }},
      {"shape",
       [](Training& t) {
         set_data(t.net->head->weight, torch::zeros({kOut, 1}));
       }},
      {"memory",
       [](Training& t) {
         t.net->head->bias.unsafeGetTensorImpl()->shallow_copy_from(
             torch::ones({kOut}).getIntrusivePtr());
       }},
      {"strides",
       [](Training& t) {
         set_data(t.net->head->weight, torch::zeros({kHidden, kOut}).t());
       }},
      {"stranger",
       [](Training& t) {
         at::Tensor tensor = torch::ones({7}).requires_grad_();
         tensor.mutable_grad() = torch::ones({7});
         t.optimizer->add_param_group(torch::optim::OptimizerParamGroup({tensor}));
       }},
      {"group", [](Training& t) { t.add_head(); }},
      {"twice",
       [](Training& t) {
         const std::vector<at::Tensor> stepped = {t.net->body->parameters()[0]};
         t.optimizer->add_param_group(torch::optim::OptimizerParamGroup(stepped));
       }},
      {"of-another-optimizer",
       [](Training& t) {
         t.optimizer->add_param_group(torch::optim::OptimizerParamGroup(t.net->head->parameters()));
       }},
      {"registered",
       [](Training& t) {
         at::Tensor late = t.net->register_parameter("late", torch::ones({2}));
         late.mutable_grad() = torch::ones({2});
         t.optimizer->add_param_group(torch::optim::OptimizerParamGroup({late}));
       }},
      {"train-and-eval", [](Training& t) { t.net->eval(); }}};
  return all;
}

// What two further steps say, on this rank.
std::string answer(const std::string& stage, const std::string& change, bool on_one_rank) {
  try {
    Training run(options_of(stage), Way::added);
    std::unique_ptr<PreparedOptimizer> another;
    if (change == "of-another-optimizer") {
      another = std::make_unique<PreparedOptimizer>(
          run.accelerator.prepare(AdamW(run.net->head->parameters(), {.lr = 0.02})));
    }
    run.step(0);
    const bool is_mine = !on_one_rank || run.accelerator.is_last_process();
    if (is_mine) changes().at(change)(run);
    for (int step = 0; step < 2; ++step) {
      run.accelerator.backward(
          torch::mse_loss((*run.model)(batch_here(run.accelerator, step, kIn)).to(torch::kFloat),
                          batch_here(run.accelerator, step, kOut)));
      run.optimizer->step();
      run.optimizer->zero_grad();
    }
    const std::vector<double> own = run.weights();
    const at::Tensor mine = torch::tensor(own, torch::kDouble).view({1, -1});
    const bool same = run.accelerator.gather(mine).eq(mine).all().item<bool>();
    return same ? "followed" : "apart";
  } catch (const std::exception& error) {
    std::string text = error.what();
    for (char& letter : text) letter = letter == '\n' ? ' ' : letter;
    return text;
  }
}

// Nanoseconds that a forward takes to see that nothing changed.
double cost_of_looking(int parameters) {
  struct Many : torch::nn::Module {
    explicit Many(int count) {
      for (int i = 0; i < count; ++i) {
        register_parameter("p" + std::to_string(i), torch::zeros({4, 4}));
      }
    }
  };
  Accelerator accelerator(options_of("ddp"));
  const auto model = accelerator.prepare(std::make_shared<Many>(parameters));
  double least = 1e18;
  for (int round = 0; round < 200; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    if (model.data_parallel().follow_parameters()) std::abort();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count());
  }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  const std::string what = argv[1];
  for (int i = 2; what == "train" && i + 1 < argc; ++i) {
    train(argv[i], Way::from_start, argv[argc - 1]);
    train(argv[i], Way::added, argv[argc - 1]);
    say(std::string(argv[i]) + ".clear_apart", text_of(clear_apart(argv[i])));
  }
  for (int i = 2; what == "answer" && i < argc; ++i) {
    std::istringstream words(argv[i]);
    std::string stage, change, who;
    words >> stage >> change >> who;
    say("answer" + std::to_string(i - 2), answer(stage, change, who == "one"));
  }
  if (what == "look") {
    say("ns", std::to_string(cost_of_looking(10'000)));
  }
  return 0;
}
