// Weights that are not float32, and data that is a stream (numbers_and_streams.py).
#include <array>
#include <optional>

#include "parity/kinds/kind.h"
#include "parity/models.h"

namespace parity {
namespace {

namespace F = torch::nn::functional;

// Two complex layers, and the power of what comes out.
struct Waves : torch::nn::Module {
  Waves() {
    first = register_parameter("first", torch::empty({6, 8}, at::kComplexFloat));
    last = register_parameter("last", torch::empty({8, 4}, at::kComplexFloat));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x.matmul(first);
    y = (y * torch::sigmoid(y.abs())).matmul(last).abs();
    return y * y;
  }
  at::Tensor first, last;
};

void complex_weights(Kind& kind) {
  auto net = std::make_shared<Waves>();
  kind.start(*net);
  auto [model, optimizer] = kind.accelerator.prepare(
      net, muster::AdamW(net->parameters(),
                         {.lr = 1e-2, .implementation = muster::Implementation::plain}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor real = draws.normal({5, 6}), imaginary = draws.normal({5, 6});
    const at::Tensor logits = model(torch::complex(real, imaginary));
    kind.step(F::cross_entropy(logits, draws.integers(4, {5})), optimizer);
  }
  kind.end(*net);
}

void of_type(Kind& kind, at::ScalarType dtype) {
  Perceptron net(8, 16, 5);
  net->to(dtype);
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor logits = model(draws.normal({6, 8}).to(dtype));
    kind.step(F::cross_entropy(logits, draws.integers(5, {6})), optimizer, /*clip_norm=*/1.0);
  }
  kind.end(*net);
}

// 50 samples, which fill six batches of four on each of two ranks; two are left.
struct Readings {
  using Sample = std::array<at::Tensor, 2>;
  void reset(int64_t) {
    number = 0;
    draws = Draws(7);
  }
  std::optional<Sample> next() {
    if (number == 50) return std::nullopt;
    return Sample{draws.normal({8}), torch::tensor(number++ % 5)};
  }
  int64_t number = 0;
  Draws draws{7};
};

void streamed_samples(Kind& kind) {
  Perceptron net(8, 16, 5);
  kind.start(*net);
  auto [model, optimizer, loader] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}),
                               muster::DataLoader(Readings(), {.batch_size = 4}));
  for (int pass = 0; pass < 2; ++pass) {
    for (const auto& [x, labels] : loader) {
      kind.note(static_cast<double>(labels.size(0)));
      kind.note(x.sum());
      kind.step(F::cross_entropy(model(x), labels), optimizer);
    }
  }
  kind.end(*net);
}

}  // namespace

Kinds number_kinds() {
  return {{"complex_weights", complex_weights},
          {"streamed_samples", streamed_samples},
          {"double_weights", [](Kind& kind) { of_type(kind, at::kDouble); }},
          {"bfloat16_weights", [](Kind& kind) { of_type(kind, at::kBFloat16); }}};
}

}  // namespace parity
