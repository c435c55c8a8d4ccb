// Common mistakes with Accelerator::prepare, compiled by wrong_types_test.py: for each marked line,
// the compiler prints exactly this sentence.
#include <memory>

#include <muster/trainer.h>

namespace muster {

struct NetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input) { return input; }
};
TORCH_MODULE(Net);
struct Foreign {};
struct Loss {};

void foreign(Accelerator& accelerator) {
  auto model = accelerator.prepare(Foreign());  // WRONG: this type is not a module holder
  model(torch::ones({1}));
  model->parameters();
}

void among_others(Accelerator& accelerator) {
  Net net;
  auto [model, loss, optimizer] = accelerator.prepare(  // WRONG: this type is not a module holder
      net, Loss(), AdamW(net->parameters(), {.lr = 0.1}));
  loss(model(torch::ones({1})));
}

void module_itself(Accelerator& accelerator, Net net) {
  accelerator.prepare(*net);  // WRONG: give it the module's holder
}

void prepared_model(Accelerator& accelerator) {
  auto model = accelerator.prepare(Net());
  auto again = accelerator.prepare(model);  // WRONG: this is already prepared
  again(torch::ones({1}));
}

void prepared_optimizer(Accelerator& accelerator, PreparedOptimizer& optimizer) {
  accelerator.prepare(optimizer);  // WRONG: this is already prepared
}

void optimizer_kept(Accelerator& accelerator, Net net) {
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  accelerator.prepare(optimizer);  // WRONG: takes the optimizer over: give it std::move(optimizer)
}

void torch_loader(Accelerator& accelerator, Net net) {
  auto dataset = torch::data::datasets::TensorDataset(torch::ones({4, 1}));
  auto loader = accelerator.prepare(  // WRONG: write muster::DataLoader(dataset,
      torch::data::make_data_loader(dataset, 2));
  for (auto& batch : *loader) net->forward(batch[0].data);
}

void torch_loader_among_others(Accelerator& accelerator, Net net) {
  auto stacked = torch::data::datasets::TensorDataset(torch::ones({4, 1}))
                     .map(torch::data::transforms::Stack<torch::data::TensorExample>());
  auto kept = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(stacked, 2);
  auto [model, loader] =
      accelerator.prepare(net, kept);  // WRONG: write muster::DataLoader(dataset,
  for (auto& batch : *loader) model(batch.data);
}

void right(Accelerator& accelerator, Net net) {
  auto shared = std::make_shared<NetImpl>();
  torch::optim::SGD optimizer(shared->parameters(), 0.1);
  auto [model, steps, schedule] = accelerator.prepare(net, AdamW(net->parameters(), {.lr = 0.1}),
                                                      cosine_schedule({.total_steps = 10}));
  accelerator.prepare(shared);
  PreparedOptimizer own = accelerator.prepare(std::move(optimizer));
  accelerator.prepare(constant_schedule(), own);
  accelerator.prepare(ShardedSampler({.dataset_size = 4}));
  accelerator.prepare(deferred_init([] { return Net(); }));
}

}  // namespace muster
