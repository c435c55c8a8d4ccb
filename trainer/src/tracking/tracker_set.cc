// The queue and the writer thread; see tracker_set.h.
#include "tracking/tracker_set.h"

#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>

#include "tracking/text.h"
#include "tracking/trainer_lines.h"

namespace muster {
namespace {

std::shared_ptr<Tracker> make_tracker(const std::string& name, const std::string& logging_dir) {
  const bool known = name == "tensorboard" || name == "jsonl" || name == "csv";
  if (!known) {
    throw std::invalid_argument("log_with: \"" + name +
                                "\" is not a tracker: use \"tensorboard\", \"jsonl\", \"csv\", "
                                "\"all\", or your own std::shared_ptr<Tracker>");
  }
  if (logging_dir.empty()) {
    throw std::invalid_argument("log_with: \"" + name +
                                "\" writes files and needs ProjectConfiguration::logging_dir");
  }
  if (name == "tensorboard")
    return std::make_shared<TensorBoardTracker>(TrackerDirectory{logging_dir});
  if (name == "jsonl") return std::make_shared<JsonLinesTracker>(TrackerDirectory{logging_dir});
  return std::make_shared<CsvTracker>(TrackerDirectory{logging_dir});
}

// get_tracker and messages tell them apart by name.
void require_names(const std::vector<std::shared_ptr<Tracker>>& trackers) {
  std::set<std::string> names;
  for (const auto& tracker : trackers) {
    if (names.insert(tracker->name()).second) continue;
    throw std::invalid_argument("AcceleratorOptions::log_with: two trackers are called '" +
                                tracker->name() +
                                "': let Tracker::name() of one's own return another name");
  }
}

// The selected trackers, each name once.
std::vector<std::shared_ptr<Tracker>> make_trackers(const TrackerSetOptions& options) {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<Tracker>> trackers;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    names.push_back(name);
    trackers.push_back(make_tracker(name, options.logging_dir));
  };
  for (const TrackerChoice& choice : options.log_with) {
    if (choice.tracker()) {
      trackers.push_back(choice.tracker());
    } else if (choice.name() == "all") {
      for (const char* name : {"tensorboard", "jsonl", "csv"}) add(name);
    } else {
      add(choice.name());
    }
  }
  require_names(trackers);
  return trackers;
}

}  // namespace

struct TrackerSet::Shared {
  // What one call logged: the next `scalars` of the batch, or its next task.
  struct Entry {
    int64_t step;
    double wall_time;
    uint32_t scalars;
    bool is_task;
  };
  struct Scalar {
    uint32_t name_bytes;  // the next ones of `names`
    double value;
  };
  struct Batch {
    std::vector<Entry> entries;
    std::vector<Scalar> scalars;
    std::string names;
    std::vector<Task> tasks;

    void clear() {  // keeps the memory, so that the training thread rarely allocates
      entries.clear();
      scalars.clear();
      names.clear();
      tasks.clear();
    }
  };
  struct Slot {
    std::shared_ptr<Tracker> tracker;
    bool started = false;
    bool dead = false;
    bool said = false;
  };

  explicit Shared(const TrackerSetOptions& given) : options(given) {
    for (auto& tracker : make_trackers(given)) {
      if (given.rank == 0 || !tracker->main_process_only()) slots.push_back({std::move(tracker)});
    }
  }

  template <typename Call>
  void guarded(Slot& slot, Call call);
  void start_slots();
  void run();
  void hand_over(const Batch& batch);

  const TrackerSetOptions options;
  Tracker::Run run_info;
  std::vector<Slot> slots;  // owned by the writer thread once it runs
  std::atomic<uint64_t> dropped{0};
  std::atomic<uint64_t> failures{0};

  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  Batch incoming;
  size_t queued_values = 0;  // in `incoming` and with the writer thread
  size_t queued_bytes = 0;
  bool closing = false;
  bool finished = false;
};

template <typename Call>
void TrackerSet::Shared::guarded(Slot& slot, Call call) {
  const char* what = "an exception that is not a std::exception";
  std::string text;
  try {
    return call(*slot.tracker);
  } catch (const std::exception& error) {
    text = error.what();
    what = text.c_str();
  } catch (...) {
  }
  failures.fetch_add(1, std::memory_order_relaxed);
  if (slot.said) return;
  slot.said = true;
  std::fprintf(
      stderr,
      "muster: rank %d: the %s tracker: %s (reported once; training continues without what it "
      "could not store)\n",
      options.rank, slot.tracker->name().c_str(), what);
}

void TrackerSet::Shared::start_slots() {
  for (Slot& slot : slots) {
    if (slot.started || slot.dead) continue;
    slot.dead = true;
    guarded(slot, [&](Tracker& tracker) {
      tracker.start(run_info);
      slot.started = true;
      slot.dead = false;
    });
  }
}

void TrackerSet::Shared::hand_over(const Batch& batch) {
  start_slots();
  std::vector<ScalarValue> values;
  const char* name = batch.names.data();
  size_t scalar = 0, task = 0;
  for (const Entry& entry : batch.entries) {
    values.clear();
    for (uint32_t i = 0; i < entry.scalars; ++i, ++scalar) {
      values.push_back({{name, batch.scalars[scalar].name_bytes}, batch.scalars[scalar].value});
      name += batch.scalars[scalar].name_bytes;
    }
    for (Slot& slot : slots) {
      if (slot.dead) continue;
      guarded(slot, [&](Tracker& tracker) {
        if (entry.is_task) {
          batch.tasks[task](tracker, entry.step, entry.wall_time);
        } else {
          tracker.scalars(values, entry.step, entry.wall_time);
        }
      });
    }
    task += entry.is_task;
  }
  for (Slot& slot : slots) {
    if (!slot.dead) guarded(slot, [](Tracker& tracker) { tracker.flush(); });
  }
}

void TrackerSet::Shared::run() {
  Batch batch;
  size_t values = 0, bytes = 0;
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      queued_values -= values;
      queued_bytes -= bytes;
      const auto is_urgent = [&] {
        return closing || queued_values >= options.queued_values_max / 2 ||
               queued_bytes >= options.queued_bytes_max / 2;
      };
      wake.wait_for(lock, options.flush_interval, is_urgent);
      if (closing && incoming.entries.empty()) break;
      std::swap(batch, incoming);
      values = queued_values;
      bytes = queued_bytes;
    }
    if (!batch.entries.empty()) hand_over(batch);
    batch.clear();
  }
  for (Slot& slot : slots) {
    if (slot.started) guarded(slot, [](Tracker& tracker) { tracker.finish(); });
  }
  const std::lock_guard<std::mutex> lock(mutex);
  finished = true;
  done.notify_all();
}

TrackerSet::TrackerSet(const TrackerSetOptions& options)
    : options_(options), shared_(std::make_shared<Shared>(options)) {}

TrackerSet::~TrackerSet() { finish(); }

void TrackerSet::start(const std::string& project, const TrackerConfig& config) {
  if (started_) throw std::logic_error("the trackers were already started");
  started_ = true;
  shared_->run_info = {project, config, options_.rank};
  if (shared_->slots.empty()) return;
  if (options_.rank == 0) shared_->start_slots();
  // Leave signals to the training thread: a handler must not run on the writer thread, and a write
  // beyond the file-size limit (SIGXFSZ) must fail instead of killing the process.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([shared = shared_] { shared->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  running_ = true;
}

bool TrackerSet::listens(const LogPlace& place) const {
  return running_ && (options_.rank == 0 || place.all_ranks);
}

void TrackerSet::log(std::span<const ScalarValue> values, const LogPlace& place) {
  if (!listens(place) || values.empty()) return;
  const double wall_time = wall_time_now();
  Shared& shared = *shared_;
  bool wake;
  {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    if (shared.queued_values + values.size() > options_.queued_values_max) {
      shared.dropped.fetch_add(values.size(), std::memory_order_relaxed);
      return;
    }
    for (const ScalarValue& value : values) {
      const std::string_view name = value.name.substr(0, kMetricNameBytesMax);
      shared.incoming.names += name;
      shared.incoming.scalars.push_back({static_cast<uint32_t>(name.size()), value.value});
    }
    shared.incoming.entries.push_back(
        {place.step, wall_time, static_cast<uint32_t>(values.size()), false});
    const size_t before = shared.queued_values;
    shared.queued_values += values.size();
    const size_t half = options_.queued_values_max / 2;
    wake = before < half && shared.queued_values >= half;
  }
  if (wake) shared.wake.notify_one();
}

void TrackerSet::add_task(Task task, size_t bytes, const LogPlace& place) {
  const double wall_time = wall_time_now();
  Shared& shared = *shared_;
  bool wake;
  {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    if (shared.queued_values + 1 > options_.queued_values_max ||
        shared.queued_bytes + bytes > options_.queued_bytes_max) {
      shared.dropped.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    shared.incoming.tasks.push_back(std::move(task));
    shared.incoming.entries.push_back({place.step, wall_time, 0, true});
    shared.queued_values += 1;
    shared.queued_bytes += bytes;
    wake = shared.queued_bytes >= options_.queued_bytes_max / 2;
  }
  if (wake) shared.wake.notify_one();
}

void TrackerSet::histogram(std::string name, std::function<HistogramData()> make, size_t bytes,
                           const LogPlace& place) {
  if (!listens(place)) return;
  auto made = std::make_shared<std::optional<HistogramData>>();
  add_task(
      [name = std::move(name), make = std::move(make), made](Tracker& tracker, int64_t step,
                                                             double wall_time) {
        if (!*made) *made = make();
        tracker.histogram(name, **made, step, wall_time);
      },
      bytes, place);
}

void TrackerSet::image(std::string name, std::function<ImageData()> make, size_t bytes,
                       const LogPlace& place) {
  if (!listens(place)) return;
  auto made = std::make_shared<std::optional<ImageData>>();
  add_task(
      [name = std::move(name), make = std::move(make), made](Tracker& tracker, int64_t step,
                                                             double wall_time) {
        if (!*made) *made = make();
        tracker.image(name, **made, step, wall_time);
      },
      bytes, place);
}

void TrackerSet::text(std::string name, std::string text, const LogPlace& place) {
  if (!listens(place)) return;
  const size_t bytes = text.size();
  add_task([name = std::move(name), text = std::move(text)](
               Tracker& tracker, int64_t step,
               double wall_time) { tracker.text(name, text, step, wall_time); },
           bytes, place);
}

void TrackerSet::hparams(TrackerConfig config, std::map<std::string, double> metrics) {
  if (!listens({})) return;
  add_task([config = std::move(config), metrics = std::move(metrics)](
               Tracker& tracker, int64_t,
               double wall_time) { tracker.hparams(config, metrics, wall_time); },
           0, {});
}

Tracker* TrackerSet::find(const std::string& name) const {
  for (const auto& slot : shared_->slots) {
    if (slot.tracker->name() == name) return slot.tracker.get();
  }
  return nullptr;
}

bool TrackerSet::empty() const { return shared_->slots.empty(); }
uint64_t TrackerSet::dropped() const { return shared_->dropped.load(std::memory_order_relaxed); }
uint64_t TrackerSet::failures() const { return shared_->failures.load(std::memory_order_relaxed); }

void TrackerSet::finish() {
  if (!running_) return;
  running_ = false;
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->closing = true;
  shared_->wake.notify_one();
  const bool finished =
      shared_->done.wait_for(lock, options_.finish_timeout, [&] { return shared_->finished; });
  lock.unlock();
  if (finished) {
    thread_.join();
  } else {
    std::fprintf(stderr,
                 "muster: rank %d: the trackers did not finish within %.0f s; values still queued "
                 "may be lost\n",
                 options_.rank, std::chrono::duration<double>(options_.finish_timeout).count());
    thread_.detach();
  }
  if (dropped() > 0) {
    std::fprintf(stderr,
                 "muster: rank %d: %llu logged values were dropped because the queue was full\n",
                 options_.rank, static_cast<unsigned long long>(dropped()));
  }
}

}  // namespace muster
