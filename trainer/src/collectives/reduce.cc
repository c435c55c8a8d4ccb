// Reductions: of tensors, and of many numbers at once.
#include <map>

#include "collectives/collectives.h"
#include "device/device_driver.h"
#include "muster/base/errors.h"
#include "parallel/ordered_bits.h"

namespace muster {
namespace {

// Tensors of up to this many elements share one all-reduce with others of the same kind: below this
// the round trip costs more than the copies.
constexpr int64_t kPackedElementsMax = 16'384;

c10d::ReduceOp reduce_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return c10d::ReduceOp::MAX;
    case Reduction::min:
      return c10d::ReduceOp::MIN;
    default:
      return c10d::ReduceOp::SUM;  // mean divides afterwards: not every backend has AVG
  }
}

// The dtype in which a tensor is reduced, without loss: one that nearly every backend supports. Gloo
// has no bool, 16-bit integers, complex numbers or float8, and rounds after each addition of 16-bit
// floats.
at::ScalarType wire_type(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  switch (type) {
    case at::kBool:  // the sum counts; nonzero is true
    case at::kShort:
    case at::kUInt16:
      return at::kInt;
    case at::kUInt32:
      return at::kLong;
    case at::kHalf:
    case at::kBFloat16:
      return tensor.is_cpu() || !collective_takes(tensor.device(), MUSTER_ALL_REDUCE, type)
                 ? at::kFloat
                 : type;
    default:
      return at::isFloat8Type(type) ? at::kFloat : type;
  }
}

bool is_extreme(Reduction reduction) {
  return reduction == Reduction::max || reduction == Reduction::min;
}

// A copy to be reduced in place.
at::Tensor to_wire(const at::Tensor& tensor, Reduction reduction) {
  const at::Tensor own = tensor.detach().resolve_conj().resolve_neg();
  if (own.scalar_type() == at::kUInt64) {
    // Sums modulo 2^64 have the same bits, signed or unsigned.
    return own.clone(at::MemoryFormat::Contiguous).view(at::kLong);
  }
  if (own.is_complex()) {
    const at::ScalarType type =
        own.scalar_type() == at::kComplexHalf ? at::kComplexFloat : own.scalar_type();
    return at::view_as_real(own.to(type, false, true, at::MemoryFormat::Contiguous));
  }
  if (own.is_floating_point() && is_extreme(reduction)) {
    const at::ScalarType type = own.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return ordered_bits(own.to(type), reduction == Reduction::min);
  }
  return own.to(wire_type(own), /*non_blocking=*/false, /*copy=*/true,
                at::MemoryFormat::Contiguous);
}

// What the device's own collectives do not support, the CPU's do.
at::Tensor on_able_device(const at::Tensor& wire) {
  const bool able =
      wire.is_cpu() || collective_takes(wire.device(), MUSTER_ALL_REDUCE, wire.scalar_type());
  return able ? wire : wire.cpu();
}

at::Tensor from_wire(const at::Tensor& reduced, const at::Tensor& like, Reduction reduction) {
  const at::Tensor wire = reduced.to(like.device());
  if (like.is_floating_point() && is_extreme(reduction)) {
    return from_ordered_bits(wire).to(like.scalar_type());
  }
  if (like.scalar_type() == at::kUInt64) return wire.view(at::kUInt64);
  if (like.is_complex()) return at::view_as_complex(wire).to(like.scalar_type());
  return wire.to(like.scalar_type());
}

// Reduces the ranks' wire tensors, one per row.
at::Tensor reduced_rows(const at::Tensor& rows, Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return at::amax(rows, 0);
    case Reduction::min:
      return at::amin(rows, 0);
    default:
      return at::sum(rows, 0, /*keepdim=*/false, rows.scalar_type());
  }
}

std::string refused_reduction(const std::vector<at::Tensor>& tensors, Reduction reduction,
                              double scale) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const std::string dtype(c10::getDtypeNames(tensor.scalar_type()).first);
    if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_nested()) {
      return "reduce supports dense tensors only, not " + tensor.toString() +
             ": call to_dense() or dequantize() first";
    }
    if (at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true) &&
        (reduction == Reduction::mean || scale != 1.0)) {
      return std::string("reduce: ") + (reduction == Reduction::mean ? "the mean" : "a scale") +
             " of " + dtype + " is not defined: convert to a floating type or take the sum";
    }
    if ((tensor.is_complex() || tensor.scalar_type() == at::kUInt64) &&
        (reduction == Reduction::max || reduction == Reduction::min)) {
      return std::string("reduce: the ") + reduction_name(reduction) + " of " + dtype +
             " is not defined: convert it first";
    }
  }
  return "";
}

}  // namespace

void Collectives::all_reduce(const char* function, const std::vector<at::Tensor>& wires,
                             c10d::ReduceOp op) const {
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  communicate(function, [&] {
    std::vector<std::vector<at::Tensor>> in_flight;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (const at::Tensor& wire : wires) {
      if (wire.numel() == 0) continue;
      in_flight.push_back({wire});
      works.push_back(backend(wire).allreduce(in_flight.back(), options));
    }
    for (const auto& work : works) work->wait();
  });
}

// Reduces the wire tensors in place: small ones of one dtype and device type together, the rest one
// by one.
void Collectives::reduce_wires(std::vector<at::Tensor>& wires, c10d::ReduceOp op) const {
  std::map<std::pair<at::ScalarType, at::DeviceType>, std::vector<at::Tensor>> small;
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& wire : wires) {
    if (!wire.defined()) continue;
    if (wire.numel() <= kPackedElementsMax) {
      small[{wire.scalar_type(), wire.device().type()}].push_back(wire);
    } else {
      buffers.push_back(wire);
    }
  }
  std::vector<std::pair<at::Tensor, std::vector<at::Tensor>>> packs;
  for (const auto& [kind, members] : small) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& wire : members) flat.push_back(wire.view({-1}));
    packs.emplace_back(members.size() == 1 ? flat[0] : at::cat(flat), flat);
    buffers.push_back(packs.back().first);
  }
  all_reduce("reduce", buffers, op);
  for (const auto& [pack, members] : packs) {
    if (members.size() == 1) continue;
    int64_t begin = 0;
    for (const at::Tensor& member : members) {
      member.copy_(pack.narrow(0, begin, member.numel()));
      begin += member.numel();
    }
  }
}

std::vector<at::Tensor> Collectives::reduce(const std::vector<at::Tensor>& tensors,
                                            Reduction reduction, double scale) {
  const at::NoGradGuard no_grad;
  const std::string refused = refused_reduction(tensors, reduction, scale);
  std::vector<at::Tensor> wires(tensors.size());
  for (size_t i = 0; i < tensors.size() && refused.empty(); ++i) {
    if (!tensors[i].defined()) continue;
    wires[i] = to_wire(tensors[i], reduction);
    if (group_) wires[i] = on_able_device(wires[i]);
  }
  const std::vector<at::Tensor> travelled =
      agree({.function = "reduce",
             .options = scale == 1.0 ? std::string(reduction_name(reduction))
                                     : c10::str(reduction_name(reduction), " times ", scale),
             .tensors = &tensors,
             .refused = refused},
            wires);
  if (group_ && travelled.empty()) reduce_wires(wires, reduce_op(reduction));
  std::vector<at::Tensor> results(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!wires[i].defined()) continue;
    if (!travelled.empty()) wires[i].copy_(reduced_rows(travelled[i], reduction));
    if (reduction == Reduction::mean && world_size_ > 1) wires[i].div_(world_size_);
    if (scale != 1.0 && !is_extreme(reduction)) wires[i].mul_(scale);
    results[i] = from_wire(wires[i], tensors[i], reduction);
    if (scale != 1.0 && is_extreme(reduction)) results[i].mul_(scale);
  }
  return results;
}

PackedReduction Collectives::start_reduce(const std::vector<at::Tensor>& numbers,
                                          Reduction reduction) {
  const at::NoGradGuard no_grad;
  std::string refused;
  bool all_on_cpu = device_.is_cpu();
  for (const at::Tensor& number : numbers) {
    if (!number.defined() || number.numel() != 1 || number.is_complex()) {
      refused = "start_reduce supports real tensors of one element, not " +
                (number.defined() ? c10::str(number.toString(), " ", number.sizes())
                                  : std::string("an undefined one"));
    }
    all_on_cpu = all_on_cpu && number.is_cpu();
  }
  const Call call{.function = "reduce_packed",
                  .options = std::string(reduction_name(reduction)) + " of " +
                             std::to_string(numbers.size()) + " numbers",
                  .refused = refused};
  if (debug_) agree(call);
  if (!refused.empty()) throw std::invalid_argument(refused);

  PackedReduction started;
  started.owner_ =
      "reduce_packed on rank " + std::to_string(rank_) + " of " + std::to_string(world_size_);
  if (reduction == Reduction::mean) started.divisor_ = world_size_;
  const bool has_double = collective_takes(device_, MUSTER_ALL_REDUCE, at::kDouble);
  const auto count = static_cast<int64_t>(numbers.size());
  started.packed_ =
      at::empty({count}, at::device(device_).dtype(has_double ? at::kDouble : at::kFloat));
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor number = numbers[static_cast<size_t>(i)].detach();
    if (all_on_cpu && has_double) {
      started.packed_.mutable_data_ptr<double>()[i] = number.item<double>();
    } else {
      started.packed_.select(0, i).copy_(number.reshape({}), /*non_blocking=*/true);
    }
  }
  if (count == 0) return started;
  if (group_ && is_extreme(reduction)) {
    started.packed_ = ordered_bits(started.packed_, reduction == Reduction::min);
  }
  if (group_) {
    c10d::AllreduceOptions options;
    options.reduceOp = reduce_op(reduction);
    started.in_flight_ = {started.packed_};
    communicate("reduce_packed", [&] {
      started.work_ = backend(started.packed_).allreduce(started.in_flight_, options);
    });
  }
  started.copy_to_host_when_ordered(group_ ? backend(started.packed_).getBackendName() : "");
  return started;
}

// If the backend's wait() only orders streams, the copy to the host is queued at once, and nothing
// waits for the device before finish(). Gloo's wait() blocks the host, so it stays in finish().
void PackedReduction::copy_to_host_when_ordered(const std::string& backend) {
  if (packed_.is_cpu() || backend == "gloo") return;
  if (work_) {
    work_->wait();
    work_.reset();
  }
  on_host_ = at::empty(packed_.sizes(),
                       packed_.options().device(at::kCPU).pinned_memory(has_pinned_memory()));
  on_host_.copy_(packed_, /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl device(packed_.device().type());
  copied_ = std::make_shared<c10::Event>(packed_.device().type());
  copied_->record(device.getStream(packed_.device()));
}

bool PackedReduction::ready() const {
  if (copied_) return copied_->query();
  return !work_ || work_->isCompleted();
}

std::vector<double> PackedReduction::finish() {
  if (!packed_.defined()) throw Error("PackedReduction::finish: called twice");
  if (work_) {
    try {
      work_->wait();
    } catch (const std::exception& error) {
      throw CommunicationError(owner_ + " failed: " + error.what());
    }
  }
  if (copied_) copied_->synchronize();
  at::Tensor values = copied_ ? on_host_ : packed_;
  if (!values.is_floating_point()) values = from_ordered_bits(values);
  values = values.to(at::kCPU, at::kDouble);
  const auto* data = values.const_data_ptr<double>();
  std::vector<double> results(data, data + values.numel());
  for (double& result : results) result /= divisor_;
  packed_.reset();
  return results;
}

}  // namespace muster
