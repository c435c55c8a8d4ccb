// Where the numbers of a run go: the interface of a tracker, and the three that come along.
//
// A tracker keeps one run in one form. The Accelerator owns the trackers named in
// AcceleratorOptions::log_with; its training thread only puts values into a queue, and one writer
// thread hands them to each tracker in the order in which they were logged. So a tracker may take
// its time: what does not fit into the queue is dropped and counted, and training goes on. A
// tracker that throws is named once on stderr; it is called again for the values that follow.
//
// The trackers of this header may also be called directly, from any thread (each locks itself);
// then the call is done when it returns, and errors of the disk are thrown as muster::Error.
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

// One named number. The name is borrowed: it must live as long as the call it is passed to.
struct ScalarValue {
  std::string_view name;
  double value = 0;  // may be NaN or infinite: every tracker has a spelling for it
};

// A setting of the run: a bool, a whole number, a number or a text.
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

// A distribution. Bucket i counts the values v with bucket_limits[i-1] <= v < bucket_limits[i]; the
// first bucket is empty, its limit is the left end of the second.
// Source: HistogramProto of tensorboard/compat/proto/summary.proto.
struct HistogramData {
  double min = 0;
  double max = 0;
  double num = 0;  // finite values, the ones in the buckets
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> bucket_limits;
  std::vector<double> bucket_counts;
  int64_t not_finite = 0;  // NaN and infinite values: in none of the fields above
};

// 8 bits a channel, row by row from the top, the channels of a pixel side by side.
struct ImageData {
  int height = 0;
  int width = 0;
  int channels = 0;             // 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA
  std::vector<uint8_t> pixels;  // height * width * channels
};

// The histogram of all elements, in the buckets that SummaryWriter.add_histogram has by default:
// limits 1e-12 * 1.1^i up to 1e20 on both sides of 0, cut to where there are values.
// Any shape; any integer, floating or bool type; any device (waits for it). Values that are not
// finite are counted apart. Source: torch/utils/tensorboard/summary.py, make_histogram.
HistogramData histogram_of(const at::Tensor& values);

enum class ImageLayout { chw, hwc };

// An image of shape [C, H, W] or [H, W, C] (or [H, W]: grey) with C of 1 to 4. uint8 is taken as it
// is; floating types are in 0..1, are scaled by 255 and clipped; NaN becomes 0. Waits for the
// device. Throws std::invalid_argument for other shapes and types.
ImageData image_of(const at::Tensor& image, ImageLayout layout = ImageLayout::chw);

// What a tracker is. Derive from it to send values elsewhere; only name() and scalars() must be
// written. Calls come one at a time: start() first (within init_trackers on the main process), then
// the rest from the writer thread, finish() last. Throwing is allowed everywhere and never reaches
// training; after a start() that throws the tracker is left alone.
class Tracker {
 public:
  virtual ~Tracker() = default;

  // Names it in messages and in Accelerator::get_tracker.
  virtual std::string name() const = 0;
  // Only on the main process. false: values logged with LogOptions::all_ranks come to a tracker on
  // each rank.
  virtual bool main_process_only() const { return true; }

  // The run begins, or goes on after a restart. On other ranks than 0 it is called before the
  // first value, so that a rank that logs nothing leaves nothing behind.
  struct Run {
    std::string project;
    TrackerConfig config;
    int rank = 0;
  };
  virtual void start(const Run& run) { (void)run; }

  // Values of one step. wall_time: seconds since 1970 when they were logged.
  virtual void scalars(std::span<const ScalarValue> values, int64_t step, double wall_time) = 0;
  virtual void histogram(std::string_view, const HistogramData&, int64_t /*step*/,
                         double /*wall_time*/) {}
  virtual void image(std::string_view, const ImageData&, int64_t /*step*/, double /*wall_time*/) {}
  virtual void text(std::string_view, const std::string&, int64_t /*step*/, double /*wall_time*/) {}
  // Settings together with what they led to, typically once at the end of a run.
  virtual void hparams(const TrackerConfig&, const std::map<std::string, double>& /*metrics*/,
                       double /*wall_time*/) {}

  // What was given so far should become visible to readers. Called when the writer thread has
  // nothing more to hand over, at most ten times a second.
  virtual void flush() {}
  virtual void finish() {}
};

// An entry of AcceleratorOptions::log_with: "tensorboard", "jsonl", "csv", "all" (these three), or
// a tracker of one's own. The named ones write below ProjectConfiguration::logging_dir.
class TrackerChoice {
 public:
  TrackerChoice(const char* name) : name_(name) {}
  TrackerChoice(std::string name) : name_(std::move(name)) {}
  template <std::derived_from<Tracker> T>
  TrackerChoice(std::shared_ptr<T> tracker) : tracker_(std::move(tracker)) {}

  const std::string& name() const { return name_; }  // empty for a tracker of one's own
  const std::shared_ptr<Tracker>& tracker() const { return tracker_; }

 private:
  std::string name_;
  std::shared_ptr<Tracker> tracker_;
};

// Where a tracker of this header writes: DIRECTORY/PROJECT, and DIRECTORY/PROJECT/rank-R on other
// ranks than 0. The directories are made.
struct TrackerDirectory {
  std::string path;
};

// A TensorBoard event file events.out.tfevents.TIME.HOST.PID.N; a restart adds another one to the
// directory, and TensorBoard shows both as one run. Scalars are floats of 32 bits (TensorBoard's
// own precision), images are PNG, texts are for the text plug-in. The settings
// given to start() appear in the HParams plug-in as this run; hparams() writes a session of its own
// in a directory below, as SummaryWriter.add_hparams does.
// A record that could not be written whole is taken back, so the file stays readable after a full
// disk. Source: tensorflow/core/lib/io/record_writer.h; tensorboard/compat/proto/*.proto.
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

// metrics.jsonl: one JSON object a line, appended to what is there.
//   {"name":"loss","step":3,"value":0.25,"time_ms":1790000000000,"rank":0}          a scalar
//   {"kind":"start","project":…,"config":{…},"time_ms":…,"rank":0}
//   {"kind":"histogram","name":…,"step":…,"min":…,"max":…,"num":…,"sum":…,"sum_squares":…,
//    "bucket_limits":[…],"bucket_counts":[…],"not_finite":…,"time_ms":…,"rank":…}
//   {"kind":"image","name":…,"step":…,"file":"images/NAME-STEP.png","height":…,"width":…,…}
//   {"kind":"text","name":…,"step":…,"text":…,…}   {"kind":"hparams","config":…,"metrics":…,…}
// Scalars have the keys of AcceleratorOptions::metrics_file and no "kind". Numbers that are not
// finite are the strings "NaN", "Infinity", "-Infinity" (docs/protocol.md); Python's float() and
// pandas.to_numeric read them.
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

// metrics.csv as pandas.read_csv wants it: one row a step, one column a name, in the order in which
// the names came up.
//   step,time_ms,loss,lr
//   1,1790000000000,0.25,0.001
// Values logged one after the other for the same step share a row; it is written when the next
// step begins or the run ends. A new name adds a column: the file is written anew beside the old
// one and renamed over it, rows from before have an empty cell there. After a restart the rows go
// on in the same file. Numbers that are not finite are nan, inf and -inf. Histograms, images, texts
// and settings are left out. A name that collides with a column of its own ("step") gets ".1".
// More than 1,000 names are refused: names that contain a step number make a file that nobody can
// read.
class CsvTracker : public Tracker {
 public:
  explicit CsvTracker(TrackerDirectory directory);
  ~CsvTracker() override;

  std::string name() const override { return "csv"; }
  bool main_process_only() const override { return false; }
  // Throws muster::Error when the file there is none of this tracker.
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
