// Experiment trackers: the interface, and the three that the SDK provides.
//
// A tracker writes one run in one format. The Accelerator owns the trackers listed in
// AcceleratorOptions::log_with. The training thread only queues values; one writer thread passes
// them to each tracker in the order in which they were logged. A slow tracker therefore never
// blocks training: values that do not fit into the queue are dropped and counted. A tracker that
// throws is reported once on stderr and still receives later values.
//
// The trackers of this header may also be called directly, from any thread (each has its own lock);
// calls are then synchronous and throw disk errors as muster::Error.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace at {
class Tensor;
}

namespace muster {

// A named number. The name is borrowed: it must outlive the call that it is passed to.
struct ScalarValue {
  std::string_view name;
  double value = 0;  // may be NaN or infinite: every tracker can represent that
};

// A setting of the run: a bool, an integer, a floating-point number or a string.
class ConfigValue : public std::variant<bool, int64_t, double, std::string> {
 public:
  ConfigValue(bool value) : variant(std::in_place_type<bool>, value) {}
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) ConfigValue(Integer value)
      : variant(std::in_place_type<int64_t>, static_cast<int64_t>(value)) {}
  template <std::floating_point Number>
  ConfigValue(Number value) : variant(std::in_place_type<double>, static_cast<double>(value)) {}
  ConfigValue(const char* value) : variant(std::in_place_type<std::string>, value) {}
  ConfigValue(std::string value) : variant(std::in_place_type<std::string>, std::move(value)) {}
};
// Settings by name, for example {{"lr", 1e-3}, {"batch_size", 32}, {"amp", true}}.
using TrackerConfig = std::map<std::string, ConfigValue>;

// A histogram. Bucket i counts the values v with bucket_limits[i-1] <= v < bucket_limits[i]; the
// first bucket is empty, and its limit is the lower bound of the second. Source: HistogramProto of
// tensorboard/compat/proto/summary.proto.
struct HistogramData {
  double min = 0;
  double max = 0;
  double num = 0;  // number of finite values, which are the ones in the buckets
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> bucket_limits;
  std::vector<double> bucket_counts;
  int64_t not_finite = 0;  // NaN and infinite values, not counted in the fields above
};

// 8 bits per channel, rows from top to bottom, channels interleaved.
struct ImageData {
  int height = 0;
  int width = 0;
  int channels = 0;             // 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA
  std::vector<uint8_t> pixels;  // height * width * channels
};

// The histogram of all elements, with the default buckets of SummaryWriter.add_histogram: limits
// 1e-12 * 1.1^i up to 1e20 on both sides of 0, trimmed to the occupied range. Any shape; any
// integer, floating-point or bool dtype; any device (waits for it). Non-finite values are counted
// separately. Source: torch/utils/tensorboard/summary.py, make_histogram.
HistogramData histogram_of(const at::Tensor& values);

enum class ImageLayout { chw, hwc };

// An image of shape [C, H, W] or [H, W, C] (or [H, W]: gray) with C from 1 to 4. uint8 is used
// unchanged; floating-point values in 0..1 are scaled by 255 and clipped; NaN becomes 0. Waits for
// the device. Throws std::invalid_argument for other shapes and dtypes.
ImageData image_of(const at::Tensor& image, ImageLayout layout = ImageLayout::chw);

// The tracker interface. Derive from it to send values elsewhere; only name() and scalars() must be
// implemented. Calls come one at a time: first start() (inside init_trackers on the main process),
// then the others from the writer thread, and finish() last. Every function may throw; exceptions
// never reach training. If start() throws, the tracker is not called again.
class Tracker {
 public:
  virtual ~Tracker() = default;

  // The name in messages and in Accelerator::get_tracker; no two trackers of a run have the same.
  virtual std::string name() const = 0;
  // true: the tracker runs on the main process only. false: values logged with
  // LogOptions::all_ranks go to a tracker on each rank.
  virtual bool main_process_only() const { return true; }

  // The run begins, or continues after a restart. On ranks other than 0 it is called just before
  // the first value, so that a rank that logs nothing creates no files.
  struct Run {
    std::string project;
    TrackerConfig config;
    int rank = 0;
  };
  virtual void start(const Run& run) { (void)run; }

  // Values of one step. wall_time: when they were logged, as Unix time in seconds.
  virtual void scalars(std::span<const ScalarValue> values, int64_t step, double wall_time) = 0;
  virtual void histogram(std::string_view, const HistogramData&, int64_t /*step*/,
                         double /*wall_time*/) {}
  virtual void image(std::string_view, const ImageData&, int64_t /*step*/, double /*wall_time*/) {}
  virtual void text(std::string_view, const std::string&, int64_t /*step*/, double /*wall_time*/) {}
  // Settings together with the resulting metrics, typically once at the end of a run.
  virtual void hparams(const TrackerConfig&, const std::map<std::string, double>& /*metrics*/,
                       double /*wall_time*/) {}

  // Makes everything received so far visible to readers. Called when the writer thread's queue is
  // empty, at most ten times a second.
  virtual void flush() {}
  virtual void finish() {}
};

// An entry of AcceleratorOptions::log_with: "tensorboard", "jsonl", "csv", "all" (these three), or
// your own tracker. The named ones write below ProjectConfiguration::logging_dir.
class TrackerChoice {
 public:
  TrackerChoice(const char* name) : name_(name) {}
  TrackerChoice(std::string name) : name_(std::move(name)) {}
  template <std::derived_from<Tracker> T>
  TrackerChoice(std::shared_ptr<T> tracker) : tracker_(std::move(tracker)) {}

  const std::string& name() const { return name_; }  // empty for your own tracker
  const std::shared_ptr<Tracker>& tracker() const { return tracker_; }

 private:
  std::string name_;
  std::shared_ptr<Tracker> tracker_;
};

// Where a tracker of this header writes: DIRECTORY/PROJECT, and DIRECTORY/PROJECT/rank-R on ranks
// other than 0. The directories are created.
struct TrackerDirectory {
  std::string path;
};

// A TensorBoard event file events.out.tfevents.TIME.HOST.PID.N; a restart adds another one to the
// directory, and TensorBoard shows both as one run. Scalars are 32-bit floats (TensorBoard's own
// precision), images are PNG, texts are for the text plug-in. The settings passed to start() appear
// in the HParams plug-in as this run; hparams() writes a separate session in a subdirectory, as
// SummaryWriter.add_hparams does. A partially written record is truncated, so the file stays
// readable after a full disk. Source: tensorflow/core/lib/io/record_writer.h;
// tensorboard/compat/proto/*.proto.
class TensorBoardTracker : public Tracker {
 public:
  explicit TensorBoardTracker(TrackerDirectory directory);
  ~TensorBoardTracker() override;

  std::string name() const override { return "tensorboard"; }
  bool main_process_only() const override { return false; }
  void start(const Run& run) override;
  void scalars(std::span<const ScalarValue> values, int64_t step, double wall_time) override;
  void histogram(std::string_view name, const HistogramData& histogram, int64_t step,
                 double wall_time) override;
  void image(std::string_view name, const ImageData& image, int64_t step,
             double wall_time) override;
  void text(std::string_view name, const std::string& text, int64_t step,
            double wall_time) override;
  void hparams(const TrackerConfig& config, const std::map<std::string, double>& metrics,
               double wall_time) override;
  void flush() override;
  void finish() override;

  // The event file; empty before start().
  std::string path() const;

 private:
  struct Files;
  mutable std::mutex mutex_;
  std::unique_ptr<Files> files_;
};

// metrics.jsonl: one JSON object per line, appended to an existing file.
//   {"name":"loss","step":3,"value":0.25,"time_ms":1790000000000,"rank":0}          a scalar
//   {"kind":"start","project":…,"config":{…},"time_ms":…,"rank":0}
//   {"kind":"histogram","name":…,"step":…,"min":…,"max":…,"num":…,"sum":…,"sum_squares":…,
//    "bucket_limits":[…],"bucket_counts":[…],"not_finite":…,"time_ms":…,"rank":…}
//   {"kind":"image","name":…,"step":…,"file":"images/NAME-STEP.png","height":…,"width":…,…}
//   {"kind":"text","name":…,"step":…,"text":…,…}   {"kind":"hparams","config":…,"metrics":…,…}
// Scalars have the keys of AcceleratorOptions::metrics_file and no "kind". Non-finite numbers are
// the strings "NaN", "Infinity", "-Infinity" (docs/protocol.md), which Python's float() and
// pandas.to_numeric parse.
class JsonLinesTracker : public Tracker {
 public:
  explicit JsonLinesTracker(TrackerDirectory directory);
  ~JsonLinesTracker() override;

  std::string name() const override { return "jsonl"; }
  bool main_process_only() const override { return false; }
  void start(const Run& run) override;
  void scalars(std::span<const ScalarValue> values, int64_t step, double wall_time) override;
  void histogram(std::string_view name, const HistogramData& histogram, int64_t step,
                 double wall_time) override;
  void image(std::string_view name, const ImageData& image, int64_t step,
             double wall_time) override;
  void text(std::string_view name, const std::string& text, int64_t step,
            double wall_time) override;
  void hparams(const TrackerConfig& config, const std::map<std::string, double>& metrics,
               double wall_time) override;
  void flush() override;
  void finish() override;

 private:
  struct File;
  mutable std::mutex mutex_;
  std::unique_ptr<File> file_;
};

// metrics.csv for pandas.read_csv: one row per step, and one column per name in order of first
// appearance.
//   step,time_ms,loss,lr
//   1,1790000000000,0.25,0.001
// Consecutive values for the same step share a row, which is written when the next step begins or
// the run ends. A new name adds a column: the file is rewritten under a temporary name and renamed,
// with empty cells in earlier rows. After a restart, rows are appended to the same file. Non-finite
// numbers are nan, inf and -inf. Histograms, images, texts and settings are not written. A name
// that collides with one of the tracker's own columns ("step") gets the suffix ".1". More than
// 1,000 names are an error: names that contain a step number would make an unusable file.
class CsvTracker : public Tracker {
 public:
  explicit CsvTracker(TrackerDirectory directory);
  ~CsvTracker() override;

  std::string name() const override { return "csv"; }
  bool main_process_only() const override { return false; }
  // Throws muster::Error if there is a file that this tracker did not write.
  void start(const Run& run) override;
  void scalars(std::span<const ScalarValue> values, int64_t step, double wall_time) override;
  void flush() override;
  void finish() override;

 private:
  struct Table;
  mutable std::mutex mutex_;
  std::unique_ptr<Table> table_;
};

}  // namespace muster
