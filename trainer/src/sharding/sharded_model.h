// The engine of a model that is sharded across the ranks: when units are unsharded, resharded and
// reduced. Its state between passes is one PassState; what its stage shards is one StagePolicy.
// Parameters are in sharded_parameters.cc, gradients in sharded_gradients.cc, the rest in
// sharded_model.cc; the arithmetic is in shard_unit.cc, the design in docs/decisions/first-use-
// sharding.md. Training thread, and autograd's thread during backward; collective throughout,
// because all ranks run the same program.
#pragma once

#include <torch/optim.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/parallel/data_parallel.h"
#include "muster/sharding/model_sharding.h"
#include "sharding/buffer_pool.h"
#include "sharding/pass_state.h"
#include "sharding/shard_group.h"
#include "sharding/shard_unit.h"
#include "sharding/stage_policy.h"
#include "sharding/unit_order.h"

namespace muster {

// The groups of ranks in sharding.
struct ShardingGroups {
  // The ranks that share one copy; null if that is one rank.
  ProcessGroupPtr shard;
  // The ranks that own the same chunks of different copies; null without copies.
  ProcessGroupPtr copies;
  int copy = 0;  // of this rank
  // Called before a collective step: throws on all ranks if they are about to do different things.
  // Null: not compared.
  std::function<void(const char* function, const std::string& options)> meet;
};

class ShardedModel : private ShardOwner {
 public:
  // Takes over the module's parameters. `data_parallel` wraps the same module (buffers, agreement;
  // with zero1 it also averages the gradients). Options with defaults filled in.
  ShardedModel(std::shared_ptr<DataParallel> data_parallel, const ShardingOptions& options,
               ShardingGroups groups, at::Device device, int world_size);
  ~ShardedModel();

  DataParallel& data_parallel() { return *data_parallel_; }

  // Releases the module, whose parameters stay sharded until it is prepared again: from now on a pass of
  // this object is an error. Waits for collectives in flight.
  void leave() override;

  // ---- Around the passes ----
  // With zero3 every pass unshards parameters, so a rank that runs one alone would block until the
  // group's timeout. Called before the first collective of a forward.
  void meet_for_forward();
  void before_forward();
  void after_forward();
  void begin_backward();
  // Finishes the reductions and gives the shards their gradients. No effect if none are due.
  void end_backward();
  // Scales all gradients, sharded or not. Between backwards.
  void scale_gradients(double factor);
  // Between the two calls, which nest, all units of zero3 stay unsharded. The first is collective.
  void hold_unsharded();
  void end_unsharded();

  // Call after DataParallel::follow_parameters: trains what requires gradients now.
  void follow_parameters();

  // ---- Optimizers ----
  // Replaces the module's parameters by their shards, where that is not done; the optimizer has not
  // stepped these yet.
  void adopt(torch::optim::Optimizer& optimizer);
  bool is_stepped_by(torch::optim::Optimizer& optimizer) const;
  // Call after an optimizer, or a load, has changed the shards.
  void publish();
  // Clears the unsharded gradients behind this optimizer's shards.
  void zero_grad(torch::optim::Optimizer& optimizer);

  // The slot of a parameter of the module, or of a shard; null for other tensors.
  ParameterSlot* find(const at::Tensor& tensor) const;
  // Whether the module's own parameters have gradients that the shards' gradients are views of
  // (zero1).
  bool has_whole_gradients() const;
  // Call after a change of the whole gradients: shards of another dtype have copies, not views.
  void follow_whole_gradients() {
    if (has_whole_gradients()) expose_whole_gradients();
  }
  // Sum or maximum over the ranks that share a copy, in place.
  void all_reduce(const at::Tensor& tensor, c10d::ReduceOp operation) {
    shard_group_.all_reduce(tensor, operation).wait();
  }

  // ---- State ----
  std::vector<std::unique_ptr<ShardUnit>>& units() { return units_; }
  ParameterSlot* find(const std::string& name) const;
  // An unsharded parameter in the optimizer's dtype, valid until the next call. Gathers one unit at
  // a time, so ask in the order of the model. Collective; end_reading() frees the last unit.
  at::Tensor read_whole(const ParameterSlot& slot);
  void end_reading();
  // Sets the value of a parameter on the meta device. Not collective; end_placing, after the last
  // one, is.
  void place(const at::Tensor& parameter, const at::Tensor& value);
  void end_placing();
  // Of the model; the caller adds that of the optimizers.
  void add_usage(MemoryUsage& usage) const;

 private:
  // Who steps on the shards. Without a prepared optimizer, a backward's gradients are lost.
  enum class Optimizing : std::uint8_t { nobody, nobody_and_gradients_lost, prepared_optimizer };

  void move(PassEvent event) { state_ = next_state(state_, event); }
  void meet(const char* function, const std::string& options = "") const;
  void require_module() const;

  // ---- Parameters ----
  // Called before an operator reads these units.
  void unshard(const std::vector<int>& units) override;
  void start_unshard(ShardUnit& unit);
  void reshard(ShardUnit& unit);
  void reshard_all_but(const std::vector<int>& units);
  void reshard_all();
  [[noreturn]] void refuse_use(int unit) const;

  // ---- Gradients ----
  void hook_gradients();
  void gradient_ready(ShardUnit& unit, ParameterSlot& slot);
  bool reduces() const;
  void reduce(ShardUnit& unit);
  void finish_reduce();
  bool any_gradient_came() const;
  // Reduces what backward has not, and gives the shards their gradients.
  void reduce_rest();
  // Which slots got a gradient on any rank, by unit.
  std::vector<std::vector<bool>> used_slots();
  // False if there are none yet.
  bool expose_whole_gradients();
  void require_all_used();
  [[noreturn]] void require_optimizer() const;

  // ---- Set once ----
  const std::shared_ptr<DataParallel> data_parallel_;
  const ShardingOptions options_;
  const StagePolicy policy_;
  const ShardingGroups groups_;
  const at::Device device_;
  const int world_size_;
  ShardGroup shard_group_;
  std::optional<ShardGroup> copies_;
  BufferPool pool_;
  std::vector<std::unique_ptr<ShardUnit>> units_;
  std::unordered_map<c10::TensorImpl*, ParameterSlot*> slots_;  // by parameter and by shard
  // Made when a name is first asked for, as by a checkpoint.
  mutable std::unordered_map<std::string, ParameterSlot*> slots_by_name_;

  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool has_left_ = false;
  PassState state_ = PassState::resting;
  Optimizing optimizing_ = Optimizing::nobody;

  // ---- Parameters ----
  int held_ = 0;             // calls of hold_unsharded without end_unsharded
  std::vector<int> in_use_;  // the units that the last operator used
  UnitOrder forward_order_, backward_order_;
  int64_t gathered_ = 0, gathered_peak_ = 0;  // bytes
  int read_unit_ = -1;
  at::Tensor read_values_;  // of that unit

  // ---- Gradients ----
  ShardUnit* reducing_ = nullptr;  // its reduction is in flight
  std::string unused_;             // parameters without a gradient, reported at the next forward
  int64_t whole_gradients_ = 0, gradients_peak_ = 0;  // bytes
};

}  // namespace muster
