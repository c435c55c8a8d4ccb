// What the steps of a pass are made of: which samples, for which ranks. Planning is in order and
// cheap for map-style datasets; a stream is read here.
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
  int64_t begin = 0;       // samples of the epoch before it
  int64_t taken = 0;       // its real samples
  int64_t next_taken = 0;  // of the step after it; 0: there is none
};

struct Step {
  StepInfo info;
  // Of the batch: dataset indices, or of a stream the places in `samples` (ShardRule). Empty: none
  // is for this rank.
  std::vector<int64_t> picks;
  std::unique_ptr<loader_detail::AnySamples> samples;
};

// The ranks whose samples a process puts into its batches: its own, or with dispatch_batches rank 0
// all.
struct ProducedRanks {
  int first = 0;
  int count = 1;
};

// The places in a step of the samples of these ranks.
std::vector<int64_t> places_of(const ShardRule& rule, ProducedRanks ranks, int64_t taken);

// Steps in order, from a position on. One thread at a time; next() throws what the dataset throws,
// at the step that needs the sample.
class StepReader {
 public:
  virtual ~StepReader() = default;
  virtual std::optional<Step> next() = 0;
  // The sample of the epoch that was being read when next() threw; -1: none.
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

// Reads one step ahead of the one it gives, to know which is the last.
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
  int64_t kept_ = 0;  // of the epoch's first samples, for the last step
  int64_t read_ = 0;  // samples of the epoch that were read
  Samples ahead_;
  std::exception_ptr ahead_error_;
};

// The samples that a step takes when `left` are left: 0 when there is no step any more.
int64_t taken_of(const ShardRule& rule, int64_t left);

}  // namespace muster
