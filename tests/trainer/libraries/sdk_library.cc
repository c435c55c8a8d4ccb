// A shared object that links the SDK, as a program's plug-in might. The test loads two of them into
// one process.
#include <muster/trainer.h>

#include <optional>
#include <string>

namespace {

using namespace muster;  // NOLINT: a library of one file

struct NetImpl : torch::nn::Module {
  NetImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) layers->push_back(torch::nn::Linear(8, 8));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    return x;
  }
  torch::nn::ModuleList layers{nullptr};
};
TORCH_MODULE(Net);

struct Training {
  Training() {
    accelerator.set_seed(5);
    model.emplace(accelerator.prepare(deferred_init([] { return Net(); })));
    optimizer.emplace(accelerator.prepare(AdamW((*model)->parameters(), {.lr = 0.1})));
  }
  double step() {
    const at::Tensor loss = (*model)(torch::ones({2, 8})).pow(2).mean();
    accelerator.backward(loss);
    optimizer->step();
    optimizer->zero_grad();
    return loss.item<double>();
  }
  Accelerator accelerator{{.sharding = {.stage = ZeroStage::zero3, .unit_numel_min = 0}}};
  std::optional<PreparedModel<Net>> model;
  std::optional<PreparedOptimizer> optimizer;
};

std::optional<Training> training;
std::string answer;

std::string act(const std::string& what) {
  if (what == "open") training.emplace();
  if (what == "step") return std::to_string(training->step());
  if (what == "close") training.reset();
  return "done";
}

}  // namespace

extern "C" const char* muster_test_library(const char* what) {
  try {
    answer = act(what);
  } catch (const std::exception& error) {
    answer = std::string("error: ") + error.what();
  }
  return answer.c_str();
}
