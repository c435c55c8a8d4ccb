// The program that reshard_test runs as ranks: shard_ranks SCENARIO MODE DIRECTORY. The tensors are
// sharded as in training: those of one dtype are concatenated in a flat buffer, which is padded to
// equal chunks, one per rank. It prints lines "name value" and exits with 0 unless an exception
// escapes.
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "checkpoint/checkpoint_reader.h"
#include "muster/base/errors.h"
#include "saving_rank.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

struct Case {
  const char* name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
};

// Sizes that put chunk boundaries inside rows; tensors smaller than the number of ranks; 0-d and
// empty tensors. reshard_test's Python program has the same.
const Case kCases[] = {
    {"matrix", at::kFloat, {13, 7}},       {"bias", at::kFloat, {7}},
    {"cube", at::kFloat, {3, 5, 7}},       {"scalar", at::kFloat, {}},
    {"empty", at::kFloat, {0, 4}},         {"single", at::kFloat, {1}},
    {"half", at::kBFloat16, {5, 3}},       {"half_row", at::kBFloat16, {1, 11, 1}},
    {"fp16", at::kHalf, {9, 2}},           {"counts", at::kLong, {17}},
    {"double", at::kDouble, {2, 3, 1, 5}}, {"mask", at::kBool, {3, 3}},
};

int64_t numel(const Case& one) { return c10::multiply_integers(one.shape); }

at::Tensor values(const Case& one, int64_t origin) {
  const at::Tensor numbers = (torch::arange(numel(one)) + origin).remainder(100);
  const at::Tensor flat = one.dtype == at::kBool ? numbers.remainder(2) : numbers;
  return flat.to(one.dtype).view(one.shape);
}

// What a rank owns of each tensor.
RangeMap ranges_of(int rank, int world_size) {
  std::map<at::ScalarType, int64_t> totals;
  for (const Case& one : kCases) totals[one.dtype] += numel(one);
  std::map<at::ScalarType, int64_t> offsets;
  RangeMap ranges;
  for (const Case& one : kCases) {
    const int64_t chunk = (totals[one.dtype] + world_size - 1) / world_size;
    int64_t& offset = offsets[one.dtype];
    const int64_t begin = std::clamp<int64_t>(chunk * rank - offset, 0, numel(one));
    const int64_t end = std::clamp<int64_t>(chunk * (rank + 1) - offset, 0, numel(one));
    ranges[one.name] = {begin, end - begin, one.shape};
    offset += numel(one);
  }
  return ranges;
}

struct Rank : SavingRank {
  Rank(const std::string& mode, const std::string& directory) : SavingRank(mode, directory) {}

  RangeMap own_ranges() const { return ranges_of(topology.rank, topology.world_size); }

  // `tensor_of` returns the values of each tensor: all of them, or this rank's range.
  template <typename TensorOf>
  CheckpointContent content(int64_t step, int64_t origin, TensorOf tensor_of) const {
    CheckpointContent content;
    content.manifest.step = step;
    content.manifest.data.push_back({1, 2, origin, -1, {}});
    content.own["rng_cpu"] = torch::full({16}, topology.rank, at::kByte);
    if (topology.rank == 0) content.global["scheduler/last_step"] = torch::tensor(step);
    tensor_of(content);
    return content;
  }

  CheckpointContent sharded(int64_t step, int64_t origin, const TensorSource& source) const {
    return content(step, origin, [&](CheckpointContent& content) {
      const RangeSource parts(source, own_ranges());
      for (const auto& [name, range] : own_ranges()) {
        // Some ranks name the empty ones, some do not.
        if (range.count == 0 && (name != "empty" || topology.rank == 1)) continue;
        content.shards["model/" + name] = {parts.read(name), range.shape, range.begin};
      }
    });
  }

  CheckpointContent whole(int64_t step, int64_t origin, const TensorSource& source) const {
    return content(step, origin, [&](CheckpointContent& content) {
      if (topology.rank != 0) return;
      for (const Case& one : kCases) {
        content.global[std::string("model/") + one.name] = source.read(one.name);
      }
    });
  }

  static MapSource fresh(int64_t origin) {
    TensorMap tensors;
    for (const Case& one : kCases) tensors[one.name] = values(one, origin);
    return MapSource(tensors);
  }

  void save(const CheckpointContent& content) {
    if (asynchronous) {
      if (content.manifest.step == 1) saver->reserve(content);
      saver->save(content, kNoWorker);
      // The copies are done: later changes by training must not be visible.
      for (const auto& [name, shard] : content.shards) at::Tensor(shard.values).zero_();
      saver->wait();
    } else {
      saver->save_now(content, kNoWorker);
    }
  }

  std::optional<CheckpointReader> open() const {
    const char* path = std::getenv("RESUME_FROM");
    return open_checkpoint(path == nullptr ? "" : path, directory, topology, group);
  }
};

bool whole_is(const TensorSource& model, const Case& one, int64_t origin) {
  const at::Tensor expected = values(one, origin);
  const at::Tensor read = model.read(one.name);
  bool same =
      read.scalar_type() == one.dtype && read.sizes() == expected.sizes() && read.equal(expected);
  const at::Tensor target = torch::zeros_like(expected);
  model.read_into(one.name, target);
  same = same && target.equal(expected);
  // Columns of a larger tensor, of a different dtype.
  std::vector<int64_t> larger = one.shape;
  if (!larger.empty()) larger.back() *= 2;
  at::Tensor apart = torch::zeros(larger, at::kDouble);
  if (!larger.empty()) apart = apart.narrow(-1, 0, one.shape.back());
  model.read_into(one.name, apart);
  return same && apart.equal(expected.to(at::kDouble));
}

bool range_is(const RangeSource& parts, const Case& one, const TensorRange& range, int64_t origin) {
  const at::Tensor expected = values(one, origin).reshape({-1}).narrow(0, range.begin, range.count);
  bool same = parts.find(one.name)->shape == std::vector<int64_t>{range.count} &&
              parts.read(one.name).equal(expected);
  const at::Tensor converted = torch::zeros({range.count}, at::kDouble);
  parts.read_into(one.name, converted);
  same = same && converted.equal(expected.to(at::kDouble));
  const at::Tensor strided = torch::zeros({range.count, 2}, one.dtype).select(1, 0);
  parts.read_range(one.name, 0, strided);
  same = same && strided.equal(expected);
  const at::Tensor tail = torch::zeros({range.count / 2}, one.dtype);
  parts.read_range(one.name, range.count - range.count / 2, tail);
  return same && tail.equal(expected.narrow(0, range.count - range.count / 2, range.count / 2));
}

// Reads everything both ways.
void load(Rank& rank) {
  const auto reader = rank.open();
  if (!reader) return say("step", "none");
  say("step", std::to_string(reader->manifest().step));
  std::string wrong;
  together(rank.group, [&] {
    const int64_t origin = reader->manifest().data.at(0).consumed;
    const auto model = reader->under("model");
    const RangeMap ranges = rank.own_ranges();
    const RangeSource parts(*model, ranges, reader->path());
    for (const Case& one : kCases) {
      if (!whole_is(*model, one, origin)) wrong += std::string(" whole ") + one.name;
      if (!range_is(parts, one, ranges.at(one.name), origin)) {
        wrong += std::string(" range ") + one.name;
      }
    }
    const bool scheduler =
        reader->read("scheduler").at("last_step").item<int64_t>() == reader->manifest().step;
    if (!scheduler) wrong += " scheduler";
  });
  say("wrong", wrong.empty() ? "nothing" : wrong);
}

// Saves the newest checkpoint's contents in the other form.
void convert(Rank& rank, bool to_shards) {
  const auto reader = rank.open();
  const int64_t step = reader->manifest().step + 1;
  const int64_t origin = reader->manifest().data.at(0).consumed;
  const auto model = reader->under("model");
  rank.save(to_shards ? rank.sharded(step, origin, *model) : rank.whole(step, origin, *model));
}

// Damages rank 1's contribution.
void damage(CheckpointContent& content, const std::string& fault) {
  const auto own = content.shards.find("model/cube");
  if (own == content.shards.end()) throw Error("this rank has nothing of cube");
  TensorShard& shard = own->second;
  const int64_t count = shard.values.numel();
  if (fault == "hole") shard.values = shard.values.narrow(0, 0, count - 1);
  if (fault == "overlap") shard.values = torch::zeros({count + 1});
  if (fault == "shape") shard.shape = {5, 3, 7};
  if (fault == "dtype") shard.values = shard.values.to(at::kDouble);
  if (fault == "outside") shard.begin = 100;
  if (fault == "twice") content.global["model/cube"] = torch::zeros({3, 5, 7});
}

// All saves except the first and the last are rejected.
void faulty(Rank& rank) {
  rank.save(rank.sharded(1, 1, Rank::fresh(1)));
  int64_t step = 1;
  for (const char* fault : {"hole", "overlap", "shape", "dtype", "outside", "twice"}) {
    CheckpointContent content = rank.sharded(++step, 2, Rank::fresh(2));
    if (rank.topology.rank == 1) damage(content, fault);
    try {
      rank.save(content);
    } catch (const CheckpointError& error) {
      say(fault, error.what());
    }
  }
  rank.save(rank.sharded(++step, 3, Rank::fresh(3)));
}

void run(const std::string& scenario, Rank& rank) {
  if (scenario == "save_shards") rank.save(rank.sharded(1, 1, Rank::fresh(1)));
  if (scenario == "save_whole") rank.save(rank.whole(1, 1, Rank::fresh(1)));
  if (scenario == "load" || scenario.starts_with("to_")) load(rank);
  if (scenario == "to_shards") convert(rank, true);
  if (scenario == "to_whole") convert(rank, false);
  if (scenario == "faulty") faulty(rank);
  if (scenario == "killed") {
    rank.save(rank.sharded(1, 1, Rank::fresh(1)));
    rank.deadly = true;
    rank.save(rank.sharded(2, 2, Rank::fresh(2)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    Rank rank(argv[2], argv[3]);
    run(argv[1], rank);
  } catch (const std::exception& error) {
    say("error", error.what());
    return 1;
  }
  return 0;
}
