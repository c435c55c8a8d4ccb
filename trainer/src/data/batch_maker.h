// Builds the batches of a step, on a worker or on the training thread, and describes errors.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/step_reader.h"
#include "muster/data/loader_core.h"

namespace muster {

struct ReadyStep {
  StepInfo info;
  std::unique_ptr<loader_detail::AnyBatch> batch;  // nullptr: none for this rank in this step
  std::exception_ptr error;                        // instead of a batch
};

// Immutable during a pass. One thread at a time may call plan(); any thread may call make().
class BatchMaker {
 public:
  struct Options {
    uint64_t seed = 0;
    int64_t epoch = 0;
    int rank = 0;
    std::optional<at::Device> pin_for;  // page-locked memory for copies to this device
  };

  BatchMaker(loader_detail::BatchSource& source, StepReader& steps, const Options& options)
      : source_(source), steps_(steps), options_(options) {}

  // The next step; nullopt at the end. Sets `error` if the dataset threw.
  std::optional<Step> plan(std::exception_ptr& error) const;
  ReadyStep make(Step step, int worker) const;

 private:
  std::string where(const Step& step, const loader_detail::MakeRequest& request) const;
  std::string sample_text(int64_t index) const;

  loader_detail::BatchSource& source_;
  StepReader& steps_;
  Options options_;
};

}  // namespace muster
