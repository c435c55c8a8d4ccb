// Trains exported nets and compares every number with Python's: exported_ranks MODE DIRECTORY NET… with what exported_nets.py
// wrote. MODE is one, ddp, zero1, zero3, or blocks: DDP that computes blocks again in backward. Prints "NET.WHAT number": how many
// numbers differ, of sharded runs the largest difference of a loss.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "muster/trainer.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

constexpr int64_t kDdpSteps = 5;
constexpr uint64_t kSeed = 11;

std::vector<at::Tensor> inputs_of(const TensorMap& samples, const std::string& name) {
  std::vector<at::Tensor> inputs;
  for (int i = 0; samples.contains(name + "." + std::to_string(i)); ++i)
    inputs.push_back(samples.at(name + "." + std::to_string(i)));
  return inputs;
}

void say(const std::string& net, const char* what, double value) {
  std::printf("%s.%s %.9g\n", net.c_str(), what, value);
  std::fflush(stdout);
}

bool differs(const TensorMap& expected, const std::string& name, const at::Tensor& value) {
  const auto found = expected.find(name);
  return found != expected.end() && !(value.defined() && found->second.equal(value));
}

int64_t count(const TensorMap& tensors, const std::string& prefix) {
  return std::count_if(tensors.begin(), tensors.end(),
                       [&](const auto& each) { return each.first.starts_with(prefix); });
}

void train_alone(const std::string& directory, const std::string& name) {
  const TensorMap samples = load_model_tensors(directory + "/" + name + ".inputs.pt");
  const TensorMap expected = load_model_tensors(directory + "/" + name + ".expected.pt");
  ExportedModel net(directory + "/" + name + ".pt2");
  AdamW optimizer(net->parameters(), {.lr = 1e-2});
  const std::vector<at::Tensor> inputs = inputs_of(samples, "rank0");
  torch::manual_seed(kSeed);
  const at::Tensor& losses = expected.at("losses");
  int64_t wrong_losses = 0, wrong_gradients = 0, wrong_state = 0;
  for (int64_t step = 0; step < losses.size(0); ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = net->forward(inputs)["loss"];
    loss.backward();
    wrong_losses += loss.equal(losses[step]) ? 0 : 1;
    for (const auto& item : net->named_parameters())
      wrong_gradients +=
          step == 0 && differs(expected, "gradient." + item.key(), item.value().grad());
    optimizer.step();
  }
  TensorMap state;
  for (const auto& item : net->named_parameters()) state["state." + item.key()] = item.value();
  for (const auto& item : net->named_buffers()) state["state." + item.key()] = item.value();
  for (const auto& [key, value] : state) wrong_state += differs(expected, key, value);
  say(name, "losses", static_cast<double>(wrong_losses));
  say(name, "gradients", static_cast<double>(wrong_gradients));
  say(name, "state", static_cast<double>(wrong_state));
  say(name, "names",
      static_cast<double>(count(expected, "state.") - static_cast<int64_t>(state.size())));
  const torch::NoGradGuard no_grad;
  net->eval();
  say(name, "evaluation", differs(expected, "evaluation", net->forward(inputs)["loss"]));
  if (expected.contains("second"))
    say(name, "second",
        differs(expected, "second", net->forward(inputs_of(samples, "second"))["loss"]));
}

void train_together(Accelerator& accelerator, const std::string& mode, const std::string& directory,
                    const std::string& name) {
  const int rank = accelerator.process_index();
  const TensorMap samples = load_model_tensors(directory + "/" + name + ".inputs.pt");
  const TensorMap expected = load_model_tensors(directory + "/" + name + ".expected.pt");
  ExportedModel net(directory + "/" + name + ".pt2", {.checkpoint_blocks = mode == "blocks"});
  AdamW adamw(net->parameters(), {.lr = 1e-2});
  auto [model, optimizer] = accelerator.prepare(net, std::move(adamw));
  const std::vector<at::Tensor> inputs =
      send_to_device(inputs_of(samples, "rank" + std::to_string(rank)), accelerator.device());
  torch::manual_seed(kSeed + static_cast<uint64_t>(rank));
  int64_t wrong = 0;
  double largest = 0;
  for (int64_t step = 0; step < kDdpSteps; ++step) {
    const at::Tensor loss = model(inputs)["loss"];
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    const at::Tensor wanted = expected.at("ddp")[rank][step], own = loss.detach().cpu();
    wrong += own.equal(wanted) ? 0 : 1;
    largest = std::max(largest, (own - wanted).abs().item<double>());
  }
  say(name, "losses", static_cast<double>(wrong));
  say(name, "difference", largest);
}

int run(int argc, char** argv) {
  const std::string mode = argv[1], directory = argv[2];
  at::set_num_threads(1);
  if (mode == "one") {
    for (int i = 3; i < argc; ++i) train_alone(directory, argv[i]);
    return 0;
  }
  const bool sharded = mode.starts_with("zero");
  Accelerator accelerator({.sharding = {.stage = sharded ? parse_zero_stage(mode) : ZeroStage::none,
                                        .unit_numel_min = 0}});
  for (int i = 3; i < argc; ++i) train_together(accelerator, mode, directory, argv[i]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, run); }
