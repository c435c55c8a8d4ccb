// What LibTorch and Python programs write on a prepared model, optimizer, schedule or loader and
// what those refuse, compiled by wrong_types_test.py: for each marked line, the compiler prints
// exactly this sentence. What they accept is in accelerator/handles_test.cc.
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <muster/trainer.h>
#include <torch/torch.h>

namespace wrong_calls {

struct NetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& input) { return input; }
};
TORCH_MODULE(Net);
using Model = muster::PreparedModel<Net>;
using Shared = muster::PreparedModel<std::shared_ptr<NetImpl>>;
using Loader = muster::DataLoader<muster::TensorDataset<at::Tensor>>;

// As the examples of LibTorch declare their functions.
void train(Net& model, torch::optim::Optimizer& optimizer);
void train_by(torch::optim::SGD& optimizer);
void count_parameters(const torch::nn::Module& module);
void evaluate(const NetImpl& net);
void sample(std::shared_ptr<NetImpl> net);
void generate(Net net);

void hand_over(Model& model, Shared& shared, muster::PreparedOptimizer& optimizer, Net net) {
  torch::optim::SGD own(net->parameters(), 0.1);
  train(model, own);         // WRONG: a prepared model is not its module
  train(net, optimizer);     // WRONG: a prepared optimizer is not a torch::optim::Optimizer
  train_by(*optimizer);      // WRONG: a prepared optimizer is not a torch::optim::Optimizer
  count_parameters(*model);  // WRONG: a prepared model is not its module
  evaluate(*model);          // WRONG: a prepared model is not its module
  sample(shared);            // WRONG: let the function take `auto& model`
  generate(model);           // the same as train(model, own): the compiler does not repeat it
  muster::ExponentialMovingAverage average(*shared);  // WRONG: a prepared model is not its module
}

void of_a_model(Model& model) {
  model->zero_grad();                             // WRONG: write optimizer.zero_grad()
  model->apply([](torch::nn::Module&) {});        // WRONG: initialize the module before prepare()
  const auto copy = model->clone();               // WRONG: clone the module before prepare()
  const auto weights = model.state_dict();        // WRONG: accelerator.get_state_dict(model)
  model.load_state_dict(std::string("weights"));  // WRONG: muster::load_model(*net, path)
  model->to(torch::kHalf);                        // WRONG: AcceleratorOptions::mixed_precision
  torch::serialize::OutputArchive output;
  torch::serialize::InputArchive input;
  model->save(output);                 // WRONG: accelerator.save_model(model, directory)
  model->load(input);                  // WRONG: model.load(): write muster::load_model
  const auto scope = model.no_sync();  // WRONG: accelerator.no_sync(model)
  torch::save(model, "model.pt");      // WRONG: torch::save() would write
  torch::load(model, "model.pt");      // WRONG: torch::load() cannot load
}

void of_an_optimizer(muster::PreparedOptimizer& optimizer) {
  optimizer->step([] {});                     // WRONG: takes no argument and returns the loss
  const auto state = optimizer.state_dict();  // WRONG: optimizer.state_dict()
  optimizer.load_state_dict(1);               // WRONG: optimizer.load_state_dict()
  std::ostringstream stream;
  torch::save(optimizer, stream);                  // WRONG: torch::save() would write
  torch::optim::StepLR rates(optimizer, 30, 0.1);  // the same as train(net, optimizer)
}

void of_a_schedule(muster::PreparedScheduler& scheduler) {
  scheduler->step(at::Tensor());  // WRONG: loss.item<double>()
  for (int epoch = 0; epoch < 3; ++epoch) {
    scheduler.step(epoch);  // WRONG: counted by step() itself
  }
  const auto state = scheduler.state_dict();  // WRONG: scheduler.state_dict()
  scheduler.load_state_dict(1);               // WRONG: scheduler.load_state_dict()
}

void of_a_loader(Loader& loader) {
  const auto state = loader->state_dict();  // WRONG: loader.position()
  loader->load_state_dict(1);               // WRONG: loader.set_position(position)
}

void of_values() {
  const muster::DataLoader numbers(std::vector<int>{1, 2});  // WRONG: torch::tensor(values)
  const auto text = std::make_shared<std::string>("12");
  const muster::DataLoader letters(text, {.batch_size = 2});  // WRONG: is not a dataset
}

void of_prepare(muster::Accelerator& accelerator, Net net) {
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  accelerator.prepare(
      torch::optim::StepLR(optimizer, 30, 0.1));                // WRONG: give it a muster::Schedule
  accelerator.prepare(torch::optim::LBFGS(net->parameters()));  // WRONG: torch::optim::LBFGS
}

}  // namespace wrong_calls
