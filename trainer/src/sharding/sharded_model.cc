// Gathering and letting go; see sharded_model.h. Gradients are in sharded_gradients.cc.
#include "sharding/sharded_model.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "muster/errors.h"
#include "parallel/data_parallel_state.h"

namespace muster {
namespace {

void require_floating(const char* name, const std::optional<at::ScalarType>& dtype) {
  if (!dtype || at::isFloatingType(*dtype)) return;
  throw std::invalid_argument(std::string("ShardingOptions::") + name + " is " +
                              c10::toString(*dtype) + ": a floating-point type is needed");
}

void require_dense(const DataParallel::State& state) {
  const std::vector<bool> sparse = sparse_flags(*state.module, state.parameters);
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (!sparse[i]) continue;
    throw std::invalid_argument("sharding: parameter '" + state.parameters[i].name +
                                "' has sparse gradients, which cannot be divided: make the " +
                                "embedding without sparse(true)");
  }
}

ShardingOptions checked(ShardingOptions options, const DataParallel& data_parallel) {
  if (options.stage == ZeroStage::zero1 && options.reduce_every_micro_batch) {
    throw std::invalid_argument(
        "ShardingOptions::reduce_every_micro_batch needs zero2 or zero3: zero1 keeps whole "
        "gradients");
  }
  if (options.stage == ZeroStage::zero1 && options.param_dtype) {
    throw std::invalid_argument(
        "ShardingOptions::param_dtype needs zero2 or zero3: with zero1 the parameters stay as the "
        "model has them");
  }
  require_floating("param_dtype", options.param_dtype);
  require_floating("reduce_dtype", options.reduce_dtype);
  require_dense(data_parallel.state());
  const DataParallelOptions& frame = data_parallel.options();
  if (options.stage != ZeroStage::zero1 &&
      frame.gradient_compression != GradientCompression::none) {
    throw std::invalid_argument(
        "DataParallelOptions::gradient_compression does not act with zero2 and zero3: set "
        "ShardingOptions::reduce_dtype instead");
  }
  return options;
}

// Adagrad alone has state before its first step; it becomes the piece's.
void hand_over_state(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                     const ParameterSlot& slot) {
  auto& states = optimizer.state();
  const auto found = states.find(parameter.unsafeGetTensorImpl());
  if (found == states.end()) return;
  std::unique_ptr<torch::optim::OptimizerParamState> state = std::move(found->second);
  states.erase(found);
  if (auto* adagrad = dynamic_cast<torch::optim::AdagradParamState*>(state.get())) {
    adagrad->sum(adagrad->sum()
                     .reshape({-1})
                     .narrow(0, slot.range.begin, slot.range.count)
                     .to(slot.piece.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
    states[slot.piece.unsafeGetTensorImpl()] = std::move(state);
  }
}

}  // namespace

void ShardedModel::Order::restart() {
  if (!current_.empty()) previous_ = std::move(current_);
  current_.clear();
}

void ShardedModel::Order::visit(int unit) { current_.push_back(unit); }

int ShardedModel::Order::after(int unit) const {
  // The same pass again is the rule: look where this one stands first.
  const size_t place = current_.size();
  if (place >= 1 && place < previous_.size() && previous_[place - 1] == unit) {
    return previous_[place];
  }
  const auto found = std::find(previous_.begin(), previous_.end(), unit);
  return found == previous_.end() || found + 1 == previous_.end() ? -1 : *(found + 1);
}

ShardedModel::ShardedModel(std::shared_ptr<DataParallel> data_parallel,
                           const ShardingOptions& options, ShardingGroups groups, at::Device device,
                           int world_size)
    : data_parallel_(std::move(data_parallel)),
      options_(checked(options, *data_parallel_)),
      groups_(std::move(groups)),
      device_(device),
      world_size_(world_size),
      shard_group_(groups_.shard, device),
      pool_(device) {
  data_parallel_->state().divided = true;
  if (groups_.copies) copies_.emplace(groups_.copies, device);
  std::vector<UnitLayout> layouts =
      plan_units(data_parallel_->module(), options_, shard_group_.size());
  for (UnitLayout& layout : layouts) {
    const at::ScalarType own = layout.parameters.front().tensor.scalar_type();
    const ShardUnit::Options unit{
        .number = static_cast<int>(units_.size()),
        .keeps_whole = options_.stage != ZeroStage::zero3,
        .compute_dtype = own == at::kDouble ? own : options_.param_dtype.value_or(own),
        .device = device_};
    units_.push_back(std::make_unique<ShardUnit>(std::move(layout), unit, shard_group_, pool_,
                                                 static_cast<FirstTouchOwner&>(*this)));
  }
  for (const auto& unit : units_) {
    for (ParameterSlot& slot : unit->slots()) {
      slots_[slot.parameter.tensor.unsafeGetTensorImpl()] = &slot;
      slots_[slot.piece.unsafeGetTensorImpl()] = &slot;
      for (const std::string& name : slot.parameter.names) slots_by_name_[name] = &slot;
    }
  }
}

ShardedModel::~ShardedModel() = default;

void ShardedModel::meet(const char* function, const std::string& options) const {
  if (options_.stage == ZeroStage::zero3 && held_ == 0 && groups_.meet) {
    groups_.meet(function, options);
  }
}

void ShardedModel::meet_for_forward() {
  const bool evaluates = !torch::GradMode::is_enabled() || !data_parallel_->module().is_training();
  meet("forward", evaluates ? "zero3, evaluation: it gathers the parameters from all ranks, so all "
                              "of them evaluate, equally often; for one rank alone all enter "
                              "Accelerator::full_parameters(model) first"
                            : "zero3");
}

void ShardedModel::before_forward() {
  // A loop that calls loss.backward() itself, without a step since. zero1's gradients are whole:
  // nothing waits for being reduced.
  if (options_.stage != ZeroStage::zero1) end_backward();
  // Not before all parameters have their memory: autograd remembers what it saw first.
  if (!std::exchange(hooked_, true) && options_.stage != ZeroStage::zero1) hook_gradients();
  if (!unused_.empty()) require_all_used();
  if (lost_gradients_ && !has_optimizer_) require_optimizer();
  phase_before_forward_ = phase_;
  phase_ = Phase::forward;
  forward_order_.restart();
}

void ShardedModel::after_forward() {
  if (torch::GradMode::is_enabled()) {
    phase_ = Phase::backward;
    gradients_are_due_ = true;
    if (!backward_order_.known()) {
      std::vector<int> order(forward_order_.current().rbegin(), forward_order_.current().rend());
      backward_order_.guess(std::move(order));
    }
    backward_order_.restart();
    return;
  }
  phase_ = phase_before_forward_;
  if (phase_ == Phase::idle) release_all();
}

void ShardedModel::begin_backward() {
  meet("backward", "zero3");
  phase_before_backward_ = phase_;
  phase_ = Phase::backward;
  gradients_are_due_ = true;
}

void ShardedModel::hold_whole() {
  meet("full_parameters");
  if (held_++ > 0) return;
  for (const auto& unit : units_) {
    unit->start_gather();
    unit->finish_gather();
  }
}

void ShardedModel::release_whole() {
  if (--held_ == 0) release_all();
}

void ShardedModel::release_all() {
  in_use_.clear();
  gathered_ = 0;
  if (options_.stage != ZeroStage::zero3 || held_ > 0) return;
  for (const auto& unit : units_) unit->release();
}

void ShardedModel::evict_all_but(const std::vector<int>& units) {
  for (const int number : in_use_) {
    ShardUnit& unit = *units_[number];
    if (unit.layout().is_root || std::count(units.begin(), units.end(), number) > 0) continue;
    // In backward a unit goes when it has its gradients.
    if (phase_ == Phase::backward ? unit.trains() : !options_.reshard_after_forward) continue;
    if (unit.is_here_or_coming()) gathered_ -= unit.whole_bytes();
    unit.release();
  }
}

void ShardedModel::touch(const std::vector<int>& units) {
  if (options_.stage != ZeroStage::zero3) {
    for (const int unit : units) units_[unit]->finish_gather();
    return;
  }
  if (held_ > 0 || units == in_use_) {
    bool all_here = true;
    for (const int unit : units) all_here &= units_[unit]->is_gathered();
    if (all_here) return;
  }
  gather(units);
}

void ShardedModel::gather(const std::vector<int>& units) {
  if (phase_ == Phase::idle && held_ == 0) refuse_touch(units.front());
  evict_all_but(units);
  Order& order = phase_ == Phase::forward ? forward_order_ : backward_order_;
  const auto start = [this](ShardUnit& unit) {
    if (unit.is_here_or_coming()) return;
    gathered_ += unit.whole_bytes();
    gathered_peak_ = std::max(gathered_peak_, gathered_);
    unit.start_gather();
  };
  bool is_next = false;  // not one that is used again
  for (const int number : units) {
    ShardUnit& unit = *units_[number];
    if (!unit.is_gathered()) {
      order.visit(number);
      is_next = true;
    }
    start(unit);
    unit.finish_gather();
  }
  in_use_ = units;
  if (!options_.prefetch || !is_next) return;
  const int next = order.after(units.back());
  if (next >= 0) start(*units_[next]);
}

void ShardedModel::refuse_touch(int unit) const {
  const UnitLayout& layout = units_[unit]->layout();
  throw Error("parameters of '" + layout.name + "' ('" + layout.parameters.front().names.front() +
              "', …) are divided over the ranks and have no memory between backward and the next "
              "forward: call the prepared model, or read them inside "
              "Accelerator::full_parameters(model), which all ranks enter");
}

void ShardedModel::adopt(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      ParameterSlot* slot = find(parameter);
      if (slot == nullptr) continue;
      has_optimizer_ = true;
      hand_over_state(optimizer, parameter, *slot);
      parameter = slot->piece;
    }
  }
}

bool ShardedModel::is_stepped_by(torch::optim::Optimizer& optimizer) const {
  for (auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (find(parameter) != nullptr) return true;
    }
  }
  return false;
}

void ShardedModel::publish() {
  if (options_.stage == ZeroStage::zero3) {
    if (held_ == 0) release_all();
    return;
  }
  for (const auto& unit : units_) unit->start_update();
}

ParameterSlot* ShardedModel::find(const at::Tensor& tensor) const {
  const auto found = slots_.find(tensor.unsafeGetTensorImpl());
  return found == slots_.end() ? nullptr : found->second;
}

ParameterSlot* ShardedModel::find(const std::string& name) const {
  const auto found = slots_by_name_.find(name);
  return found == slots_by_name_.end() ? nullptr : found->second;
}

void ShardedModel::place(const at::Tensor& parameter, const at::Tensor& value) {
  if (ParameterSlot* slot = find(parameter)) units_[slot->unit]->place(*slot, value);
}

void ShardedModel::end_placing() {
  if (!copies_) return;
  for (const auto& unit : units_) unit->share_masters(*copies_);
}

at::Tensor ShardedModel::read_whole(const ParameterSlot& slot) {
  if (read_unit_ != slot.unit) {
    end_reading();
    read_values_ = units_[slot.unit]->gather_masters();
    read_unit_ = slot.unit;
  }
  return read_values_.narrow(0, slot.parameter.offset, slot.parameter.numel()).view(slot.shape);
}

void ShardedModel::end_reading() {
  if (read_unit_ >= 0) pool_.give_back(read_values_);
  read_values_.reset();
  read_unit_ = -1;
}

void ShardedModel::add_usage(MemoryUsage& usage) const {
  for (const auto& unit : units_) {
    usage.parameters += unit->owned_bytes();
    if (options_.stage == ZeroStage::zero3 && unit->is_here_or_coming()) {
      usage.gathered += unit->whole_bytes();
    }
    for (const ParameterSlot& slot : unit->slots()) {
      const at::Tensor& whole = slot.parameter.tensor.grad();
      if (whole.defined()) usage.gradients += static_cast<int64_t>(whole.nbytes());
      const at::Tensor& part = slot.piece.grad();
      if (part.defined() && !(whole.defined() && part.is_alias_of(whole))) {
        usage.gradients += static_cast<int64_t>(part.nbytes());
      }
    }
  }
  usage.gathered_peak += gathered_peak_;
  usage.gradients_peak += gradients_peak_;
}

}  // namespace muster
