// See trainer_sizes.h.
#include "trainer_sizes.h"

#include <muster/trainer.h>
#include <sys/resource.h>

#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trainer_clock.h"

namespace {

using nlohmann::json;
using torch::nn::Module;

constexpr double kSmallRate = 1e-4;

// Of all threads.
double cpu() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Wall and processor time of parts, by name.
class Times {
 public:
  template <typename Part>
  void measure(const std::string& name, Part part) {
    const double wall_began = now(), cpu_began = cpu();
    part();
    wall_[name].push_back(now() - wall_began);
    cpu_[name].push_back(cpu() - cpu_began);
  }
  json result() const {
    json all;
    for (const auto& [name, seconds] : wall_) all[name + "_s"] = seconds;
    for (const auto& [name, seconds] : cpu_) all[name + "_cpu_s"] = seconds;
    return all;
  }
  // The processor time of all ranks.
  void add_ranks(muster::Accelerator& accelerator) {
    for (auto& [name, seconds] : cpu_) {
      for (double& one : seconds) one = accelerator.reduce(one, muster::Reduction::sum);
    }
  }

 private:
  std::map<std::string, std::vector<double>> wall_, cpu_;
};

struct LayerImpl : Module {
  LayerImpl() {
    weight = register_parameter("weight", torch::ones({4}));
    bias = register_parameter("bias", torch::zeros({4}));
  }
  at::Tensor weight, bias;
};
TORCH_MODULE(Layer);

// w0 x + w1, the result times w2 plus w3, and so on.
struct ManyImpl : Module {
  ManyImpl(int64_t tensors, bool in_layers) {
    if (in_layers) register_module("layers", layers);
    for (int64_t i = 0; i < tensors; i += 2) {
      if (in_layers) {
        Layer layer;
        layers->push_back(layer);
        all.insert(all.end(), {layer->weight, layer->bias});
      } else {
        all.push_back(register_parameter("w" + std::to_string(i), torch::ones({4})));
        all.push_back(register_parameter("w" + std::to_string(i + 1), torch::zeros({4})));
      }
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (size_t i = 0; i < all.size(); i += 2) x = x * all[i] + all[i + 1];
    return x;
  }
  torch::nn::ModuleList layers;
  std::vector<at::Tensor> all;
};
TORCH_MODULE(Many);

json bare_steps(Many net, int steps) {
  const std::vector<at::Tensor> parameters = net->parameters();
  std::vector<at::Tensor> averages, squares, counts;
  for (const at::Tensor& parameter : parameters) {
    averages.push_back(torch::zeros_like(parameter));
    squares.push_back(torch::zeros_like(parameter));
    counts.push_back(torch::zeros({}, at::kFloat));
  }
  Times times;
  for (int step = 0; step < steps; ++step) {
    times.measure("step", [&] {
      for (at::Tensor parameter : parameters) parameter.mutable_grad().reset();
      net->forward(torch::ones({4})).pow(2).mean().backward();
      const torch::NoGradGuard no_grad;
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
      at::_foreach_add_(counts, 1);
      at::_fused_adamw_(parameters, gradients, averages, squares, {}, counts, kSmallRate, 0.9,
                        0.999, 0.01, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
    });
  }
  return times.result();
}

}  // namespace

std::string many_tensors(const std::vector<std::string>& arguments) {
  const std::string& stage = arguments.at(2);
  const int steps = std::stoi(arguments.at(3));
  Many net(std::stoll(arguments.at(0)), arguments.at(1) == "layers");
  if (stage == "bare") return bare_steps(net, steps).dump();
  muster::AcceleratorOptions options;
  options.sharding.stage = muster::parse_zero_stage(stage);
  options.checkpoint_dir = arguments.at(4);
  muster::Accelerator accelerator(options);
  Times times;
  // Of both ranks from the same moment.
  const auto measure = [&](const char* name, const auto& part) {
    accelerator.wait_for_everyone();
    times.measure(name, part);
  };
  std::optional<muster::PreparedModel<Many>> model;
  std::optional<muster::PreparedOptimizer> optimizer;
  measure("prepare", [&] {
    model.emplace(accelerator.prepare(net));
    optimizer.emplace(accelerator.prepare(muster::AdamW(net->parameters(), {.lr = kSmallRate})));
  });
  const auto step = [&] {
    optimizer->zero_grad();
    accelerator.backward((*model)(torch::ones({4})).pow(2).mean());
    optimizer->step();
  };
  for (int i = 0; i < steps; ++i) measure("step", step);
  for (int save = 0; save < 2; ++save) {
    // Four stored tensors of each: the weight, two moments and the count of steps.
    measure("save", [&] { accelerator.save_state(save); });
    step();
  }
  measure("load", [&] { accelerator.load_state(); });
  times.add_ranks(accelerator);
  return times.result().dump();
}

namespace {

// More than 2^31 bytes.
constexpr int64_t kLarge = (int64_t{1} << 29) + 1000;

struct LargeImpl : Module {
  explicit LargeImpl(double value) {
    weight = register_parameter("weight", torch::full({kLarge}, value));
  }
  at::Tensor forward(const at::Tensor& x) { return weight.sum() * x; }
  at::Tensor weight;
};
TORCH_MODULE(Large);

// Elements whose place shows, also behind the first 2^31 bytes and in the second rank's half.
const std::pair<int64_t, double> kMarks[] = {
    {0, 2}, {kLarge / 2 - 1, 4}, {kLarge / 2, 5}, {kLarge - 1, 3}};

// Whether all elements have lost `change` of what they were.
bool is_right(const at::Tensor& weight, double change) {
  const torch::NoGradGuard no_grad;
  bool right =
      weight.min().item<double>() == 1 - change && weight.max().item<double>() == 5 - change;
  for (const auto& [place, value] : kMarks) {
    right = right && weight[place].item<double>() == value - change;
  }
  return right;
}

}  // namespace

std::string large_parameter(const std::vector<std::string>& arguments) {
  muster::AcceleratorOptions options;
  options.checkpoint_dir = arguments.at(0);
  json result;
  bool right = true;
  {
    muster::Accelerator accelerator(options);
    Large net(1);
    {
      const torch::NoGradGuard no_grad;
      for (const auto& [place, value] : kMarks) net->weight[place] = value;
    }
    auto model = accelerator.prepare(net);
    auto optimizer = accelerator.prepare(muster::SGD(net->parameters(), {.lr = 0.5}));
    double began = now();
    // The mean of the ranks' gradients is 1.5.
    accelerator.backward(model(torch::tensor(1.0 + accelerator.process_index())).squeeze());
    optimizer.step();
    optimizer.zero_grad();
    result["step_s"] = now() - began;
    right = right && is_right(net->weight, 0.75);
    began = now();
    accelerator.save_state(1);
    result["save_s"] = now() - began;
  }
  options.sharding.stage = muster::ZeroStage::zero2;
  muster::Accelerator accelerator(options);
  Large net(0);
  auto model = accelerator.prepare(net);
  auto optimizer = accelerator.prepare(muster::SGD(net->parameters(), {.lr = 0.5}));
  const double began = now();
  accelerator.load_state();
  result["load_s"] = now() - began;
  right = right && is_right(net->weight, 0.75);
  result["right"] = accelerator.reduce(right ? 1.0 : 0.0, muster::Reduction::min) == 1;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  result["peak_rss_mb"] = static_cast<double>(usage.ru_maxrss) / 1000;
  return result.dump();
}
