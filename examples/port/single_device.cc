// A small network that classifies two interleaved spirals.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <optional>

// Noisy points on two spirals that start half a turn apart.
class Spirals : public torch::data::datasets::Dataset<Spirals> {
 public:
  explicit Spirals(int64_t points) {
    const at::Tensor label = torch::arange(points).remainder(2);
    const at::Tensor radius = torch::rand(points);
    const at::Tensor angle = 3 * M_PI * radius + M_PI * label;
    const at::Tensor place = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
    points_ = place + 0.02 * torch::randn_like(place);
    labels_ = label;
  }
  torch::data::Example<> get(size_t index) override {
    return {points_[static_cast<int64_t>(index)], labels_[static_cast<int64_t>(index)]};
  }
  std::optional<size_t> size() const override { return points_.size(0); }

  at::Tensor points_, labels_;  // float [points, 2], int64 [points]
};

struct NetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& points) {
    return last(torch::gelu(second(torch::gelu(first(points)))));
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(2, 64));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(64, 64));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(64, 2));
};
TORCH_MODULE(Net);

int main() {
  torch::manual_seed(1);
  const Spirals held_out(1000);
  auto train = Spirals(4000).map(torch::data::transforms::Stack<>());
  Net model;
  torch::optim::Adam optimizer(model->parameters(), 5e-3);
  auto loader = torch::data::make_data_loader(train, 64);

  for (int epoch = 1; epoch <= 10; ++epoch) {
    for (auto& batch : *loader) {
      const at::Tensor loss = torch::cross_entropy_loss(model(batch.data), batch.target);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    const torch::NoGradGuard no_grad;
    const at::Tensor right = model(held_out.points_).argmax(1).eq(held_out.labels_);
    std::printf("epoch %2d  accuracy %.1f %%\n", epoch,
                100 * right.to(at::kFloat).mean().item<float>());
  }
  return 0;
}
