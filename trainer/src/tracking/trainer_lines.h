// The lines of the trainer socket (docs/protocol.md): values in, JSON out, and back. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr size_t kMetricNameBytesMax = 256;
// A batch is full when the sum of its points' bytes_bound reaches this: its line then stays below
// the protocol's 1 MiB even if every byte of the names needs the longest escape.
inline constexpr size_t kBatchBytesMax = 900 << 10;

struct MetricPoint {
  std::string name;
  double value = 0;
  int64_t step = 0;
  int64_t time_ms = 0;  // UTC

  // An upper bound for this point's JSON.
  size_t bytes_bound() const { return 128 + 6 * name.size(); }
};

// Turns a name into one that the worker accepts: 1 to 256 bytes of UTF-8 without control
// characters. Other bytes become '_', and long names are truncated: a bad name must neither end the
// run nor block its batch.
std::string clean_metric_name(std::string_view name);

struct Hello {
  int64_t job = 0;
  int64_t attempt = 0;
  int rank = 0;
  int64_t pid = 0;
  std::string token;  // empty: none is sent
};

// Each ends with a newline.
std::string hello_line(const Hello& hello);
std::string metrics_line(int64_t seq, const std::vector<MetricPoint>& points);
std::string progress_line(int64_t step, int64_t total);
std::string checkpoint_line(int64_t step);
std::string dropped_line(uint64_t metrics);
// `record` is a JSON object on one line.
std::string diagnosis_line(int64_t number, std::string_view record);
// For the metrics file: the point's keys and "rank".
std::string file_line(const MetricPoint& point, int rank);

// A message from the worker. Malformed lines and unknown types are `unknown`: the worker may be
// newer than this library.
struct WorkerLine {
  enum class Kind { unknown, welcome, ack, stop, checkpoint_request, committed, diagnose, error };
  Kind kind = Kind::unknown;
  int64_t metrics_seq = 0;  // welcome, ack
  int64_t step = -1;        // committed
  int64_t number = 0;       // diagnose
  std::string message;      // error; diagnose: the reason
};
WorkerLine parse_worker_line(std::string_view line);

}  // namespace muster
