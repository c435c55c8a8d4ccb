// The tiny runs whose checkpoints 0.2.0 wrote (checkpoints-0.2.0.tar.xz): one or two models, one or
// two optimizers.
#pragma once

#include <muster/trainer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// Two layers by these names. Version 1 prefixes the parameters of the second model with "1.".
struct TwoLayersImpl : torch::nn::Module {
  TwoLayersImpl(const std::string& below, const std::string& above)
      : below_(register_module(below, torch::nn::Linear(5, 7))),
        above_(register_module(above, torch::nn::Linear(7, 3))) {}
  at::Tensor forward(const at::Tensor& input) { return above_(torch::tanh(below_(input))); }
  torch::nn::Linear below_, above_;
};
TORCH_MODULE(TwoLayers);

struct OldRunShape {
  std::string stage;  // none, zero1, zero2, zero3
  int models = 1;
  int optimizers = 1;
  bool meet = false;  // the first model has a child "1", and the second's names meet its
  std::string name() const {
    return stage + "-" + std::to_string(models) + "-" + std::to_string(optimizers) +
           (meet ? "-met" : "");
  }
};

inline std::vector<OldRunShape> old_run_shapes() {
  std::vector<OldRunShape> shapes;
  for (const char* stage : {"none", "zero1", "zero2", "zero3"}) {
    for (int models : {1, 2}) {
      for (int optimizers : {1, 2}) shapes.push_back({stage, models, optimizers});
    }
  }
  // 0.2.0 cannot save names that meet in another stage.
  shapes.push_back({"none", 2, 1, true});
  shapes.push_back({"none", 2, 2, true});
  return shapes;
}

inline AcceleratorOptions old_run_options(const OldRunShape& shape, const std::string& directory) {
  AcceleratorOptions options;
  options.cpu = true;
  options.checkpoint_dir = directory;
  options.sharding.stage = parse_zero_stage(shape.stage);
  options.sharding.unit_numel_min = 0;
  return options;
}

// Everything prepared; `seed` other than that of the writer, so that what is not loaded differs.
class OldRun {
 public:
  OldRun(const OldRunShape& shape, const std::string& directory, uint64_t seed)
      : accelerator(old_run_options(shape, directory)) {
    torch::manual_seed(seed);
    std::vector<std::vector<at::Tensor>> parameters(shape.optimizers);
    for (int i = 0; i < shape.models; ++i) {
      TwoLayers net = shape.meet ? TwoLayers("0", "1") : TwoLayers("weights", "head");
      if (shape.meet && i == 1) {
        line.emplace(accelerator.prepare(torch::nn::Linear(7, 3)));
        add(parameters, line->parameters(), i);
        continue;
      }
      nets.push_back(accelerator.prepare(net));
      if (shape.models == 1 && shape.optimizers == 2) {
        parameters[0] = net->below_->parameters();
        parameters[1] = net->above_->parameters();
      } else {
        add(parameters, nets.back().parameters(), i);
      }
    }
    for (auto& own : parameters) {
      optimizers.push_back(accelerator.prepare(AdamW(own, {.lr = 0.01})));
      schedulers.push_back(accelerator.prepare(cosine_schedule({.total_steps = 10})));
    }
  }

  void step() {
    const at::Tensor input = torch::sin(torch::arange(20 + accelerator.process_index(),
                                                      40 + accelerator.process_index(), at::kFloat))
                                 .view({4, 5});
    at::Tensor loss = torch::zeros({});
    for (auto& net : nets) loss = loss + net(input).pow(2).mean();
    if (line) loss = loss + (*line)(torch::cat({input, input}, 1).slice(1, 0, 7)).pow(2).mean();
    for (auto& optimizer : optimizers) optimizer.zero_grad();
    accelerator.backward(loss);
    for (auto& optimizer : optimizers) optimizer.step();
    for (auto& scheduler : schedulers) scheduler.step();
  }

  Accelerator accelerator;
  std::vector<PreparedModel<TwoLayers>> nets;
  std::optional<PreparedModel<torch::nn::Linear>> line;  // the second model where names meet
  std::vector<PreparedOptimizer> optimizers;
  std::vector<PreparedScheduler> schedulers;

 private:
  static void add(std::vector<std::vector<at::Tensor>>& parameters,
                  const std::vector<at::Tensor>& own, int model) {
    auto& list = parameters[static_cast<size_t>(model) % parameters.size()];
    list.insert(list.end(), own.begin(), own.end());
  }
};

}  // namespace muster
