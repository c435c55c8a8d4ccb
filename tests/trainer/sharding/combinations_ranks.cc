// The program that combinations_test runs as ranks: options of a training run, combined. Each cell
// of the table trains a small model for a few steps, and must give the norms, the weights and the
// scale that the same options give without sharding.
//
//   combinations_ranks few | pairs | CELL… | list | accelerate DIRECTORY
//
// "few": the fewest cells, nearly, in which any three options occur together; "pairs": any two. Rank 0 prints a line
// for each cell that differs or is refused, and a summary. "accelerate" writes what the cells that
// Accelerate runs on a CPU, too, give without sharding: for combinations_twin.py.
#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muster/trainer.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

constexpr int kSteps = 4;
constexpr int kStepThatOverflows = 1;
constexpr int64_t kIn = 6, kHidden = 16, kOut = 3;

enum Axis { kPrecision, kStage, kClip, kAccumulate, kOptimizers, kModels, kOverflow, kAxes };
using Cell = std::array<int, kAxes>;

enum { kFp32, kFp16, kBf16, kFp8 };
enum { kNoClip, kNorm2, kNormInf, kNorm0, kValue };

// With four ranks, two of them shard a copy.
const std::vector<std::vector<std::string>>& names() {
  static const std::vector<std::vector<std::string>> all = {
      {"fp32", "fp16", "bf16", "fp8"},
      {"ddp", "zero1", "zero2", "zero3"},
      {"unclipped", "norm2", "norminf", "norm0", "value"},
      {"every-step", "accumulate3"},
      {"optimizer", "two-optimizers"},
      {"model", "two-models"},
      {"finite", "overflow"}};
  return all;
}

std::string name_of(const Cell& cell) {
  std::string name;
  for (size_t axis = 0; axis < kAxes; ++axis) {
    if (axis > 0) name += ",";
    name += names()[axis][static_cast<size_t>(cell[axis])];
  }
  return name;
}

// Only fp16 has a scale that can overflow.
bool is_possible(const Cell& cell) { return cell[kOverflow] == 0 || cell[kPrecision] == kFp16; }

std::vector<Cell> every_cell() {
  std::vector<Cell> cells = {Cell{}};
  for (size_t axis = 0; axis < kAxes; ++axis) {
    std::vector<Cell> more;
    for (const Cell& cell : cells) {
      for (int value = 0; value < static_cast<int>(names()[axis].size()); ++value) {
        more.push_back(cell);
        more.back()[axis] = value;
      }
    }
    cells = std::move(more);
  }
  std::erase_if(cells, [](const Cell& cell) { return !is_possible(cell); });
  return cells;
}

// Options that occur together: two or three of any kind, or with four ranks, which take four times
// as long, a stage and another one.
using Together = std::vector<std::pair<int, int>>;  // axis and value of each

std::vector<Together> together_in(const Cell& cell, int world, bool pairs) {
  const auto option = [&](int axis) { return std::pair(axis, cell[static_cast<size_t>(axis)]); };
  std::vector<Together> all;
  for (int a = 0; a < kAxes; ++a) {
    if (world == 4 && a != kStage && cell[kStage] > 0) all.push_back({option(kStage), option(a)});
    if (world == 4) continue;
    for (int b = a + 1; b < kAxes; ++b) {
      if (pairs) all.push_back({option(a), option(b)});
      if (pairs) continue;
      for (int c = b + 1; c < kAxes; ++c) all.push_back({option(a), option(b), option(c)});
    }
  }
  return all;
}

Cell without_sharding(Cell cell) {
  cell[kStage] = 0;
  return cell;
}

// Greedy: always a cell that has the most that none had before; of those, one whose counterpart
// without sharding is there.
std::vector<Cell> fewest_cells(int world, bool pairs) {
  const std::vector<Cell> all = every_cell();
  std::set<Together> missing;
  for (const Cell& cell : all) {
    for (const Together& each : together_in(cell, world, pairs)) missing.insert(each);
  }
  std::vector<Cell> chosen;
  std::set<Cell> whole;
  while (!missing.empty()) {
    const Cell* best = nullptr;
    size_t most = 0;
    for (const Cell& cell : all) {
      size_t worth = 0;
      for (const Together& each : together_in(cell, world, pairs)) worth += 2 * missing.count(each);
      if (worth > 0) worth += whole.count(without_sharding(cell));
      if (worth > most) best = &cell, most = worth;
    }
    for (const Together& each : together_in(*best, world, pairs)) missing.erase(each);
    chosen.push_back(*best);
    whole.insert(without_sharding(*best));
  }
  return chosen;
}

struct EncoderImpl : torch::nn::Module {
  explicit EncoderImpl(bool fp8) {
    layers->push_back(torch::nn::Linear(kIn, kHidden));
    layers->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({kHidden})));
    layers->push_back(torch::nn::Tanh());
    if (fp8) {
      layers->push_back(Fp8Linear(kHidden, kHidden));
    } else {
      layers->push_back(torch::nn::Linear(kHidden, kHidden));
    }
    register_module("layers", layers);
  }
  at::Tensor forward(const at::Tensor& x) { return layers->forward(x); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(Encoder);

// Its bias has fewer elements than a shard is padded to.
struct HeadImpl : torch::nn::Module {
  HeadImpl() { register_module("out", out); }
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(x)); }
  torch::nn::Linear out{kHidden, kOut};
};
TORCH_MODULE(Head);

struct WholeImpl : torch::nn::Module {
  explicit WholeImpl(bool fp8) : encoder(fp8) {
    register_module("encoder", encoder);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head(encoder(x)); }
  Encoder encoder;
  Head head;
};
TORCH_MODULE(Whole);

struct Outcome {
  std::vector<double> norms;
  double scale = 0;
  at::Tensor weights;
  bool is_shared = true;  // the numbers are the same on all ranks, to the bit
  std::string problem;    // empty: none
};

AcceleratorOptions options_of(const Cell& cell, int world, bool as_accelerate) {
  AcceleratorOptions options{.cpu = std::getenv("MUSTER_DEVICE") == nullptr};
  options.mixed_precision = cell[kPrecision] == kFp16   ? Precision::fp16
                            : cell[kPrecision] == kBf16 ? Precision::bf16
                                                        : Precision::fp32;
  options.gradient_accumulation.num_steps = cell[kAccumulate] == 0 ? 1 : 3;
  constexpr ZeroStage kStages[] = {ZeroStage::none, ZeroStage::zero1, ZeroStage::zero2,
                                   ZeroStage::zero3};
  options.sharding.stage = kStages[cell[kStage]];
  options.sharding.unit_numel_min = 0;
  if (world == 4 && cell[kStage] > 0) options.sharding.shard_group_size = 2;
  options.log_step_times_every = -1;
  return as_accelerate ? accelerate_compat(options) : options;
}

at::Tensor data_of(int rank, int step, int micro, int64_t columns) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(
      static_cast<uint64_t>(1 + rank + 16 * (step + 16 * micro)));
  return torch::randn({8, columns}, generator);
}

SGD optimizer_of(std::vector<at::Tensor> parameters) {
  return SGD(std::move(parameters), {.lr = 0.05, .momentum = 0.9});
}

void append(std::vector<at::Tensor>& to, const std::vector<at::Tensor>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

class Run {
 public:
  Run(const Cell& cell, int world, bool as_accelerate)
      : cell_(cell), accelerator_(options_of(cell, world, as_accelerate)) {}

  Outcome train() {
    torch::manual_seed(7);
    Whole whole(cell_[kPrecision] == kFp8);
    if (cell_[kModels] == 0) {
      auto model = accelerator_.prepare(whole);
      return train(
          whole, [&](const at::Tensor& x) { return model(x); },
          [&] { return accelerator_.accumulate(model); },
          [&] { return weights_of(accelerator_.get_state_dict(model), "encoder", "head"); });
    }
    auto encoder = accelerator_.prepare(whole->encoder);
    auto head = accelerator_.prepare(whole->head);
    return train(
        whole, [&](const at::Tensor& x) { return head(encoder(x)); },
        [&] { return accelerator_.accumulate(encoder, head); },
        [&] {
          return torch::cat({weights_of(accelerator_.get_state_dict(encoder)),
                             weights_of(accelerator_.get_state_dict(head))});
        });
  }

 private:
  static at::Tensor weights_of(const TensorMap& state) {
    std::vector<at::Tensor> flat;
    for (const auto& [name, tensor] : state) {
      flat.push_back(tensor.cpu().to(torch::kDouble).flatten());
    }
    return torch::cat(flat);
  }
  // In the order in which two models have them.
  static at::Tensor weights_of(const TensorMap& state, const std::string& first,
                               const std::string& second) {
    std::vector<at::Tensor> flat;
    for (const std::string& part : {first, second}) {
      for (const auto& [name, tensor] : state) {
        if (!name.starts_with(part)) continue;
        flat.push_back(tensor.cpu().to(torch::kDouble).flatten());
      }
    }
    return torch::cat(flat);
  }

  std::vector<PreparedOptimizer> make_optimizers(Whole& whole) {
    std::vector<at::Tensor> first = whole->encoder->parameters(), second;
    if (cell_[kModels] == 0) {
      // One optimizer has nothing but a bias.
      first.push_back(whole->head->out->weight);
      second.push_back(whole->head->out->bias);
    } else {
      second = whole->head->parameters();
    }
    std::vector<PreparedOptimizer> optimizers;
    if (cell_[kOptimizers] == 0) {
      append(first, second);
      optimizers.push_back(accelerator_.prepare(optimizer_of(first)));
    } else {
      optimizers.push_back(accelerator_.prepare(optimizer_of(first)));
      optimizers.push_back(accelerator_.prepare(optimizer_of(second)));
    }
    return optimizers;
  }

  void clip(Whole& whole, Outcome& outcome) {
    constexpr double kOfNorm[] = {0, 2, std::numeric_limits<double>::infinity(), 0};
    const std::vector<at::Tensor> parameters = whole->parameters();
    if (cell_[kClip] == kValue) return accelerator_.clip_grad_value_(parameters, 0.02);
    if (cell_[kClip] == kNoClip) return;
    const at::Tensor norm = accelerator_.clip_grad_norm_(
        parameters, cell_[kClip] == kNorm0 ? 5 : 0.1, kOfNorm[cell_[kClip]]);
    outcome.norms.push_back(norm.item<double>());
  }

  template <typename Forward, typename Accumulate, typename Weights>
  Outcome train(Whole& whole, Forward forward, Accumulate accumulate, Weights weights) {
    Outcome outcome;
    const std::vector<PreparedOptimizer> optimizers = make_optimizers(whole);
    const int rank = accelerator_.process_index();
    for (int step = 0; step < kSteps; ++step) {
      for (int micro = 0; micro < accelerator_.options().gradient_accumulation.num_steps; ++micro) {
        const auto scope = accumulate();
        const auto data = [&](int64_t columns) {
          return data_of(rank, step, micro, columns).to(accelerator_.device());
        };
        const at::Tensor output = forward(data(kIn));
        at::Tensor loss = torch::mse_loss(output.to(torch::kFloat), data(kOut));
        if (cell_[kOverflow] == 1 && step == kStepThatOverflows && rank == 0) loss = loss * 1e38;
        accelerator_.backward(loss);
        if (accelerator_.sync_gradients()) clip(whole, outcome);
        for (const PreparedOptimizer& optimizer : optimizers) optimizer.step();
        for (const PreparedOptimizer& optimizer : optimizers) optimizer.zero_grad();
      }
    }
    outcome.scale = accelerator_.scaler() == nullptr ? 1 : accelerator_.scaler()->get_scale();
    outcome.weights = weights();
    outcome.is_shared = is_on_all_ranks(outcome);
    return outcome;
  }

  bool is_on_all_ranks(const Outcome& outcome) {
    std::vector<double> numbers = outcome.norms;
    numbers.push_back(outcome.scale);
    const at::Tensor own =
        torch::cat({torch::tensor(numbers, torch::kDouble), outcome.weights}).view({1, -1});
    // As integers: a NaN is itself, too.
    const at::Tensor all = accelerator_.gather(own.view(torch::kLong));
    return all.eq(own.view(torch::kLong)).all().item<bool>();
  }

  const Cell cell_;
  Accelerator accelerator_;
};

// What went wrong is the same on all ranks, or they would wait for each other.
Outcome outcome_of(const Cell& cell, int world, bool as_accelerate = false) {
  try {
    return Run(cell, world, as_accelerate).train();
  } catch (const std::exception& error) {
    Outcome refused;
    refused.problem = error.what();
    return refused;
  }
}

double apart(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) {
    const bool both = !std::isfinite(a) && !std::isfinite(b);
    return both ? 0 : std::numeric_limits<double>::infinity();
  }
  return std::abs(a - b) / std::max(1.0, std::abs(a));
}

// The greatest difference in norms and weights; infinite if the shapes or scales differ.
double difference(const Outcome& a, const Outcome& b) {
  if (a.norms.size() != b.norms.size() || a.scale != b.scale ||
      a.weights.sizes() != b.weights.sizes()) {
    return std::numeric_limits<double>::infinity();
  }
  double greatest = 0;
  for (size_t i = 0; i < a.norms.size(); ++i)
    greatest = std::max(greatest, apart(a.norms[i], b.norms[i]));
  const double weights = (a.weights - b.weights).abs().max().item<double>();
  return std::isfinite(weights) ? std::max(greatest, weights)
                                : std::numeric_limits<double>::infinity();
}

double tolerance(const Cell& cell) {
  const bool is_coarse =
      cell[kPrecision] == kFp8 || (cell[kPrecision] == kBf16 && cell[kStage] == 3);
  return is_coarse ? 1e-2 : 1e-5;
}

std::string text_of(const Outcome& outcome) {
  std::string text = "scale " + std::to_string(outcome.scale) + ", norms";
  for (const double norm : outcome.norms) text += " " + std::to_string(norm);
  return text;
}

class Table {
 public:
  Table(int rank, int world) : rank_(rank), world_(world) {}

  void judge(const Cell& cell) {
    const Outcome outcome = outcome_of(cell, world_);
    const Cell whole = without_sharding(cell);
    if (!whole_.contains(whole)) {
      whole_[whole] = cell[kStage] == 0 ? outcome : outcome_of(whole, world_);
    }
    const Outcome& expected = whole_[whole];
    ++cells_;
    if (!outcome.problem.empty()) {
      ++refused_;
      return tell("refused", cell, outcome.problem);
    }
    if (!expected.problem.empty())
      return tell("differs", cell, "without sharding: " + expected.problem);
    const double apart = difference(outcome, expected);
    if (!outcome.is_shared) return tell("differs", cell, "from rank to rank: " + text_of(outcome));
    if (apart > tolerance(cell)) {
      return tell("differs", cell,
                  "by " + std::to_string(apart) + ": " + text_of(outcome) +
                      "; without sharding: " + text_of(expected));
    }
    ++equal_;
    double& worst = worst_[tolerance(cell) > 1e-3];
    worst = std::max(worst, apart);
  }

  void sum_up() const {
    if (rank_ != 0) return;
    std::printf("cells %d\nwhole %zu\nequal %d\nrefused %d\nworst %.3g\nworst_coarse %.3g\n",
                cells_, whole_.size(), equal_, refused_, worst_[0], worst_[1]);
  }

 private:
  void tell(const char* verdict, const Cell& cell, const std::string& why) const {
    if (rank_ == 0) std::printf("cell %s %s: %s\n", verdict, name_of(cell).c_str(), why.c_str());
  }

  const int rank_;
  const int world_;
  std::map<Cell, Outcome> whole_;  // without sharding
  int cells_ = 0, equal_ = 0, refused_ = 0;
  double worst_[2] = {};
};

std::vector<Cell> chosen_cells(int argc, char** argv, int world) {
  const std::set<std::string> wanted(argv + 1, argv + argc);
  if (wanted.contains("few")) return fewest_cells(world, /*pairs=*/false);
  if (wanted.contains("pairs")) return fewest_cells(world, /*pairs=*/true);
  std::vector<Cell> cells = every_cell();
  std::erase_if(cells, [&](const Cell& cell) { return !wanted.contains(name_of(cell)); });
  return cells;
}

// A file per cell, with the norms and the weights.
void write_for_accelerate(int rank, int world, const std::string& directory) {
  torch::manual_seed(7);
  Whole whole(false);
  TensorMap start;
  for (const auto& item : whole->named_parameters()) start[item.key()] = item.value().detach();
  if (rank == 0) save_safetensors(directory + "/start", start);
  for (const Cell& cell : every_cell()) {
    if (cell[kStage] != 0 || cell[kPrecision] == kFp8) continue;
    const Outcome outcome = outcome_of(cell, world, /*as_accelerate=*/true);
    if (!outcome.problem.empty()) throw std::runtime_error(name_of(cell) + ": " + outcome.problem);
    if (rank != 0) continue;
    save_safetensors(directory + "/" + name_of(cell),
                     {{"norms", torch::tensor(outcome.norms, torch::kDouble)},
                      {"scale", torch::tensor(outcome.scale, torch::kDouble)},
                      {"weights", outcome.weights}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  if (argc == 2 && std::string(argv[1]) == "list") {
    for (const Cell& cell : every_cell()) std::printf("%s\n", name_of(cell).c_str());
    return 0;
  }
  const Topology place = Topology::from_environment();
  if (argc == 3 && std::string(argv[1]) == "accelerate") {
    write_for_accelerate(place.rank, place.world_size, argv[2]);
    return 0;
  }
  Table table(place.rank, place.world_size);
  for (const Cell& cell : chosen_cells(argc, argv, place.world_size)) table.judge(cell);
  table.sum_up();
  return 0;
}
