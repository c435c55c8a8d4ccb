// Connects a rank's flight recorder to the worker, which may request records. Training thread.
#pragma once

#include <optional>
#include <string>

#include "muster/diagnosis/flight_recorder.h"
#include "tracking/reporter.h"

namespace muster {

class RankRecorder {
 public:
  // `reporter` must outlive this. If the process already has a recorder (another Accelerator's, or
  // the program's own), that one continues and this does nothing.
  RankRecorder(Reporter& reporter, const FlightRecorderOptions& options) : reporter_(reporter) {
    if (FlightRecorder::exists()) return;
    recorder_.emplace(options);
    reporter_.on_diagnose([this](int64_t number, const std::string& reason) {
      recorder_->request(reason, [this, number](const std::string& record) {
        reporter_.diagnosis(number, record);
      });
    });
  }
  ~RankRecorder() {
    if (recorder_) reporter_.on_diagnose({});
  }
  RankRecorder(const RankRecorder&) = delete;
  RankRecorder& operator=(const RankRecorder&) = delete;

 private:
  Reporter& reporter_;
  std::optional<FlightRecorder> recorder_;
};

}  // namespace muster
