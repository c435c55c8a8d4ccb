// What every kind of training uses (kind.py is the same in Python): numbers that both sides draw,
// and what is recorded.
#pragma once

#include <muster/trainer.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace parity {

// Numbers of its own generator: the same in both languages, since seeds and calls are.
class Draws {
 public:
  explicit Draws(uint64_t seed);
  at::Tensor normal(at::IntArrayRef shape);
  at::Tensor integers(int64_t below, at::IntArrayRef shape);

 private:
  at::Generator generator_;
};

class Kind {
 public:
  explicit Kind(muster::Accelerator& accelerator) : accelerator(accelerator) {}

  // Initial weights, and the seeds of training; call it for each module when all are constructed.
  void start(torch::nn::Module& module);
  // This rank's micro-batch.
  Draws draws(int64_t step) const;
  void note(const at::Tensor& value) { note(value.item<double>()); }
  void note(double value);
  // Backward, clipping and the optimizer's step; notes the loss and the norm.
  void step(const at::Tensor& loss, muster::PreparedOptimizer& optimizer,
            std::optional<double> clip_norm = {});
  // Notes the sum of the weights' bytes, each times its position: it changes when a bit does.
  void end(const torch::nn::Module& module);

  const nlohmann::json& seen() const { return seen_; }

  muster::Accelerator& accelerator;

 private:
  nlohmann::json seen_ = {{"values", nlohmann::json::array()},
                          {"weights", nlohmann::json::array()}};
  uint64_t started_ = 0;
};

using Kinds = std::map<std::string, std::function<void(Kind&)>>;

// By area; each file has its twin in Python.
Kinds number_kinds();
Kinds objective_kinds();
Kinds sequence_kinds();
Kinds structure_kinds();

}  // namespace parity
