// One unit: what this rank owns of it, and the whole when it is gathered.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "parallel/gradient_hook.h"
#include "sharding/buffer_pool.h"
#include "sharding/first_touch.h"
#include "sharding/shard_group.h"
#include "sharding/unit_layout.h"

namespace muster {

// A parameter of the module and this rank's part of it.
struct ParameterSlot {
  UnitParameter parameter;
  int unit = 0;
  std::vector<int64_t> shape;
  ChunkRange range;  // of the flattened parameter
  // 1-D, what the optimizer steps on; without elements where this rank owns nothing.
  at::Tensor piece;
  bool trained = false;
  bool ready = false;  // its gradient is there, in this backward
  GradAccumulator accumulator;
};

class ShardUnit {
 public:
  struct Options {
    int number = 0;
    bool keeps_whole = false;  // zero1, zero2: the whole stays in memory
    at::ScalarType compute_dtype = at::kFloat;
    at::Device device = at::kCPU;
  };
  // Takes the values of the module's parameters over, and their memory away. Parameters of the meta
  // device stay what they are until place().
  ShardUnit(UnitLayout layout, const Options& options, ShardGroup& group, BufferPool& pool,
            FirstTouchOwner& owner);

  const UnitLayout& layout() const { return layout_; }
  std::vector<ParameterSlot>& slots() { return slots_; }
  bool trains() const { return trained_ > 0; }
  size_t trained() const { return trained_; }

  // ---- Parameters ----
  void place(ParameterSlot& slot, const at::Tensor& value);
  // Gives all copies the first one's values. Collective between the copies.
  void share_masters(ShardGroup& copies);
  // Begins to fetch the others' chunks, if that is not done or under way. Collective.
  void start_gather();
  void finish_gather();
  bool is_gathered() const { return storage_.has_memory() && !gathering_.started(); }
  bool is_here_or_coming() const { return storage_.has_memory(); }
  // Lets the whole go; not for units that keep it.
  void release();
  // The chunks have changed: fetches those of the others again. Of a unit that keeps the whole.
  void start_update();

  // The parameters as the optimizer has them, not lowered: [padded] on its own, in the pool's
  // memory. Collective.
  at::Tensor gather_masters();

  // ---- Gradients ----
  // Sends what the parameters have (times `scale`; zeros where a gradient is undefined) and lets
  // go of it. Collective.
  void start_reduce(at::ScalarType dtype, double scale);
  // Adds what came to the chunk's gradient, after averaging over the copies. Collective where there
  // are copies.
  void finish_reduce(ShardGroup* copies);
  void scale_gradients(double factor);
  // Gives the pieces their parts of the chunk's gradient, where `used` says so.
  void expose_gradients(const std::vector<bool>& used);
  bool has_whole_gradients() const;
  size_t ready = 0;      // slots, in this backward
  bool reduced = false;  // sent, in this backward

  // Bytes.
  int64_t owned_bytes() const;
  int64_t whole_bytes() const;

 private:
  struct Reduction {
    PendingCollective pending;
    at::Tensor chunk, whole, scratch;
  };

  at::Tensor piece_of(const at::Tensor& chunk, const ParameterSlot& slot) const;
  void add_to_gradient(const at::Tensor& chunk);

  UnitLayout layout_;
  const Options options_;
  ShardGroup& group_;
  BufferPool& pool_;
  const int64_t chunk_;
  GuardedStorage storage_;
  std::vector<ParameterSlot> slots_;
  size_t trained_ = 0;
  // [chunk], what this rank owns; part of whole_ where that is kept in the same dtype.
  at::Tensor master_;
  at::Tensor whole_;        // [padded], of compute_dtype; undefined when let go
  at::Tensor gradient_;     // [chunk] of the master's dtype
  bool unexposed_ = false;  // it has values that the pieces have not been given yet
  PendingCollective gathering_;
  std::vector<Reduction> reductions_;
};

}  // namespace muster
