// Trains a net that Python exported, sharded over the ranks: exported_llama NET.pt2 TRAINED.pt.
#include <muster/trainer.h>

#include <array>
#include <span>
#include <string>

#include "examples/common/gzip_text.h"

namespace {

constexpr int64_t kContext = 64, kSteps = 300, kReportEvery = 50, kEvaluated = 64;

at::Tensor read_text() {
  const std::string text = examples::read_gzip(examples::find_data("kjv-genesis-psalms.txt.gz"));
  return torch::from_blob(const_cast<char*>(text.data()), {static_cast<int64_t>(text.size())},
                          at::kByte)
      .to(at::kLong);
}

// Windows of the text, and the characters that follow them.
class Windows {
 public:
  using Batch = std::array<at::Tensor, 2>;
  explicit Windows(const at::Tensor& text) : windows_(text.unfold(0, kContext + 1, 1)) {}

  int64_t size() const { return windows_.size(0); }
  Batch get_batch(std::span<const int64_t> indices) const {
    const at::Tensor rows = windows_.index_select(
        0, torch::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong));
    return {rows.slice(1, 0, kContext), rows.slice(1, 1)};
  }

 private:
  at::Tensor windows_;  // a view of the text
};

int train(int argc, char** argv) {
  if (argc != 3) throw std::invalid_argument("usage: exported_llama NET.pt2 TRAINED.pt");
  muster::Accelerator accelerator({.sharding = {.stage = muster::ZeroStage::zero3}});
  accelerator.set_seed(1);
  const at::Tensor text = read_text();
  const at::Tensor held_out = text.slice(0, text.numel() - kEvaluated * kContext - 1);

  muster::ExportedModel net(argv[1]);
  auto [model, optimizer, loader, scheduler] = accelerator.prepare(
      net, muster::AdamW(net->parameters(), {.lr = 3e-3, .weight_decay = 0.1}),
      muster::DataLoader(Windows(text.slice(0, 0, text.numel() - held_out.numel())),
                         {.batch_size = 8, .shuffle = true, .drop_last = true}),
      muster::cosine_schedule({.total_steps = kSteps, .warmup_steps = 20}));
  int64_t step = accelerator.load_state().value_or(0);
  if (step > 0) accelerator.print("resumed from step " + std::to_string(step));

  for (auto& [tokens, targets] : loader) {
    if (step >= kSteps) break;
    const at::Tensor loss = model(tokens, targets)["loss"];
    accelerator.backward(loss);
    optimizer.step();
    scheduler.step();
    optimizer.zero_grad();
    if (++step % kReportEvery == 0) {
      accelerator.print("step " + std::to_string(step) + "  loss " +
                        std::to_string(loss.item<float>()));
      accelerator.save_state(step);
    }
  }

  model.eval();
  const auto whole = accelerator.full_parameters(model);  // one rank alone may use them now
  if (accelerator.is_main_process()) {
    const torch::NoGradGuard no_grad;
    const at::Tensor loss = model(held_out.slice(0, 0, -1).view({-1, kContext}),
                                  held_out.slice(0, 1).view({-1, kContext}))["loss"];
    accelerator.print("loss " + std::to_string(loss.item<float>()) + " in C++");
    muster::save_torch(argv[2], {.model = &*net});
  }
  return accelerator.end_training() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
