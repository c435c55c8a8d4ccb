// See left_shards.h.
#include "sharding/left_shards.h"

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sharding/first_use.h"

namespace muster {
namespace {

struct LeftParameter {
  at::Tensor tensor;
  int64_t offset = 0;  // in the unit, in elements
  std::vector<int64_t> sizes;
};

struct LeftUnit {
  LeftShard shard;
  std::vector<LeftParameter> parameters;
};

std::vector<LeftUnit> left_units(torch::nn::Module& module) {
  std::vector<LeftUnit> units;
  std::unordered_map<const c10::StorageImpl*, size_t> index;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& parameter = item.value();
    if (!parameter.defined()) continue;
    ShardOwner* owner = nullptr;
    GuardedStorage::left_with(parameter, &owner);
    if (owner != nullptr) owner->leave();
    const LeftShard* shard = GuardedStorage::left_with(parameter, &owner);
    if (shard == nullptr) continue;
    const auto [place, is_new] =
        index.emplace(parameter.storage().unsafeGetStorageImpl(), units.size());
    if (is_new) units.push_back({*shard, {}});
    units[place->second].parameters.push_back(
        {parameter, parameter.storage_offset(), parameter.sizes().vec()});
  }
  return units;
}

at::Tensor gathered(const LeftShard& shard, const ProcessGroupPtr& group, at::Device device) {
  if (shard.ranks == 1) return shard.chunk;
  const int64_t chunk = shard.chunk.numel();
  const at::Tensor whole = at::empty({chunk * shard.ranks}, shard.chunk.options());
  whole.narrow(0, chunk * shard.rank, chunk).copy_(shard.chunk);
  for (int root = 0; root < shard.ranks; ++root) {
    std::vector<at::Tensor> part = {whole.narrow(0, chunk * root, chunk)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group->getBackend(device.type())->broadcast(part, options)->wait();
  }
  return whole;
}

}  // namespace

std::function<void(const PlaceValue&)> take_left_shards(torch::nn::Module& module,
                                                        const ProcessGroupPtr& group,
                                                        at::Device device) {
  auto units = std::make_shared<std::vector<LeftUnit>>(left_units(module));
  if (units->empty()) return {};
  for (const LeftUnit& unit : *units) {
    for (const LeftParameter& parameter : unit.parameters) {
      const at::Tensor nothing =
          at::empty(parameter.sizes, at::dtype(unit.shard.dtype).device(at::kMeta));
      parameter.tensor.unsafeGetTensorImpl()->shallow_copy_from(nothing.getIntrusivePtr());
      at::Tensor(parameter.tensor).mutable_grad().reset();
    }
  }
  return [units, group, device](const PlaceValue& place) {
    const torch::NoGradGuard no_grad;
    for (LeftUnit& unit : *units) {
      const at::Tensor whole = gathered(std::exchange(unit.shard, {}), group, device);
      for (const LeftParameter& parameter : unit.parameters) {
        const int64_t numel = c10::multiply_integers(parameter.sizes);
        place(parameter.tensor, whole.narrow(0, parameter.offset, numel)
                                    .view(parameter.sizes)
                                    .to(parameter.tensor.scalar_type(), /*non_blocking=*/false,
                                        /*copy=*/true));
      }
    }
  };
}

}  // namespace muster
