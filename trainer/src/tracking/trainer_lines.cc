// The trainer socket's JSON; see trainer_lines.h.
#include "tracking/trainer_lines.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/version.h"
#include "tracking/text.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// JSON cannot represent NaN and infinities; docs/protocol.md defines strings for them.
Json json_value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json json_point(const MetricPoint& point) {
  return {{"name", point.name},
          {"step", point.step},
          {"value", json_value(point.value)},
          {"time_ms", point.time_ms}};
}

std::string line_of(const Json& json) { return json.dump() + "\n"; }

bool is_printable_ascii(char byte) { return byte >= 0x20 && byte < 0x7f; }

// Length in bytes of the UTF-8 sequence at the start of text; 0 if it is invalid or a control
// character.
size_t printable_length(std::string_view text) {
  const size_t length = utf8_length(text);
  if (length == 1) return is_printable_ascii(text[0]) ? 1 : 0;
  const bool second_controls = text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
  return length == 2 && second_controls ? 0 : length;
}

WorkerLine::Kind kind_of(const std::string& type) {
  using Kind = WorkerLine::Kind;
  if (type == "welcome") return Kind::welcome;
  if (type == "ack") return Kind::ack;
  if (type == "stop") return Kind::stop;
  if (type == "checkpoint_request") return Kind::checkpoint_request;
  if (type == "committed") return Kind::committed;
  if (type == "diagnose") return Kind::diagnose;
  if (type == "error") return Kind::error;
  return Kind::unknown;
}

}  // namespace

std::string clean_metric_name(std::string_view name) {
  name = name.substr(0, kMetricNameBytesMax);
  if (name.empty()) return "_";
  if (std::all_of(name.begin(), name.end(), is_printable_ascii)) return std::string(name);
  std::string clean;
  while (!name.empty()) {
    const size_t length = printable_length(name);
    if (length == 0) {
      clean += '_';
    } else {
      clean += name.substr(0, length);
    }
    name.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

std::string hello_line(const Hello& hello) {
  Json json = {{"type", "hello"},
               {"version", 1},
               {"job", hello.job},
               {"attempt", hello.attempt},
               {"rank", hello.rank},
               {"pid", hello.pid},
               {"client", std::string("muster-trainer/") + kVersion}};
  if (!hello.token.empty()) json["token"] = hello.token;
  return line_of(json);
}

std::string metrics_line(int64_t seq, const std::vector<MetricPoint>& points) {
  Json list = Json::array();
  for (const MetricPoint& point : points) list.push_back(json_point(point));
  return line_of({{"type", "metrics"}, {"seq", seq}, {"points", std::move(list)}});
}

std::string progress_line(int64_t step, int64_t total) {
  return line_of({{"type", "progress"}, {"step", step}, {"total", std::max<int64_t>(total, 0)}});
}

std::string checkpoint_line(int64_t step) {
  return line_of({{"type", "checkpoint"}, {"step", step}});
}

std::string dropped_line(uint64_t metrics) {
  return line_of({{"type", "dropped"}, {"metrics", metrics}});
}

std::string diagnosis_line(int64_t number, std::string_view record) {
  return "{\"type\":\"diagnosis\",\"number\":" + std::to_string(number) +
         ",\"record\":" + std::string(record) + "}\n";
}

std::string file_line(const MetricPoint& point, int rank) {
  Json json = json_point(point);
  json["rank"] = rank;
  return line_of(json);
}

WorkerLine parse_worker_line(std::string_view text) {
  WorkerLine line;
  try {
    const Json json = Json::parse(text.begin(), text.end());
    if (!json.is_object()) return line;
    const WorkerLine::Kind kind = kind_of(json.value("type", ""));
    line.metrics_seq = json.value("metrics_seq", int64_t{0});
    line.step = json.value("step", int64_t{-1});
    line.number = json.value("number", int64_t{0});
    line.message = json.value(kind == WorkerLine::Kind::diagnose ? "reason" : "message", "");
    line.kind = kind;
  } catch (const Json::exception&) {
  }
  return line;
}

}  // namespace muster
