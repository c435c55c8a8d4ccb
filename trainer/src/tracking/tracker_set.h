// The trackers of a run and the thread that serves them.
//
// The training thread's functions only queue values under a short lock: they never wait for a disk
// or a tracker, and never throw because of one. The queue is bounded; dropped values are counted.
// One writer thread passes everything to every tracker, in call order. A tracker that throws is
// reported once on stderr, without affecting the others.
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
  // Queued values that the trackers have not received yet; more are dropped.
  size_t queued_values_max = 65'536;
  size_t queued_bytes_max = size_t{256} << 20;  // images and histograms
  std::chrono::milliseconds flush_interval{100};
  // How long finish() waits for the trackers.
  std::chrono::milliseconds finish_timeout{30'000};
};

// The step, and which ranks log.
struct LogPlace {
  int64_t step = 0;
  // false: only the main process logs; other ranks' values are ignored.
  bool all_ranks = false;
};

class TrackerSet {
 public:
  // Creates the trackers. Throws std::invalid_argument for an unknown name, and for one that needs
  // a logging_dir if there is none.
  explicit TrackerSet(const TrackerSetOptions& options);
  ~TrackerSet();  // finish()
  TrackerSet(const TrackerSet&) = delete;
  TrackerSet& operator=(const TrackerSet&) = delete;

  // Starts the trackers on the main process (on other ranks they start with the first value) and
  // the writer thread. Earlier values are ignored. Throws std::logic_error if called twice.
  void start(const std::string& project, const TrackerConfig& config = {});

  void log(std::span<const ScalarValue> values, const LogPlace& place);
  void log(std::initializer_list<ScalarValue> values, const LogPlace& place) {
    log(std::span<const ScalarValue>(values.begin(), values.size()), place);
  }
  // `make` is called once on the writer thread; bytes: the memory that it holds until then.
  void histogram(std::string name, std::function<HistogramData()> make, size_t bytes,
                 const LogPlace& place);
  void image(std::string name, std::function<ImageData()> make, size_t bytes,
             const LogPlace& place);
  void text(std::string name, std::string text, const LogPlace& place);
  void hparams(TrackerConfig config, std::map<std::string, double> metrics);

  // Whether a value logged for `place` would be stored; use it to avoid computing the value in
  // vain.
  bool listens(const LogPlace& place) const;

  // The tracker of this name, or nullptr. It lives as long as this set.
  Tracker* find(const std::string& name) const;
  bool empty() const;

  // Values dropped so far because the queue was full.
  uint64_t dropped() const;
  // Tracker calls that have thrown so far.
  uint64_t failures() const;

  // Passes on what is queued, finishes the trackers and ends the thread; waits at most
  // finish_timeout. Later calls of any function do nothing.
  void finish();

 private:
  struct Shared;  // with the writer thread, which may outlive this object if a disk hangs

  using Task = std::function<void(Tracker&, int64_t step, double wall_time)>;
  void add_task(Task task, size_t bytes, const LogPlace& place);

  const TrackerSetOptions options_;
  std::shared_ptr<Shared> shared_;
  bool running_ = false;
  bool started_ = false;
  std::thread thread_;
};

}  // namespace muster
