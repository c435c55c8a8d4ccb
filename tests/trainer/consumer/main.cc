// The smallest trainer on the installed SDK: one step of a linear model.
#include <muster/training_loop.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

namespace {

int train(int, char**) {
  muster::Accelerator accelerator;
  torch::nn::Linear net(4, 1);
  auto model = accelerator.prepare(net);
  auto optimizer = accelerator.prepare(torch::optim::SGD(net->parameters(), 0.1));
  accelerator.backward(model(torch::ones({2, 4})).sum());
  optimizer.step();
  optimizer.zero_grad();
  accelerator.print("trained on " + accelerator.device().str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
