// See muster/sharding/memory_estimate.h, which has the formulas.
#include "muster/sharding/memory_estimate.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>

namespace muster {
namespace {

int64_t numel(const MemoryUnit& unit) { return unit.trainable + unit.frozen; }

void require(bool holds, const std::string& field, int64_t value, const char* wanted) {
  if (holds) return;
  throw std::invalid_argument("MemoryPlan::" + field + " is " + std::to_string(value) +
                              ", but must be " + wanted);
}

void require_valid(const MemoryUnit& unit, const std::string& field) {
  require(unit.trainable >= 0, field + ".trainable", unit.trainable, "0 or more");
  require(unit.frozen >= 0, field + ".frozen", unit.frozen, "0 or more");
  require(unit.largest_tensor >= 0 && unit.largest_tensor <= numel(unit), field + ".largest_tensor",
          unit.largest_tensor, "at most the parameters of the unit");
}

void require_valid(const MemoryPlan& plan) {
  require_valid(plan.root, "root");
  for (const MemoryUnit& unit : plan.units) require_valid(unit, "units[" + unit.name + "]");
  const auto bytes = [](const char* field, int value, int least, int most, const char* wanted) {
    require(value >= least && value <= most, field, value, wanted);
  };
  bytes("parameter_bytes", plan.parameter_bytes, 1, 16, "1 to 16");
  bytes("master_bytes", plan.master_bytes, 1, 16, "1 to 16");
  bytes("gradient_bytes", plan.gradient_bytes, 1, 16, "1 to 16");
  bytes("reduce_bytes", plan.reduce_bytes, 1, 16, "1 to 16");
  bytes("autocast_bytes", plan.autocast_bytes, 0, 16, "0 to 16");
  bytes("optimizer_bytes", plan.optimizer_bytes, 0, 64, "0 to 64");
  require(plan.world_size >= 1, "world_size", plan.world_size, "1 or more");
  require(plan.shard_group_size >= 0, "shard_group_size", plan.shard_group_size, "0 or more");
  require(plan.shard_group_size == 0 || plan.world_size % plan.shard_group_size == 0,
          "shard_group_size", plan.shard_group_size, "a divisor of world_size");
}

// The sums of the formulas, in elements.
struct Sums {
  int64_t all = 0, trained = 0;                       // P, T
  int64_t chunks = 0, trained_chunks = 0, owned = 0;  // C, C_t, O
  int64_t root_chunk = 0;
  std::vector<int64_t> unit_chunks;                  // of all but the root, largest first
  int64_t unit_trained = 0, unit_trained_chunk = 0;  // of the largest units that train
  int64_t largest_tensor = 0;
};

Sums sum_up(const MemoryPlan& plan, int64_t shards) {
  Sums sums;
  const auto chunk_of = [&](const MemoryUnit& unit) { return (numel(unit) + shards - 1) / shards; };
  const auto add = [&](const MemoryUnit& unit) {
    const int64_t chunk = chunk_of(unit);
    sums.all += numel(unit);
    sums.trained += unit.trainable;
    sums.chunks += chunk;
    if (unit.trainable > 0) sums.trained_chunks += chunk;
    sums.owned += std::min(chunk, unit.trainable);
    sums.largest_tensor =
        std::max(sums.largest_tensor, unit.largest_tensor > 0 ? unit.largest_tensor : numel(unit));
  };
  add(plan.root);
  sums.root_chunk = chunk_of(plan.root);
  for (const MemoryUnit& unit : plan.units) {
    add(unit);
    sums.unit_chunks.push_back(chunk_of(unit));
    if (unit.trainable == 0) continue;
    sums.unit_trained = std::max(sums.unit_trained, unit.trainable);
    sums.unit_trained_chunk = std::max(sums.unit_trained_chunk, chunk_of(unit));
  }
  std::sort(sums.unit_chunks.begin(), sums.unit_chunks.end(), std::greater<>());
  return sums;
}

// Chunks of the units that are unsharded at the same time.
int64_t gathered_chunks(const MemoryPlan& plan, const Sums& sums) {
  if (!plan.reshard_after_forward) return sums.chunks;
  const size_t most = plan.prefetch ? 2 : 1;
  int64_t chunks = sums.root_chunk;
  for (size_t i = 0; i < std::min(most, sums.unit_chunks.size()); ++i)
    chunks += sums.unit_chunks[i];
  return chunks;
}

int64_t communication(const MemoryPlan& plan, const Sums& sums, int64_t shards) {
  if (plan.stage == ZeroStage::none || plan.stage == ZeroStage::zero1) {
    return plan.gradient_as_bucket_view ? 0 : plan.reduce_bytes * sums.trained;
  }
  const int64_t wholes = plan.emulated_reduce_scatter ? 2 : 1;
  const auto buffers = [&](int64_t chunk) {
    return plan.reduce_bytes * (wholes * shards + 1) * chunk;
  };
  const int64_t root = plan.root.trainable;
  const int64_t root_chunk = root > 0 ? sums.root_chunk : 0;
  if (plan.accumulates_whole_gradients) {
    return plan.gradient_bytes * sums.trained +
           buffers(std::max(root_chunk, sums.unit_trained_chunk));
  }
  // While a unit is in flight, and the root at the end.
  return std::max(
      plan.gradient_bytes * (root + sums.unit_trained) + buffers(sums.unit_trained_chunk),
      plan.gradient_bytes * root + buffers(root_chunk));
}

// "12.3 GiB", at most 10 characters.
std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

std::string ranks_text(int ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

// The note beside each row's number, by stage.
struct Notes {
  const char *parameters, *gradients, *optimizer, *gathered, *communication;
};

Notes notes_of(ZeroStage stage) {
  switch (stage) {
    case ZeroStage::none:
      return {"unsharded", "unsharded", "unsharded", "copies made by autocast", "buckets"};
    case ZeroStage::zero1:
      return {"unsharded; master chunk if separate", "unsharded", "one chunk",
              "copies made by autocast", "buckets"};
    case ZeroStage::zero2:
      return {"unsharded; master chunk if separate", "one chunk", "one chunk",
              "copies made by autocast", "gradients being reduced"};
    case ZeroStage::zero3:
      return {"one chunk", "one chunk", "one chunk", "peak: root and the units in use",
              "gradients being reduced"};
  }
  return {};
}

}  // namespace

MemoryEstimate estimate_memory(const MemoryPlan& plan) {
  require_valid(plan);
  const bool sharded = plan.stage != ZeroStage::none;
  const int group = plan.shard_group_size == 0 ? plan.world_size : plan.shard_group_size;
  MemoryEstimate estimate;
  estimate.stage = plan.stage;
  estimate.world_size = plan.world_size;
  estimate.shards = sharded ? group : 1;
  const int64_t shards = estimate.shards;
  const Sums sums = sum_up(plan, shards);
  const bool master_apart = plan.parameter_bytes != plan.master_bytes;
  switch (plan.stage) {
    case ZeroStage::none:
      estimate.parameters = plan.master_bytes * sums.all;
      break;
    case ZeroStage::zero1:
    case ZeroStage::zero2:
      estimate.parameters = plan.parameter_bytes * shards * sums.chunks +
                            (master_apart ? plan.master_bytes * sums.chunks : 0);
      break;
    case ZeroStage::zero3:
      estimate.parameters = plan.master_bytes * sums.chunks;
      break;
  }
  if (plan.stage == ZeroStage::none || plan.stage == ZeroStage::zero1) {
    const bool chunk_apart = sharded && plan.gradient_bytes != plan.master_bytes;
    estimate.gradients = plan.gradient_bytes * sums.trained +
                         (chunk_apart ? plan.master_bytes * sums.trained_chunks : 0);
  } else {
    estimate.gradients = plan.master_bytes * sums.trained_chunks;
  }
  estimate.optimizer_state = plan.optimizer_bytes * (sharded ? sums.owned : sums.trained);
  if (plan.stage == ZeroStage::zero3) {
    estimate.gathered =
        (plan.parameter_bytes + plan.autocast_bytes) * shards * gathered_chunks(plan, sums);
  } else {
    estimate.gathered = plan.autocast_bytes * sums.all;
  }
  estimate.communication = communication(plan, sums, shards);
  estimate.whole_tensor = plan.master_bytes * sums.largest_tensor;
  return estimate;
}

std::string MemoryEstimate::text() const {
  std::string result = std::string(zero_stage_name(stage)) + ", " + ranks_text(world_size);
  if (shards > 1 && shards < world_size) result += ", one copy per " + ranks_text(shards);
  result += "; per rank, without activations\n";
  const Notes notes = notes_of(stage);
  const auto row = [&](const char* name, int64_t bytes, const char* note) {
    char line[128];
    const double share = total() > 0 ? 100.0 * static_cast<double>(bytes) / total() : 0;
    std::snprintf(line, sizeof(line), "  %-15s %11s  %3.0f %%  %s\n", name,
                  size_text(bytes).c_str(), share, note);
    result += line;
  };
  row("parameters", parameters, notes.parameters);
  row("gradients", gradients, notes.gradients);
  row("optimizer state", optimizer_state, notes.optimizer);
  if (gathered > 0) row("gathered", gathered, notes.gathered);
  if (communication > 0) row("communication", communication, notes.communication);
  row("total", total(), "on the rank that holds the most");
  result +=
      "  (and " + size_text(whole_tensor) + " for one unsharded tensor at a time, in save_model)\n";
  return result;
}

int optimizer_state_bytes(std::string_view optimizer) {
  constexpr struct {
    std::string_view name;
    int bytes;
  } kKnown[] = {{"adam", 8},         {"adamw", 8},   {"amsgrad", 12}, {"sgd", 0},
                {"sgd_momentum", 4}, {"adagrad", 4}, {"rmsprop", 4}};
  for (const auto& known : kKnown) {
    if (known.name == optimizer) return known.bytes;
  }
  throw std::invalid_argument("unknown optimizer '" + std::string(optimizer) +
                              "': use adam, adamw, amsgrad, sgd, sgd_momentum, " +
                              "adagrad or rmsprop, or set MemoryPlan::optimizer_bytes");
}

std::vector<MemoryFit> fits(const MemoryPlan& plan, int64_t bytes, int most_ranks) {
  const int step = std::max(plan.shard_group_size, 1);
  if (most_ranks < step) {
    throw std::invalid_argument("fits: most_ranks is " + std::to_string(most_ranks) +
                                ", but must be at least " + std::to_string(step));
  }
  std::vector<MemoryFit> found;
  MemoryPlan tried = plan;
  for (const ZeroStage stage :
       {ZeroStage::none, ZeroStage::zero1, ZeroStage::zero2, ZeroStage::zero3}) {
    tried.stage = stage;
    MemoryFit fit{stage, 0, {}};
    // More ranks do not always need less memory: with few parameters the padding may grow.
    for (int ranks = step; ranks <= most_ranks && fit.world_size == 0; ranks += step) {
      tried.world_size = ranks;
      fit.estimate = estimate_memory(tried);
      if (fit.estimate.total() <= bytes) fit.world_size = ranks;
    }
    found.push_back(std::move(fit));
  }
  return found;
}

std::string fits_text(const std::vector<MemoryFit>& found, int64_t bytes) {
  std::string result = "in " + size_text(bytes) + " per rank, without activations\n";
  for (const MemoryFit& fit : found) {
    const std::string needs = size_text(fit.estimate.total());
    char line[128];
    if (fit.world_size > 0) {
      std::snprintf(line, sizeof(line), "  %-6s fits on %s: %s each\n", zero_stage_name(fit.stage),
                    ranks_text(fit.world_size).c_str(), needs.c_str());
    } else {
      std::snprintf(line, sizeof(line), "  %-6s does not fit: %s each with %s\n",
                    zero_stage_name(fit.stage), needs.c_str(),
                    ranks_text(fit.estimate.world_size).c_str());
    }
    result += line;
  }
  return result;
}

bool offer_estimate(const MemoryPlan& plan) {
  const char* asked = std::getenv("MUSTER_ESTIMATE");
  if (asked == nullptr || std::string_view(asked) != "1") return false;
  std::printf("{\"muster_estimate\": 1, \"bytes_per_rank\": %lld}\n",
              static_cast<long long>(estimate_memory(plan).total()));
  std::fflush(stdout);
  return true;
}

}  // namespace muster
