// One unit: the shard that this rank owns, and all of it while it is unsharded.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "parallel/gradient_hook.h"
#include "sharding/buffer_pool.h"
#include "sharding/first_use.h"
#include "sharding/shard_group.h"
#include "sharding/unit_layout.h"

namespace muster {

// A parameter of the module and this rank's shard of it.
struct ParameterSlot {
  UnitParameter parameter;
  int unit = 0;
  std::vector<int64_t> shape;
  ChunkRange range;  // of the flattened parameter
  // 1-D, what the optimizer steps on; empty if this rank owns nothing of it.
  at::Tensor piece;
  bool trained = false;
  bool ready = false;  // its gradient has arrived in this backward
  GradAccumulator accumulator;
};

class ShardUnit {
 public:
  struct Options {
    int number = 0;
    bool keeps_whole = false;  // zero1, zero2: never resharded
    at::ScalarType compute_dtype = at::kFloat;
    at::Device device = at::kCPU;
  };
  // Takes over the values of the module's parameters and frees their memory. Parameters on the meta
  // device stay there until place().
  ShardUnit(UnitLayout layout, const Options& options, ShardGroup& group, BufferPool& pool,
            ShardOwner& owner);

  const UnitLayout& layout() const { return layout_; }
  std::vector<ParameterSlot>& slots() { return slots_; }
  // For CallSubject: ranks that use different units would gather one with another's parts.
  const std::string& subject() const { return subject_; }
  const std::string& gathers() const { return gathers_; }
  const std::string& reduces() const { return reduces_; }
  bool trains() const { return trained_ > 0; }
  size_t trained() const { return trained_; }

  // Ends what is in flight, and leaves the chunk with the module's parameters.
  void leave();
  // Trains what requires gradients now. Between passes.
  void follow_marks();

  // ---- Parameters ----
  void place(ParameterSlot& slot, const at::Tensor& value);
  // Gives all copies the first one's values. Collective across the copies.
  void share_masters(ShardGroup& copies);
  // Starts gathering the other ranks' chunks, unless that is done or in flight. Collective.
  void start_unshard();
  void finish_unshard();
  // All values have arrived.
  bool is_unsharded() const { return storage_.has_memory() && !gathering_.started(); }
  // All values have arrived or are in flight.
  bool has_memory() const { return storage_.has_memory(); }
  // Frees the gathered memory; no effect on units that are never resharded.
  void reshard();
  // The chunks have changed: gathers those of the other ranks again. For units that are never
  // resharded.
  void start_update();

  // The parameters in the master's dtype: [padded], in separate memory of the pool. Collective.
  at::Tensor gather_masters();

  // ---- Gradients ----
  // Reduce-scatters the parameters' gradients (times `scale`; zeros where one is undefined) and
  // clears them. Collective.
  void start_reduce(at::ScalarType dtype, double scale);
  // Adds the result to the chunk's gradient, after averaging across the copies. Collective if there
  // are copies.
  void finish_reduce(ShardGroup* copies);
  void scale_gradients(double factor);
  // Gives the shards their part of the chunk's gradient, where `used` is true.
  void expose_gradients(const std::vector<bool>& used);
  bool has_whole_gradients() const;
  size_t ready = 0;      // slots whose gradient has arrived in this backward
  bool reduced = false;  // start_reduce was called in this backward

  // Bytes.
  int64_t owned_bytes() const;
  int64_t whole_bytes() const;

 private:
  struct Reduction {
    PendingCollective pending;
    at::Tensor chunk, whole, scratch;
  };

  // False: the shard of the master values is a part of the whole ones, in the same memory.
  bool has_own_master() const;
  at::Tensor piece_of(const at::Tensor& chunk, const ParameterSlot& slot) const;
  void add_to_gradient(const at::Tensor& chunk);

  UnitLayout layout_;
  const Options options_;
  ShardGroup& group_;
  BufferPool& pool_;
  const std::string subject_, gathers_, reduces_;
  const int64_t chunk_;
  const at::ScalarType dtype_;  // of the module's parameters
  GuardedStorage storage_;
  std::vector<ParameterSlot> slots_;
  size_t trained_ = 0;
  // [chunk], what this rank owns; a view of whole_ if that is kept in the same dtype.
  at::Tensor master_;
  at::Tensor whole_;        // [padded], of compute_dtype; undefined while sharded
  at::Tensor gradient_;     // [chunk], of the master's dtype
  bool unexposed_ = false;  // it has values that expose_gradients has not published yet
  PendingCollective gathering_;
  std::vector<Reduction> reductions_;
};

}  // namespace muster
