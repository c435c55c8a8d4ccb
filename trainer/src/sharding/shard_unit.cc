// Parameters and gradients of a unit; see shard_unit.h.
#include "sharding/shard_unit.h"

#include <algorithm>

namespace muster {
namespace {

at::ScalarType master_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

ShardUnit::ShardUnit(UnitLayout layout, const Options& options, ShardGroup& group, BufferPool& pool,
                     ShardOwner& owner)
    : layout_(std::move(layout)),
      options_(options),
      group_(group),
      pool_(pool),
      subject_("unit " + std::to_string(options.number)),
      gathers_("unit '" + layout_.name +
               "' is gathered, as this rank uses it: under zero3 all "
               "ranks use the same units in the same order, zero2 gathers none"),
      reduces_("unit '" + layout_.name +
               "' has its gradients: all ranks' losses depend on the same "
               "units, or find_unused_parameters is set"),
      chunk_(layout_.chunk(group.size())),
      dtype_(layout_.parameters.front().tensor.scalar_type()),
      storage_(owner, options.number,
               layout_.padded * static_cast<int64_t>(c10::elementSize(options.compute_dtype)),
               options.device) {
  const torch::NoGradGuard no_grad;
  const auto on_device = at::dtype(options_.compute_dtype).device(options_.device);
  if (options_.keeps_whole) whole_ = at::zeros({layout_.padded}, on_device);
  const bool shares = options_.keeps_whole && options_.compute_dtype == master_dtype(dtype_);
  master_ = shares ? whole_.narrow(0, chunk_ * group_.rank(), chunk_)
                   : at::zeros({chunk_}, on_device.dtype(master_dtype(dtype_)));
  slots_.reserve(layout_.parameters.size());
  for (UnitParameter& parameter : layout_.parameters) {
    ParameterSlot slot{
        .parameter = parameter, .unit = options_.number, .shape = parameter.tensor.sizes().vec()};
    slot.range = range_in_chunk(parameter.offset, parameter.numel(), chunk_, group_.rank());
    slot.trained = parameter.tensor.requires_grad();
    {
      const at::AutoDispatchBelowADInplaceOrView plain;  // as in place()
      slot.piece = piece_of(master_, slot);
    }
    slot.piece.set_requires_grad(slot.trained);
    if (slot.trained) ++trained_;
    if (!parameter.tensor.is_meta()) place(slot, parameter.tensor);
    slots_.push_back(std::move(slot));
  }
  if (options_.keeps_whole) storage_.set_memory(whole_);
}

bool ShardUnit::has_own_master() const {
  return !options_.keeps_whole || !master_.is_alias_of(whole_);
}

at::Tensor ShardUnit::piece_of(const at::Tensor& chunk, const ParameterSlot& slot) const {
  const int64_t start = slot.parameter.offset + slot.range.begin - chunk_ * group_.rank();
  return chunk.narrow(0, slot.range.count == 0 ? 0 : start, slot.range.count);
}

void ShardUnit::place(ParameterSlot& slot, const at::Tensor& value) {
  const torch::NoGradGuard no_grad;
  {
    // There may be very many, and no graph has seen the shards yet.
    const at::AutoDispatchBelowADInplaceOrView plain;
    const at::Tensor flat = value.reshape({-1});
    if (options_.keeps_whole) {
      whole_.narrow(0, slot.parameter.offset, flat.numel()).copy_(flat);
    }
    if (has_own_master()) slot.piece.copy_(flat.narrow(0, slot.range.begin, slot.range.count));
  }
  become_view(slot.parameter.tensor,
              storage_.view(options_.compute_dtype, slot.parameter.offset, slot.shape));
}

void ShardUnit::leave() {
  gathering_.wait();
  reductions_.clear();
  for (ParameterSlot& slot : slots_) slot.accumulator = {};
  reshard();
  storage_.leave({master_, group_.size(), group_.rank(), dtype_});
}

void ShardUnit::follow_marks() {
  trained_ = 0;
  for (ParameterSlot& slot : slots_) {
    slot.trained = slot.parameter.tensor.requires_grad();
    slot.piece.set_requires_grad(slot.trained);
    if (slot.trained) ++trained_;
  }
}

void ShardUnit::share_masters(ShardGroup& copies) {
  const torch::NoGradGuard no_grad;
  copies.broadcast(master_).wait();
}

void ShardUnit::start_unshard() {
  if (storage_.has_memory()) return;
  const torch::NoGradGuard no_grad;
  whole_ = pool_.take(layout_.padded, options_.compute_dtype);
  const at::Tensor own = whole_.narrow(0, chunk_ * group_.rank(), chunk_);
  own.copy_(master_);
  gathering_ = group_.all_gather(whole_, own);
  storage_.set_memory(whole_);
  storage_.refuse_direct_reads(gathering_.started());
}

void ShardUnit::finish_unshard() {
  if (!gathering_.started()) return;
  gathering_.wait();
  storage_.refuse_direct_reads(false);
}

void ShardUnit::reshard() {
  if (options_.keeps_whole || !storage_.has_memory()) return;
  gathering_.wait();
  storage_.set_memory({});
  pool_.give_back(whole_);
  whole_.reset();
}

void ShardUnit::start_update() {
  const torch::NoGradGuard no_grad;
  gathering_.wait();
  const at::Tensor own = whole_.narrow(0, chunk_ * group_.rank(), chunk_);
  if (own.data_ptr() != master_.data_ptr()) own.copy_(master_);
  gathering_ = group_.all_gather(whole_, own);
  storage_.refuse_direct_reads(gathering_.started());
}

at::Tensor ShardUnit::gather_masters() {
  const torch::NoGradGuard no_grad;
  const at::Tensor whole = pool_.take(layout_.padded, master_.scalar_type());
  group_.all_gather(whole, master_).wait();
  return whole;
}

void ShardUnit::start_reduce(at::ScalarType dtype, double scale) {
  const torch::NoGradGuard no_grad;
  if (master_.scalar_type() == at::kDouble) dtype = at::kDouble;
  Reduction reduction;
  reduction.whole = pool_.take(layout_.padded, dtype);
  if (group_.needs_scratch()) reduction.scratch = pool_.take(layout_.padded, dtype);
  reduction.chunk = pool_.take(chunk_, dtype);
  int64_t end = 0;
  // Padding is never read, but NaNs in it would slow the sums down.
  const auto clear_until = [&](int64_t begin) {
    if (begin > end) reduction.whole.narrow(0, end, begin - end).zero_();
  };
  const at::Tensor factor = at::scalar_tensor(scale, reduction.whole.options());
  for (ParameterSlot& slot : slots_) {
    clear_until(slot.parameter.offset);
    end = slot.parameter.offset + slot.parameter.numel();
    at::Tensor& parameter = slot.parameter.tensor;
    at::Tensor place =
        reduction.whole.narrow(0, slot.parameter.offset, slot.parameter.numel()).view(slot.shape);
    const at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) {
      place.zero_();
    } else if (gradient.scalar_type() == dtype) {
      at::mul_out(place, gradient, factor);
    } else {
      place.copy_(gradient).mul_(scale);
    }
    parameter.mutable_grad().reset();
  }
  clear_until(layout_.padded);
  reduction.pending = group_.reduce_scatter(reduction.chunk, reduction.whole, reduction.scratch);
  reductions_.push_back(std::move(reduction));
  reduced = true;
}

void ShardUnit::add_to_gradient(const at::Tensor& chunk) {
  const auto is_cleared = [](const ParameterSlot& slot) { return !slot.piece.grad().defined(); };
  const bool adds_to_all = gradient_.defined() && unexposed_;
  unexposed_ = true;
  if (adds_to_all) {
    gradient_.add_(chunk);
    return;
  }
  if (!gradient_.defined() || std::all_of(slots_.begin(), slots_.end(), is_cleared)) {
    if (!gradient_.defined()) gradient_ = at::empty_like(master_);
    gradient_.copy_(chunk);
    return;
  }
  // zero_grad has cleared the gradients of an optimizer's shards, which may be a part of the unit's.
  for (const ParameterSlot& slot : slots_) {
    if (slot.range.count == 0) continue;
    const at::Tensor place = piece_of(gradient_, slot);
    if (is_cleared(slot)) {
      place.copy_(piece_of(chunk, slot));
    } else {
      place.add_(piece_of(chunk, slot));
    }
  }
}

void ShardUnit::scale_gradients(double factor) {
  const torch::NoGradGuard no_grad;
  if (gradient_.defined()) gradient_.mul_(factor);
  for (ParameterSlot& slot : slots_) {
    at::Tensor& whole = slot.parameter.tensor.mutable_grad();
    at::Tensor& part = slot.piece.mutable_grad();
    if (whole.defined()) whole.mul_(factor);
    const bool is_done = (whole.defined() && part.defined() && part.is_alias_of(whole)) ||
                         (gradient_.defined() && part.defined() && part.is_alias_of(gradient_));
    if (part.defined() && !is_done) part.mul_(factor);
  }
}

void ShardUnit::finish_reduce(ShardGroup* copies) {
  const torch::NoGradGuard no_grad;
  for (Reduction& reduction : reductions_) {
    reduction.pending.wait();
    if (copies != nullptr) {
      copies->all_reduce(reduction.chunk, c10d::ReduceOp::SUM).wait();
    }
    add_to_gradient(reduction.chunk);
    for (const at::Tensor& used : {reduction.whole, reduction.scratch, reduction.chunk}) {
      if (used.defined()) pool_.give_back(used);
    }
  }
  reductions_.clear();
}

void ShardUnit::expose_gradients(const std::vector<bool>& used) {
  unexposed_ = false;
  for (size_t i = 0; i < slots_.size(); ++i) {
    ParameterSlot& slot = slots_[i];
    if (!slot.trained || !used[i] || slot.range.count == 0) continue;
    slot.piece.mutable_grad() = piece_of(gradient_, slot);
  }
}

bool ShardUnit::has_whole_gradients() const {
  for (const ParameterSlot& slot : slots_) {
    if (slot.parameter.tensor.grad().defined()) return true;
  }
  return false;
}

int64_t ShardUnit::owned_bytes() const {
  const int64_t whole = options_.keeps_whole ? static_cast<int64_t>(whole_.nbytes()) : 0;
  return whole + (has_own_master() ? static_cast<int64_t>(master_.nbytes()) : 0);
}

int64_t ShardUnit::whole_bytes() const {
  return layout_.padded * static_cast<int64_t>(c10::elementSize(options_.compute_dtype));
}

}  // namespace muster
