// The TensorBoard tracker: event files of one run; see muster/tracking/tracker.h.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <stdexcept>

#include "muster/tracking/tracker.h"
#include "tracking/append_file.h"
#include "tracking/event_messages.h"
#include "tracking/event_record.h"
#include "tracking/png.h"
#include "tracking/run_directory.h"
#include "tracking/text.h"
#include "tracking/trainer_lines.h"

namespace muster {
namespace {

// The file name that TensorBoard looks for. N distinguishes files created by one process in the
// same second.
AppendFile new_event_file(const std::string& directory, double wall_time) {
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  make_tracker_directory(directory);
  for (int number = 0;; ++number) {
    char name[400];
    std::snprintf(name, sizeof(name), "events.out.tfevents.%010lld.%s.%d.%d",
                  static_cast<long long>(wall_time), host, static_cast<int>(::getpid()), number);
    const std::string path = directory + "/" + name;
    if (path_exists(path)) continue;
    AppendFile file(path);
    append_record(file.buffer(), file_version_event(wall_time));
    return file;
  }
}

// Protobuf readers reject a string that is not UTF-8, and the whole file with it.
TrackerConfig readable(const TrackerConfig& config) {
  TrackerConfig clean;
  for (const auto& [name, value] : config) {
    const auto* text = std::get_if<std::string>(&value);
    clean.emplace(clean_metric_name(name), text ? ConfigValue(to_valid_utf8(*text)) : value);
  }
  return clean;
}

}  // namespace

struct TensorBoardTracker::Files {
  std::string logging_dir;
  std::string directory;
  std::optional<AppendFile> events;
  bool has_session = false;

  AppendFile& file() {
    if (!events) throw std::logic_error("the tensorboard tracker was not started");
    return *events;
  }
  void add(const std::string& event) {
    append_record(file().buffer(), event);
    file().record_is_complete();
  }
};

TensorBoardTracker::TensorBoardTracker(TrackerDirectory directory)
    : files_(std::make_unique<Files>()) {
  files_->logging_dir = std::move(directory.path);
}

TensorBoardTracker::~TensorBoardTracker() = default;

void TensorBoardTracker::start(const Run& run) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const double now = wall_time_now();
  files_->directory = run_directory(files_->logging_dir, run);
  files_->events = new_event_file(files_->directory, now);
  // No experiment message here: the plug-in uses the first one it finds for all runs. Without one,
  // it collects the settings and scalars of every run.
  files_->has_session = !run.config.empty();
  if (files_->has_session) files_->add(session_start_event(readable(run.config), now));
  files_->file().flush();
}

void TensorBoardTracker::scalars(std::span<const ScalarValue> values, int64_t step,
                                 double wall_time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> names;
  std::vector<ScalarValue> clean;
  names.reserve(values.size());
  clean.reserve(values.size());
  for (const ScalarValue& value : values) {
    clean.push_back({names.emplace_back(clean_metric_name(value.name)), value.value});
  }
  files_->add(scalars_event(clean, {step, wall_time}));
}

void TensorBoardTracker::histogram(std::string_view name, const HistogramData& histogram,
                                   int64_t step, double wall_time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  files_->add(histogram_event(clean_metric_name(name), histogram, {step, wall_time}));
}

void TensorBoardTracker::image(std::string_view name, const ImageData& image, int64_t step,
                               double wall_time) {
  const std::string png = encode_png(image);
  const std::lock_guard<std::mutex> lock(mutex_);
  files_->add(image_event(clean_metric_name(name), image, png, {step, wall_time}));
}

void TensorBoardTracker::text(std::string_view name, const std::string& text, int64_t step,
                              double wall_time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  files_->add(text_event(clean_metric_name(name), to_valid_utf8(text), {step, wall_time}));
}

void TensorBoardTracker::hparams(const TrackerConfig& config,
                                 const std::map<std::string, double>& metrics, double wall_time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  files_->file();
  char name[32];
  std::snprintf(name, sizeof(name), "%.6f", wall_time);
  AppendFile session = new_event_file(files_->directory + "/" + name, wall_time);
  const TrackerConfig settings = readable(config);
  std::map<std::string, double> named;
  for (const auto& [metric, value] : metrics) named[clean_metric_name(metric)] = value;
  std::vector<ScalarValue> values;
  for (const auto& [metric, value] : named) values.push_back({metric, value});
  for (const std::string& event :
       {experiment_event(settings, named, wall_time), session_start_event(settings, wall_time),
        session_end_event(wall_time), scalars_event(values, {0, wall_time})}) {
    append_record(session.buffer(), event);
  }
  session.finish();
}

void TensorBoardTracker::flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (files_->events) files_->events->flush();
}

void TensorBoardTracker::finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!files_->events) return;
  if (files_->has_session) files_->add(session_end_event(wall_time_now()));
  AppendFile events = std::move(*files_->events);
  files_->events.reset();
  events.finish();
}

std::string TensorBoardTracker::path() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return files_->events ? files_->events->path() : "";
}

}  // namespace muster
