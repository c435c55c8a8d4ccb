// When the units of a sharded model are unsharded and resharded; see sharded_model.h.
#include <algorithm>
#include <utility>

#include "muster/base/errors.h"
#include "parallel/call_name.h"
#include "sharding/sharded_model.h"

namespace muster {

void ShardedModel::meet(const char* function, const std::string& options) const {
  if (policy_.shards_parameters && held_ == 0 && groups_.meet) groups_.meet(function, options);
}

void ShardedModel::meet_for_forward() {
  require_module();
  const bool evaluates = !torch::GradMode::is_enabled() || !data_parallel_->module().is_training();
  meet("forward", evaluates ? "zero3, evaluation: it gathers the parameters from all ranks, so all "
                              "of them evaluate, equally often; for one rank alone all enter "
                              "Accelerator::full_parameters(model) first"
                            : "zero3");
}

void ShardedModel::before_forward() {
  if (policy_.shards_gradients) {
    // For loops that call loss.backward() directly and have not stepped since.
    end_backward();
    // Not earlier: all parameters must have their memory, because autograd remembers their first
    // form.
    hook_gradients();
  }
  if (!unused_.empty()) require_all_used();
  if (optimizing_ == Optimizing::nobody_and_gradients_lost) require_optimizer();
  move(PassEvent::forward_begins);
  forward_order_.restart();
}

void ShardedModel::after_forward() {
  if (!torch::GradMode::is_enabled()) {
    move(PassEvent::forward_ends_without_graph);
    if (!unshards_on_use(state_)) reshard_all();
    return;
  }
  move(PassEvent::forward_ends_with_graph);
  const std::vector<int>& forward = forward_order_.current();
  backward_order_.guess({forward.rbegin(), forward.rend()});
  backward_order_.restart();
}

void ShardedModel::begin_backward() {
  meet("backward", "zero3");
  move(PassEvent::backward_begins);
}

void ShardedModel::hold_unsharded() {
  require_module();
  meet("full_parameters");
  if (held_++ > 0) return;
  for (const auto& unit : units_) {
    unit->start_unshard();
    unit->finish_unshard();
  }
}

void ShardedModel::end_unsharded() {
  if (!has_left_ && --held_ == 0) reshard_all();
}

void ShardedModel::publish() {
  if (policy_.shards_parameters) {
    // Their new values are gathered at their next use.
    if (held_ == 0) reshard_all();
    return;
  }
  for (const auto& unit : units_) unit->start_update();
}

void ShardedModel::unshard(const std::vector<int>& units) {
  if (!policy_.shards_parameters) {
    for (const int unit : units) units_[unit]->finish_unshard();
    return;
  }
  if (held_ > 0 || units == in_use_) {
    const auto is_unsharded = [this](int unit) { return units_[unit]->is_unsharded(); };
    if (std::all_of(units.begin(), units.end(), is_unsharded)) return;
  }
  if (!unshards_on_use(state_) && held_ == 0) refuse_use(units.front());
  reshard_all_but(units);
  UnitOrder& order = in_forward(state_) ? forward_order_ : backward_order_;
  bool is_next = false;  // false if all of them are only used again
  for (const int number : units) {
    ShardUnit& unit = *units_[number];
    if (!unit.is_unsharded()) {
      order.visit(number);
      is_next = true;
    }
    start_unshard(unit);
    unit.finish_unshard();
  }
  in_use_ = units;
  if (!options_.prefetch || !is_next) return;
  const int next = order.after(units.back());
  if (next >= 0) start_unshard(*units_[next]);
}

void ShardedModel::start_unshard(ShardUnit& unit) {
  if (unit.has_memory()) return;
  gathered_ += unit.whole_bytes();
  gathered_peak_ = std::max(gathered_peak_, gathered_);
  const CallSubject subject(unit.subject(), unit.gathers());
  unit.start_unshard();
}

void ShardedModel::reshard(ShardUnit& unit) {
  if (unit.has_memory()) gathered_ -= unit.whole_bytes();
  unit.reshard();
}

void ShardedModel::reshard_all_but(const std::vector<int>& units) {
  for (const int number : in_use_) {
    ShardUnit& unit = *units_[number];
    if (unit.layout().is_root || std::count(units.begin(), units.end(), number) > 0) continue;
    // In backward, a unit that trains is resharded once it has its gradients.
    const bool stays = in_backward(state_) ? unit.trains() : !options_.reshard_after_forward;
    if (!stays) reshard(unit);
  }
}

void ShardedModel::reshard_all() {
  in_use_.clear();
  gathered_ = 0;
  if (!policy_.shards_parameters || held_ > 0) return;
  for (const auto& unit : units_) unit->reshard();
}

void ShardedModel::refuse_use(int unit) const {
  const UnitLayout& layout = units_[unit]->layout();
  throw Error("parameters of '" + layout.name + "' ('" + layout.parameters.front().names.front() +
              "', …) are sharded over the ranks and have no memory between backward and the next "
              "forward: call the prepared model, or read them inside "
              "Accelerator::full_parameters(model), which all ranks enter");
}

}  // namespace muster
