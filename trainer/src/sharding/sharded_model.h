// The engine of a model that is divided over the ranks: when units are gathered, let go and
// reduced. What it does to the numbers is in shard_unit.cc; why it looks as it does, in
// docs/decisions. Training thread, and autograd's thread while backward runs; collective
// throughout, as all ranks run the same program.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/data_parallel.h"
#include "muster/model_sharding.h"
#include "sharding/buffer_pool.h"
#include "sharding/shard_group.h"
#include "sharding/shard_unit.h"

namespace muster {

// The ranks by their part in sharding.
struct ShardingGroups {
  ProcessGroupPtr shard;   // divide one copy; null when that is one rank
  ProcessGroupPtr copies;  // own the same chunks of different copies; null without copies
  int copy = 0;            // which copy this rank belongs to
  // Before something that all ranks do: throws on all of them when they are about to do different
  // things. Null: nobody compares.
  std::function<void(const char* function, const std::string& options)> meet;
};

class ShardedModel : private FirstTouchOwner {
 public:
  // Takes the module's parameters over; `data_parallel` is its frame (buffers, agreement; for zero1
  // it also averages the gradients). Options with defaults filled in.
  ShardedModel(std::shared_ptr<DataParallel> data_parallel, const ShardingOptions& options,
               ShardingGroups groups, at::Device device, int world_size);
  ~ShardedModel();

  DataParallel& data_parallel() { return *data_parallel_; }

  // ---- Around the passes ----
  // With zero3 every pass gathers parameters: a rank that makes one alone would wait for the others
  // until the group's timeout. Called before the first collective of a forward.
  void meet_for_forward();
  void before_forward();
  void after_forward();
  void begin_backward();
  // Finishes the reductions and gives the pieces their gradients. Does nothing when that is done.
  void end_backward();
  // Multiplies what there is of gradients, whole or in parts. Between backwards.
  void scale_gradients(double factor);
  // While positive, all units of zero3 stay gathered. Collective.
  void hold_whole();
  void release_whole();

  // ---- Optimizers ----
  // Puts the pieces in the place of the module's parameters; the optimizer has not stepped yet.
  void adopt(torch::optim::Optimizer& optimizer);
  bool is_stepped_by(torch::optim::Optimizer& optimizer) const;
  // An optimizer has changed the pieces, or something was loaded into them.
  void publish();
  // Lets go of the whole gradients behind this optimizer's pieces.
  void zero_grad(torch::optim::Optimizer& optimizer);

  // The slot of a parameter of the module or of a piece; null for others.
  ParameterSlot* find(const at::Tensor& tensor) const;
  // Whether the gradients of the module's own parameters are whole and shared with the pieces.
  bool has_whole_gradients() const;
  // Sum or maximum over the ranks that divide a copy, in place.
  void all_reduce(const at::Tensor& tensor, c10d::ReduceOp operation) {
    shard_group_.all_reduce(tensor, operation).wait();
  }

  // ---- State ----
  std::vector<std::unique_ptr<ShardUnit>>& units() { return units_; }
  ParameterSlot* find(const std::string& name) const;
  // A whole parameter as the optimizer has it, valid until the next call. Gathers a unit at a time:
  // ask in the order of the model. Collective; end_reading() lets the last unit go.
  at::Tensor read_whole(const ParameterSlot& slot);
  void end_reading();
  // The value of a parameter that is on the meta device. Not collective; end_placing, when all of
  // them have theirs, is.
  void place(const at::Tensor& parameter, const at::Tensor& value);
  void end_placing();
  // Of the model; the optimizers' part is the caller's.
  void add_usage(MemoryUsage& usage) const;

 private:
  // Where a pass stands decides what a touch may do.
  enum class Phase { idle, forward, backward };

  // The units of a pass in the order in which they were gathered: what the next pass will ask for.
  class Order {
   public:
    void restart();
    void visit(int unit);
    // The unit after this one in the pass before; -1 when not known.
    int after(int unit) const;
    void guess(std::vector<int> order) { previous_ = std::move(order); }
    bool known() const { return !previous_.empty(); }
    const std::vector<int>& current() const { return current_; }

   private:
    std::vector<int> previous_, current_;
  };

  void touch(const std::vector<int>& units) override;
  void gather(const std::vector<int>& units);
  void evict_all_but(const std::vector<int>& units);
  void release_all();
  void hook_gradients();
  void gradient_ready(ShardUnit& unit, ParameterSlot& slot);
  bool reduces() const;
  void reduce(ShardUnit& unit);
  void finish_reduce();
  // Which slots got a gradient on any rank, by unit.
  std::vector<std::vector<bool>> used_slots();
  // False when there are none yet.
  bool expose_whole_gradients();
  void require_all_used();
  [[noreturn]] void require_optimizer() const;
  [[noreturn]] void refuse_touch(int unit) const;
  void meet(const char* function, const std::string& options = "") const;

  const std::shared_ptr<DataParallel> data_parallel_;
  const ShardingOptions options_;
  const ShardingGroups groups_;
  const at::Device device_;
  const int world_size_;
  ShardGroup shard_group_;
  std::optional<ShardGroup> copies_;
  BufferPool pool_;
  std::vector<std::unique_ptr<ShardUnit>> units_;
  std::unordered_map<c10::TensorImpl*, ParameterSlot*> slots_;  // by parameter and by piece
  std::unordered_map<std::string, ParameterSlot*> slots_by_name_;

  ShardUnit* reducing_ = nullptr;  // its gradients are on their way
  int read_unit_ = -1;
  at::Tensor read_values_;  // of that unit

  bool hooked_ = false;
  Phase phase_ = Phase::idle;
  Phase phase_before_forward_ = Phase::idle;
  std::optional<Phase> phase_before_backward_;  // from begin_backward to end_backward
  // A forward with gradients, or a backward, came after the last end_backward.
  bool gradients_are_due_ = false;
  int held_ = 0;
  std::vector<int> in_use_;  // the units of the last touch
  Order forward_order_, backward_order_;
  bool has_optimizer_ = false;
  bool lost_gradients_ = false;  // a backward gave gradients that no optimizer will step on
  std::string unused_;           // parameters without gradient, told at the next forward

  int64_t gathered_ = 0, gathered_peak_ = 0;
  int64_t whole_gradients_ = 0, gradients_peak_ = 0;
};

}  // namespace muster
