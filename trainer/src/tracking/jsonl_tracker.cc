// The JSON-lines tracker; see muster/tracking/tracker.h for the format.
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "muster/tracking/tracker.h"
#include "tracking/append_file.h"
#include "tracking/event_record.h"
#include "tracking/png.h"
#include "tracking/run_directory.h"
#include "tracking/text.h"
#include "tracking/trainer_lines.h"

namespace muster {
namespace {

// One JSON object; keys are in call order.
class Line {
 public:
  explicit Line(std::string& out) : out_(out) {}

  Line& text(std::string_view key, std::string_view value) {
    begin(key);
    append_json_string(out_, value);
    return *this;
  }
  Line& number(std::string_view key, double value) {
    begin(key);
    append_json_number(out_, value);
    return *this;
  }
  Line& integer(std::string_view key, int64_t value) {
    begin(key);
    out_ += std::to_string(value);
    return *this;
  }
  Line& numbers(std::string_view key, std::span<const double> values) {
    begin(key);
    char separator = '[';
    for (const double value : values) {
      out_ += separator;
      append_json_number(out_, value);
      separator = ',';
    }
    out_ += values.empty() ? "[]" : "]";
    return *this;
  }
  Line& config(std::string_view key, const TrackerConfig& config) {
    begin(key);
    return object([&](Line& inner) {
      for (const auto& [name, value] : config) inner.value(name, value);
    });
  }
  Line& metrics(std::string_view key, const std::map<std::string, double>& metrics) {
    begin(key);
    return object([&](Line& inner) {
      for (const auto& [name, value] : metrics) inner.number(name, value);
    });
  }

 private:
  void begin(std::string_view key) {
    if (!first_) out_ += ',';
    first_ = false;
    append_json_string(out_, key);
    out_ += ':';
  }
  template <typename Fill>
  Line& object(Fill fill) {
    out_ += '{';
    Line inner(out_);
    fill(inner);
    out_ += '}';
    return *this;
  }
  void value(std::string_view key, const ConfigValue& value) {
    if (const auto* flag = std::get_if<bool>(&value)) {
      begin(key);
      out_ += *flag ? "true" : "false";
    } else if (const auto* whole = std::get_if<int64_t>(&value)) {
      integer(key, *whole);
    } else if (const auto* real = std::get_if<double>(&value)) {
      number(key, *real);
    } else {
      text(key, std::get<std::string>(value));
    }
  }

  std::string& out_;
  bool first_ = true;
};

// A file name for a series: special characters become '_', and a checksum then distinguishes "a/b"
// from "a_b".
std::string file_name_of(std::string_view name, int64_t step) {
  constexpr size_t kNameBytesMax = 100;
  std::string plain(name.substr(0, kNameBytesMax));
  for (char& letter : plain) {
    const bool keep = std::isalnum(static_cast<unsigned char>(letter)) || letter == '-' ||
                      letter == '_' || letter == '.';
    if (!keep) letter = '_';
  }
  if (plain != name || plain.starts_with('.')) {
    char checksum[16];
    std::snprintf(checksum, sizeof(checksum), "-%08x", crc32c(name));
    plain = "_" + plain + checksum;
  }
  return plain + "-" + std::to_string(step) + ".png";
}

}  // namespace

struct JsonLinesTracker::File {
  std::string logging_dir;
  std::string directory;
  int rank = 0;
  std::optional<AppendFile> lines;

  // Adds one line: fill writes its own keys, time and rank come last.
  template <typename Fill>
  void add(double wall_time, Fill fill) {
    if (!lines) throw std::logic_error("the jsonl tracker was not started");
    std::string& out = lines->buffer();
    out += '{';
    Line line(out);
    fill(line);
    line.integer("time_ms", to_time_ms(wall_time)).integer("rank", rank);
    out += "}\n";
    lines->record_is_complete();
  }
};

JsonLinesTracker::JsonLinesTracker(TrackerDirectory directory) : file_(std::make_unique<File>()) {
  file_->logging_dir = std::move(directory.path);
}

JsonLinesTracker::~JsonLinesTracker() = default;

void JsonLinesTracker::start(const Run& run) {
  const std::lock_guard<std::mutex> lock(mutex_);
  file_->rank = run.rank;
  file_->directory = make_tracker_directory(run_directory(file_->logging_dir, run));
  file_->lines.emplace(file_->directory + "/metrics.jsonl");
  file_->add(wall_time_now(), [&](Line& line) {
    line.text("kind", "start").text("project", run.project).config("config", run.config);
  });
  file_->lines->flush();
}

void JsonLinesTracker::scalars(std::span<const ScalarValue> values, int64_t step,
                               double wall_time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const ScalarValue& value : values) {
    file_->add(wall_time, [&](Line& line) {
      line.text("name", clean_metric_name(value.name))
          .integer("step", step)
          .number("value", value.value);
    });
  }
}

void JsonLinesTracker::histogram(std::string_view name, const HistogramData& histogram,
                                 int64_t step, double wall_time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  file_->add(wall_time, [&](Line& line) {
    line.text("kind", "histogram")
        .text("name", clean_metric_name(name))
        .integer("step", step)
        .number("min", histogram.min)
        .number("max", histogram.max)
        .number("num", histogram.num)
        .number("sum", histogram.sum)
        .number("sum_squares", histogram.sum_squares)
        .numbers("bucket_limits", histogram.bucket_limits)
        .numbers("bucket_counts", histogram.bucket_counts)
        .integer("not_finite", histogram.not_finite);
  });
}

void JsonLinesTracker::image(std::string_view name, const ImageData& image, int64_t step,
                             double wall_time) {
  const std::string png = encode_png(image);
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string clean = clean_metric_name(name);
  const std::string file = "images/" + file_name_of(clean, step);
  make_tracker_directory(file_->directory + "/images");
  const std::string path = file_->directory + "/" + file;
  ::unlink(path.c_str());  // a resumed run writes the same step again
  AppendFile output(path);
  output.buffer() = png;
  output.finish();
  file_->add(wall_time, [&](Line& line) {
    line.text("kind", "image")
        .text("name", clean)
        .integer("step", step)
        .text("file", file)
        .integer("height", image.height)
        .integer("width", image.width)
        .integer("channels", image.channels);
  });
}

void JsonLinesTracker::text(std::string_view name, const std::string& text, int64_t step,
                            double wall_time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  file_->add(wall_time, [&](Line& line) {
    line.text("kind", "text")
        .text("name", clean_metric_name(name))
        .integer("step", step)
        .text("text", text);
  });
}

void JsonLinesTracker::hparams(const TrackerConfig& config,
                               const std::map<std::string, double>& metrics, double wall_time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  file_->add(wall_time, [&](Line& line) {
    line.text("kind", "hparams").config("config", config).metrics("metrics", metrics);
  });
}

void JsonLinesTracker::flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_->lines) file_->lines->flush();
}

void JsonLinesTracker::finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!file_->lines) return;
  AppendFile lines = std::move(*file_->lines);
  file_->lines.reset();
  lines.finish();
}

}  // namespace muster
