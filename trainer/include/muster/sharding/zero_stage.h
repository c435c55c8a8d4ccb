// Which parts of a model's state are sharded across the ranks. No LibTorch.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace muster {

// Source: ZeRO (Rajbhandari et al., arXiv 1910.02054), section 5. Each stage shards what the
// previous one shards, plus one more part of the state.
enum class ZeroStage : std::uint8_t {
  none,   // DDP: every rank holds everything
  zero1,  // optimizer state (and fp32 master weights)
  zero2,  // and gradients
  zero3,  // and parameters, as FSDP's FULL_SHARD
};

// "none", "zero1", "zero2", "zero3".
constexpr const char* zero_stage_name(ZeroStage stage) {
  switch (stage) {
    case ZeroStage::none:
      return "none";
    case ZeroStage::zero1:
      return "zero1";
    case ZeroStage::zero2:
      return "zero2";
    case ZeroStage::zero3:
      return "zero3";
  }
  return "unknown";
}

// The reverse. Throws std::invalid_argument for other names.
inline ZeroStage parse_zero_stage(std::string_view name) {
  using enum ZeroStage;
  for (const ZeroStage stage : {none, zero1, zero2, zero3}) {
    if (name == zero_stage_name(stage)) return stage;
  }
  throw std::invalid_argument("sharding stage '" + std::string(name) +
                              "' is not one of none, zero1, zero2, zero3");
}

}  // namespace muster
