// Plans the steps of a pass: which samples, for which ranks. Planning is sequential, and cheap for
// map-style datasets; streams are read here.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "data/epoch_order.h"
#include "muster/data/loader_core.h"
#include "muster/data/sharding.h"

namespace muster {

// A step over all ranks.
struct StepInfo {
  int64_t begin = 0;       // samples of the epoch before this step
  int64_t taken = 0;       // its real samples
  int64_t next_taken = 0;  // real samples of the next step; 0: there is none
};

struct Step {
  StepInfo info;
  // The batch's dataset indices or, for a stream, its slots in `samples` (ShardRule). Empty: none
  // for this rank.
  std::vector<int64_t> picks;
  std::unique_ptr<loader_detail::AnySamples> samples;
};

// The ranks whose samples a process puts into its batches: only its own, or on rank 0 with
// dispatch_batches all.
struct ProducedRanks {
  int first = 0;
  int count = 1;
};

// The slots of these ranks' samples in a step.
std::vector<int64_t> places_of(const ShardRule& rule, ProducedRanks ranks, int64_t taken);

// Steps in order, starting at a position. One thread at a time. next() throws the dataset's
// exceptions, at the step that needs the sample.
class StepReader {
 public:
  virtual ~StepReader() = default;
  virtual std::optional<Step> next() = 0;
  // The index within the epoch of the sample being read when next() threw; -1: none.
  virtual int64_t failed_sample() const { return -1; }
};

class MapSteps final : public StepReader {
 public:
  MapSteps(EpochOrder order, const ShardRule& rule, ProducedRanks ranks, int64_t consumed)
      : order_(std::move(order)), rule_(rule), ranks_(ranks), consumed_(consumed) {}

  std::optional<Step> next() override;

 private:
  EpochOrder order_;
  ShardRule rule_;
  ProducedRanks ranks_;
  int64_t consumed_;
};

// Reads one step ahead, to know which step is the last.
class StreamSteps final : public StepReader {
 public:
  StreamSteps(loader_detail::BatchSource& source, const ShardRule& rule, ProducedRanks ranks,
              const DataPosition& position)
      : source_(source), rule_(rule), ranks_(ranks), start_(position) {}

  std::optional<Step> next() override;
  int64_t failed_sample() const override { return started_ ? read_ : -1; }

 private:
  using Samples = std::unique_ptr<loader_detail::AnySamples>;

  void go_to_start();
  void keep(const loader_detail::AnySamples& samples);
  void read_ahead();

  loader_detail::BatchSource& source_;
  ShardRule rule_;
  ProducedRanks ranks_;
  DataPosition start_;
  bool started_ = false;
  int64_t kept_ = 0;  // the epoch's first samples saved for the last step
  int64_t read_ = 0;  // samples of the epoch read so far
  Samples ahead_;
  std::exception_ptr ahead_error_;
};

// The samples that a step takes when `left` remain; 0 if there are no more steps.
int64_t taken_of(const ShardRule& rule, int64_t left);

}  // namespace muster
