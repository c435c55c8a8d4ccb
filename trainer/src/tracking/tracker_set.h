// The trackers of a run and the thread that serves them.
//
// The functions for the training thread only put values into a queue under a short lock: they never
// wait for a disk or a tracker, and never throw because of one. The queue is bounded; what does not
// fit is counted. One writer thread hands everything to every tracker, in the order of the calls.
// A tracker that throws is named once on stderr, and the others do not notice.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "muster/tracking/tracker.h"

namespace muster {

struct TrackerSetOptions {
  std::vector<TrackerChoice> log_with;
  std::string logging_dir;  // of the trackers chosen by name
  int rank = 0;
  // In memory, not yet with the trackers; more is dropped.
  size_t queued_values_max = 65'536;
  size_t queued_bytes_max = size_t{256} << 20;  // images and histograms
  std::chrono::milliseconds flush_interval{100};
  // How long finish() waits for the trackers.
  std::chrono::milliseconds finish_timeout{30'000};
};

// Where and for whom something is logged.
struct LogPlace {
  int64_t step = 0;
  // false: only the main process speaks, other ranks' values are ignored.
  bool all_ranks = false;
};

class TrackerSet {
 public:
  // Makes the trackers. Throws std::invalid_argument for a name that is none, and for one that
  // needs a logging_dir when there is none.
  explicit TrackerSet(const TrackerSetOptions& options);
  ~TrackerSet();  // finish()
  TrackerSet(const TrackerSet&) = delete;
  TrackerSet& operator=(const TrackerSet&) = delete;

  // Starts the trackers on the main process (on other ranks they start with the first value) and
  // the writer thread. Values from before are ignored. Throws std::logic_error when called twice.
  void start(const std::string& project, const TrackerConfig& config = {});

  void log(std::span<const ScalarValue> values, const LogPlace& place);
  void log(std::initializer_list<ScalarValue> values, const LogPlace& place) {
    log(std::span<const ScalarValue>(values.begin(), values.size()), place);
  }
  // `make` is called once on the writer thread; bytes: what it keeps alive until then.
  void histogram(std::string name, std::function<HistogramData()> make, size_t bytes,
                 const LogPlace& place);
  void image(std::string name, std::function<ImageData()> make, size_t bytes,
             const LogPlace& place);
  void text(std::string name, std::string text, const LogPlace& place);
  void hparams(TrackerConfig config, std::map<std::string, double> metrics);

  // Whether a value logged for `place` would go anywhere: to spare making it.
  bool listens(const LogPlace& place) const;

  // The tracker of this name, or nullptr. It lives as long as this set.
  Tracker* find(const std::string& name) const;
  bool empty() const;

  // Values that did not fit into the queue so far.
  uint64_t dropped() const;
  // Calls of trackers that threw so far.
  uint64_t failures() const;

  // Hands over what is queued, finishes the trackers and ends the thread; waits at most
  // finish_timeout. Later calls of anything do nothing.
  void finish();

 private:
  struct Shared;  // with the writer thread, which may outlive this object when a disk hangs

  using Task = std::function<void(Tracker&, int64_t step, double wall_time)>;
  void add_task(Task task, size_t bytes, const LogPlace& place);

  const TrackerSetOptions options_;
  std::shared_ptr<Shared> shared_;
  bool running_ = false;
  bool started_ = false;
  std::thread thread_;
};

}  // namespace muster
