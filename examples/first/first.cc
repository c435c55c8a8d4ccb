// Fits a line to noisy points, on as many ranks as it is started with.
#include <muster/trainer.h>

int main() {
  muster::Accelerator accelerator;  // this process's place among the ranks
  torch::manual_seed(1);
  const at::Tensor x = torch::rand({1000, 1});
  const at::Tensor y = 3 * x + 2 + 0.01 * torch::randn({1000, 1});

  auto model = accelerator.prepare(torch::nn::Linear(1, 1));
  auto optimizer = accelerator.prepare(torch::optim::SGD(model.parameters(), 0.5));
  auto loader = accelerator.prepare(
      muster::DataLoader(muster::TensorDataset(x, y), {.batch_size = 50, .shuffle = true}));

  while (loader.epoch() < 20) {
    for (auto& [input, target] : loader) {  // this rank's share of the samples
      optimizer.zero_grad();
      accelerator.backward(torch::mse_loss(model(input), target));
      optimizer.step();  // by the mean of all ranks' gradients
    }
  }
  const double slope = model.named_parameters()["weight"].item<double>();
  accelerator.print("slope " + std::to_string(slope));  // once, on the main process
  return accelerator.end_training() ? 0 : 1;            // 1: the last checkpoint was not saved
}
