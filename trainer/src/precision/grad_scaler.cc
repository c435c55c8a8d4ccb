// The states of an optimizer between two updates are those of torch/amp/grad_scaler.py: ready,
// unscaled, stepped.
#include "muster/precision/grad_scaler.h"

#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/distinct_tensors.h"
#include "muster/base/errors.h"
#include "muster/optim/optimizers.h"

namespace muster {
namespace {

enum class Stage { ready, unscaled, stepped };

struct OptimizerState {
  Stage stage = Stage::ready;
  std::vector<at::Tensor> found_inf;  // per device
  int64_t scaled_losses = 0;          // when the gradients were unscaled
};

// The outcome of a step; read from the device only on request.
struct Outcome {
  std::vector<at::Tensor> found_inf;
  std::optional<bool> skipped;
};

struct GradientList {
  at::Device device;
  at::ScalarType dtype;
  std::vector<at::Tensor> gradients;
};

std::vector<at::Tensor> parameters_of(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return parameters;
}

// The gradients to unscale, grouped as the kernel requires. For sparse ones, the values.
std::vector<GradientList> gradients_of(const std::vector<at::Tensor>& parameters, bool allow_fp16) {
  std::vector<GradientList> lists;
  for (at::Tensor& parameter : distinct(parameters)) {
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (!allow_fp16 && gradient.scalar_type() == at::kHalf) {
      throw Error(
          "cannot unscale float16 gradients: keep the parameters in float32 and let "
          "Autocast cast them");
    }
    if (gradient.is_sparse()) {
      // Coalescing adds duplicate rows, which may overflow.
      if (gradient.scalar_type() == at::kHalf) {
        gradient = parameter.mutable_grad() = gradient.coalesce();
      }
      gradient = gradient._values();
    }
    GradientList* list = nullptr;
    for (GradientList& known : lists) {
      if (known.device == gradient.device() && known.dtype == gradient.scalar_type()) {
        list = &known;
      }
    }
    if (list == nullptr) {
      list = &lists.emplace_back(GradientList{gradient.device(), gradient.scalar_type(), {}});
    }
    list->gradients.push_back(std::move(gradient));
  }
  return lists;
}

// Multiplies the gradients by inverse_scale; returns found_inf per device.
std::vector<at::Tensor> unscale(const std::vector<at::Tensor>& parameters,
                                const at::Tensor& inverse_scale, bool allow_fp16) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> found;
  for (GradientList& list : gradients_of(parameters, allow_fp16)) {
    at::Tensor* here = nullptr;
    for (at::Tensor& known : found) {
      if (known.device() == list.device) here = &known;
    }
    if (here == nullptr) {
      here = &found.emplace_back(at::zeros({}, at::dtype(at::kFloat).device(list.device)));
    }
    at::_amp_foreach_non_finite_check_and_unscale_(
        list.gradients, *here, inverse_scale.to(list.device, /*non_blocking=*/true));
  }
  return found;
}

bool any_found(const std::vector<at::Tensor>& found_inf) {
  double sum = 0;
  for (const at::Tensor& found : found_inf) sum += found.item<double>();
  return sum != 0;
}

// Combined on `device` into 0 or 1, because the kernels compare with 1. Does not modify the inputs.
at::Tensor combined(const std::vector<at::Tensor>& found_inf, at::Device device) {
  at::Tensor sum = found_inf.front().to(device, /*non_blocking=*/true);
  for (size_t i = 1; i < found_inf.size(); ++i) {
    sum = sum + found_inf[i].to(device, /*non_blocking=*/true);
  }
  return found_inf.size() == 1 ? sum : sum.clamp_max(1);
}

void require_factors(double growth, double backoff, int64_t interval) {
  if (!(growth > 1)) {
    throw std::invalid_argument("growth_factor is " + std::to_string(growth) +
                                ", but must be above 1");
  }
  if (!(backoff > 0 && backoff < 1)) {
    throw std::invalid_argument("backoff_factor is " + std::to_string(backoff) +
                                ", but must be between 0 and 1");
  }
  if (interval < 1) {
    throw std::invalid_argument("growth_interval is " + std::to_string(interval) +
                                ", but must be 1 or more");
  }
}

double number(const TensorMap& state, const char* name) {
  const auto found = state.find(name);
  if (found == state.end() || found->second.numel() != 1) {
    throw CheckpointError(std::string("the gradient scaler's saved state has no number '") + name +
                          "'");
  }
  return found->second.item<double>();
}

}  // namespace

struct GradScaler::State {
  GradScalerOptions options;
  double init_scale = 0;
  int64_t init_growth_tracker = 0;
  at::Tensor scale, growth_tracker;  // undefined until the first loss determines the device
  std::unordered_map<torch::optim::Optimizer*, OptimizerState> optimizers;
  std::unordered_map<torch::optim::Optimizer*, Outcome> outcomes;
  bool update_is_due = false;  // update_later() was called since the last update
  int64_t scaled_losses = 0;

  Stage stage_of(torch::optim::Optimizer& optimizer) const {
    const auto found = optimizers.find(&optimizer);
    return found == optimizers.end() ? Stage::ready : found->second.stage;
  }
  // From what the optimizers that stepped found.
  void update_from_steps(at::Tensor& new_scale, at::Tensor& new_tracker) const {
    std::vector<at::Tensor> found;
    for (const auto& [optimizer, own] : optimizers) {
      if (own.stage != Stage::stepped) continue;
      found.insert(found.end(), own.found_inf.begin(), own.found_inf.end());
    }
    const torch::NoGradGuard no_grad;
    at::_amp_update_scale_(new_scale, new_tracker, combined(found, new_scale.device()),
                           options.growth_factor, options.backoff_factor, options.growth_interval);
  }
  // What a due update will make of the scale and the tracker. The update itself waits: ranks that
  // look at the scale between two optimizers' steps, and ranks that do not, behave alike.
  std::pair<at::Tensor, at::Tensor> updated() const {
    std::pair<at::Tensor, at::Tensor> next = {scale, growth_tracker};
    if (!update_is_due) return next;
    next = {scale.clone(), growth_tracker.clone()};
    update_from_steps(next.first, next.second);
    return next;
  }
  // Optimizers whose gradients are unscaled and that have not stepped keep them.
  void apply_due_update() {
    if (!update_is_due) return;
    update_is_due = false;
    update_from_steps(scale, growth_tracker);
    std::erase_if(optimizers, [](const auto& own) { return own.second.stage == Stage::stepped; });
  }
  void forget_steps() {
    update_is_due = false;
    optimizers.clear();
  }

  void place(at::Device device) {
    if (scale.defined()) return;
    scale = at::full({}, init_scale, at::dtype(at::kFloat).device(device));
    growth_tracker = at::full({}, init_growth_tracker, at::dtype(at::kInt).device(device));
  }
  void require_placed(const char* what) const {
    if (scale.defined()) return;
    throw Error(std::string(what) +
                " was called before any scale(): call backward() on scale(loss)");
  }
  void finish(torch::optim::Optimizer& optimizer, std::optional<bool> skipped) {
    OptimizerState& own = optimizers[&optimizer];
    own.stage = Stage::stepped;
    outcomes[&optimizer] = {own.found_inf, skipped};
  }
};

GradScaler::GradScaler(const GradScalerOptions& options) : state_(std::make_unique<State>()) {
  if (options.enabled) {
    require_factors(options.growth_factor, options.backoff_factor, options.growth_interval);
  }
  state_->options = options;
  state_->init_scale = options.init_scale;
}

GradScaler::~GradScaler() = default;
GradScaler::GradScaler(GradScaler&&) noexcept = default;
GradScaler& GradScaler::operator=(GradScaler&&) noexcept = default;

at::Tensor GradScaler::scale(const at::Tensor& outputs) {
  if (!is_enabled()) return outputs;
  state_->place(outputs.device());
  if (state_->update_is_due) {
    state_->apply_due_update();
    state_->optimizers.clear();
  }
  ++state_->scaled_losses;
  return outputs * state_->scale.to(outputs.device(), /*non_blocking=*/true);
}

std::vector<at::Tensor> GradScaler::scale(const std::vector<at::Tensor>& outputs) {
  std::vector<at::Tensor> scaled;
  for (const at::Tensor& output : outputs) scaled.push_back(scale(output));
  return scaled;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  unscale_(optimizer, parameters_of(optimizer));
}

bool GradScaler::is_unscaled(torch::optim::Optimizer& optimizer) const {
  const auto found = state_->optimizers.find(&optimizer);
  return found != state_->optimizers.end() && found->second.stage != Stage::ready &&
         found->second.scaled_losses == state_->scaled_losses;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer,
                          const std::vector<at::Tensor>& parameters,
                          std::optional<at::Device> without_gradients) {
  if (!is_enabled()) return;
  state_->require_placed("unscale_()");
  OptimizerState& own = state_->optimizers[&optimizer];
  if (own.stage == Stage::unscaled) {
    throw Error("unscale_() has already been called on this optimizer since the last update()");
  }
  if (own.stage == Stage::stepped) {
    throw Error(
        "unscale_() was called after step(): call it before step(), or call update() first");
  }
  own.found_inf = unscale(parameters, state_->scale.to(at::kDouble).reciprocal().to(at::kFloat),
                          /*allow_fp16=*/false);
  if (own.found_inf.empty() && without_gradients) {
    own.found_inf.push_back(at::zeros({}, at::dtype(at::kFloat).device(*without_gradients)));
  }
  own.scaled_losses = state_->scaled_losses;
  own.stage = Stage::unscaled;
}

void GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!is_enabled()) {
    optimizer.step();
    return;
  }
  state_->require_placed("step()");
  OptimizerState& own = state_->optimizers[&optimizer];
  if (own.stage == Stage::stepped) {
    throw Error("step() has already been called on this optimizer since the last update()");
  }
  auto* fused = dynamic_cast<Optimizer*>(&optimizer);
  if (fused != nullptr && !fused->scales_in_kernel()) fused = nullptr;
  at::Tensor grad_scale;
  if (own.stage == Stage::ready && fused != nullptr) {
    // Only checks; the kernel unscales.
    grad_scale = state_->scale;
    own.found_inf =
        unscale(parameters_of(optimizer), at::ones_like(state_->scale), /*allow_fp16=*/true);
    own.scaled_losses = state_->scaled_losses;
  } else if (own.stage == Stage::ready) {
    unscale_(optimizer);
  }
  if (own.found_inf.empty()) {
    throw Error(
        "step() found no gradient on any parameter of this optimizer: was backward() called"
        " on the scaled loss?");
  }
  if (fused != nullptr) {
    fused->step_scaled(grad_scale, combined(own.found_inf, state_->scale.device()));
    state_->finish(optimizer, std::nullopt);
    return;
  }
  const bool skipped = any_found(own.found_inf);
  if (!skipped) optimizer.step();
  state_->finish(optimizer, skipped);
}

bool GradScaler::step_was_skipped(torch::optim::Optimizer& optimizer) const {
  const auto found = state_->outcomes.find(&optimizer);
  if (found == state_->outcomes.end()) return false;
  Outcome& outcome = found->second;
  if (!outcome.skipped) outcome.skipped = any_found(outcome.found_inf);
  return *outcome.skipped;
}

void GradScaler::update() {
  if (!is_enabled()) return;
  state_->require_placed("update()");
  std::vector<at::Tensor> found;
  for (const auto& [optimizer, own] : state_->optimizers) {
    found.insert(found.end(), own.found_inf.begin(), own.found_inf.end());
  }
  if (found.empty()) {
    throw Error("update() needs an unscale_() or step() since the last update()");
  }
  const torch::NoGradGuard no_grad;
  at::_amp_update_scale_(state_->scale, state_->growth_tracker,
                         combined(found, state_->scale.device()), state_->options.growth_factor,
                         state_->options.backoff_factor, state_->options.growth_interval);
  state_->forget_steps();
}

void GradScaler::update(double new_scale) {
  if (!is_enabled()) return;
  state_->require_placed("update()");
  state_->scale.fill_(new_scale);
  state_->forget_steps();
}

void GradScaler::update_later() {
  if (is_enabled()) state_->update_is_due = true;
}

void GradScaler::apply_update() { state_->apply_due_update(); }

void GradScaler::forget_optimizers() {
  apply_update();
  state_->optimizers.clear();
  state_->outcomes.clear();
}

bool GradScaler::has_stepped(torch::optim::Optimizer& optimizer) const {
  return state_->stage_of(optimizer) == Stage::stepped;
}

double GradScaler::get_scale() const {
  if (!is_enabled()) return 1.0;
  return state_->scale.defined() ? state_->updated().first.item<double>() : state_->init_scale;
}

int64_t GradScaler::get_growth_tracker() const {
  if (!is_enabled()) return 0;
  return state_->growth_tracker.defined() ? state_->updated().second.item<int64_t>()
                                          : state_->init_growth_tracker;
}

double GradScaler::get_growth_factor() const { return state_->options.growth_factor; }
double GradScaler::get_backoff_factor() const { return state_->options.backoff_factor; }
int64_t GradScaler::get_growth_interval() const { return state_->options.growth_interval; }
void GradScaler::set_growth_factor(double factor) {
  require_factors(factor, get_backoff_factor(), get_growth_interval());
  state_->apply_due_update();
  state_->options.growth_factor = factor;
}
void GradScaler::set_backoff_factor(double factor) {
  require_factors(get_growth_factor(), factor, get_growth_interval());
  state_->apply_due_update();
  state_->options.backoff_factor = factor;
}
void GradScaler::set_growth_interval(int64_t steps) {
  require_factors(get_growth_factor(), get_backoff_factor(), steps);
  state_->apply_due_update();
  state_->options.growth_interval = steps;
}
bool GradScaler::is_enabled() const { return state_->options.enabled; }

std::vector<at::Tensor> GradScaler::found_inf(torch::optim::Optimizer& optimizer) const {
  const auto found = state_->optimizers.find(&optimizer);
  return found == state_->optimizers.end() ? std::vector<at::Tensor>() : found->second.found_inf;
}

TensorMap GradScaler::state_dict() const {
  if (!is_enabled()) return {};
  return {{"scale", torch::tensor(get_scale(), at::kDouble)},
          {"growth_factor", torch::tensor(get_growth_factor(), at::kDouble)},
          {"backoff_factor", torch::tensor(get_backoff_factor(), at::kDouble)},
          {"growth_interval", torch::tensor(get_growth_interval(), at::kLong)},
          {"_growth_tracker", torch::tensor(get_growth_tracker(), at::kLong)}};
}

void GradScaler::load_state_dict(const TensorMap& state) {
  if (!is_enabled()) return;
  if (state.empty()) {
    throw CheckpointError(
        "the gradient scaler's saved state is empty: it was saved by a run without one; load it "
        "with GradScalerOptions{.enabled = false}, or continue without loading it");
  }
  GradScalerOptions options = state_->options;
  const double scale = number(state, "scale");
  options.growth_factor = number(state, "growth_factor");
  options.backoff_factor = number(state, "backoff_factor");
  options.growth_interval = static_cast<int64_t>(number(state, "growth_interval"));
  const auto tracker = static_cast<int64_t>(number(state, "_growth_tracker"));
  state_->options = options;
  state_->init_scale = scale;
  state_->init_growth_tracker = tracker;
  if (state_->update_is_due) state_->forget_steps();
  if (!state_->scale.defined()) return;
  state_->scale.fill_(scale);
  state_->growth_tracker.fill_(tracker);
}

}  // namespace muster
