// json_lines: messages of trainers, as JSON.
#include "worker/base/json_lines.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::worker {
namespace {

using nlohmann::json;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

template <typename T>
absl::StatusOr<T> Integer(const json& object, const char* key) {
  auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) {
    return Bad(common::StrCat("\"", key, "\" must be an integer"));
  }
  if (found->is_number_unsigned()) {
    const uint64_t value = found->get<uint64_t>();
    if (value <= static_cast<uint64_t>(std::numeric_limits<T>::max())) return static_cast<T>(value);
  } else {
    const int64_t value = found->get<int64_t>();
    if (value >= static_cast<int64_t>(std::numeric_limits<T>::min())) return static_cast<T>(value);
  }
  return Bad(common::StrCat("\"", key, "\" is out of range"));
}

absl::StatusOr<double> Value(const json& point) {
  auto found = point.find("value");
  if (found != point.end() && found->is_number()) return found->get<double>();
  if (found != point.end() && found->is_string()) {
    const std::string& text = found->get_ref<const std::string&>();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  }
  return Bad("\"value\" must be a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
}

absl::Status ReadPoint(const json& point, v1::MetricPoint* out) {
  if (!point.is_object()) return Bad("a point must be an object");
  auto name = point.find("name");
  if (name == point.end() || !name->is_string()) return Bad("a point needs a \"name\"");
  const std::string& text = name->get_ref<const std::string&>();
  if (text.empty() || text.size() > kMetricNameBytesMax || !common::IsCleanUtf8(text)) {
    return Bad(common::StrCat("a metric's name must be 1 to ", kMetricNameBytesMax,
                              " bytes without control characters"));
  }
  out->set_name(text);
  ASSIGN_OR_RETURN(const int64_t step, Integer<int64_t>(point, "step"));
  ASSIGN_OR_RETURN(const double value, Value(point));
  out->set_step(step);
  out->set_value(value);
  if (point.contains("time_ms")) {
    ASSIGN_OR_RETURN(const int64_t time_ms, Integer<int64_t>(point, "time_ms"));
    out->set_time_ms(time_ms);
  }
  return absl::OkStatus();
}

absl::Status ReadMetrics(const json& object, TrainerLine* line) {
  ASSIGN_OR_RETURN(const uint64_t seq, Integer<uint64_t>(object, "seq"));
  line->batch.set_seq(seq);
  auto points = object.find("points");
  if (points == object.end() || !points->is_array()) return Bad("\"points\" must be a list");
  // One invalid point must not block the batches after it: it is skipped and reported, and the rest
  // counts.
  for (const json& point : *points) {
    if (static_cast<size_t>(line->batch.points_size()) == kPointsPerBatchMax) {
      line->left_out =
          common::StrCat("a batch may have at most ", kPointsPerBatchMax, " points, this one has ",
                         points->size(), "; the rest is dropped");
      break;
    }
    const absl::Status read = ReadPoint(point, line->batch.add_points());
    if (read.ok()) continue;
    line->batch.mutable_points()->RemoveLast();
    line->left_out = common::StrCat("a point was skipped: ", common::FromAbsl(read.message()));
  }
  return absl::OkStatus();
}

absl::Status ReadHello(const json& object, TrainerLine* line) {
  ASSIGN_OR_RETURN(line->version, Integer<uint32_t>(object, "version"));
  ASSIGN_OR_RETURN(line->job, Integer<uint64_t>(object, "job"));
  ASSIGN_OR_RETURN(line->attempt, Integer<uint32_t>(object, "attempt"));
  ASSIGN_OR_RETURN(line->rank, Integer<uint32_t>(object, "rank"));
  if (auto token = object.find("token"); token != object.end()) {
    if (!token->is_string()) return Bad("\"token\" must be a string");
    line->token = token->get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status ReadFields(const json& object, const std::string& type, TrainerLine* line) {
  using Kind = TrainerLine::Kind;
  if (type == "hello") {
    line->kind = Kind::kHello;
    return ReadHello(object, line);
  }
  if (type == "metrics") {
    line->kind = Kind::kMetrics;
    return ReadMetrics(object, line);
  }
  if (type == "progress") {
    line->kind = Kind::kProgress;
    ASSIGN_OR_RETURN(line->step, Integer<int64_t>(object, "step"));
    if (object.contains("total")) {
      ASSIGN_OR_RETURN(line->total, Integer<uint64_t>(object, "total"));
    }
  } else if (type == "checkpoint") {
    line->kind = Kind::kCheckpoint;
    ASSIGN_OR_RETURN(line->step, Integer<int64_t>(object, "step"));
  } else if (type == "dropped") {
    line->kind = Kind::kDropped;
    ASSIGN_OR_RETURN(line->dropped, Integer<uint64_t>(object, "metrics"));
  } else if (type == "diagnosis") {
    line->kind = Kind::kDiagnosis;
    ASSIGN_OR_RETURN(line->number, Integer<uint64_t>(object, "number"));
    auto record = object.find("record");
    if (record == object.end() || !record->is_object()) return Bad("\"record\" must be an object");
    line->record = record->dump(-1, ' ', false, json::error_handler_t::replace);
    if (line->record.size() > kDiagnosisBytesMax) {
      return Bad(common::StrCat("a record may have at most ", kDiagnosisBytesMax, " bytes"));
    }
  }
  return absl::OkStatus();
}

std::string Dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::StatusOr<TrainerLine> ParseTrainerLine(std::string_view text) {
  // Printing and comparing recurse: half a million brackets once overflowed the stack.
  if (common::NestsDeeper(text, common::kJsonDepthMax)) {
    return Bad(common::StrCat("this line is nested deeper than ", common::kJsonDepthMax,
                              " levels; fix: send a flatter object"));
  }
  const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return Bad("this line is not JSON");
  if (!object.is_object()) return Bad("a line must be a JSON object");
  auto type = object.find("type");
  if (type == object.end() || !type->is_string()) return Bad("a line needs a \"type\"");
  TrainerLine line;
  RETURN_IF_ERROR(ReadFields(object, type->get<std::string>(), &line));
  return line;
}

std::string WelcomeLine(uint64_t metrics_seq) {
  return Dump({{"type", "welcome"}, {"version", 1}, {"metrics_seq", metrics_seq}});
}
std::string AckLine(uint64_t metrics_seq) {
  return Dump({{"type", "ack"}, {"metrics_seq", metrics_seq}});
}
std::string StopLine(const std::string& reason, uint32_t grace_ms) {
  return Dump({{"type", "stop"}, {"reason", reason}, {"grace_ms", grace_ms}});
}
std::string CommittedLine(int64_t step) { return Dump({{"type", "committed"}, {"step", step}}); }
std::string CheckpointRequestLine() { return Dump({{"type", "checkpoint_request"}}); }
std::string DiagnoseLine(uint64_t number, const std::string& reason) {
  return Dump({{"type", "diagnose"}, {"number", number}, {"reason", reason}});
}
std::string ErrorLine(std::string_view message) {
  return Dump({{"type", "error"}, {"message", std::string(message)}});
}

std::string ErrorFileMessage(const std::string& content) {
  if (common::NestsDeeper(content, common::kJsonDepthMax)) return "";
  const json object = json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return "";
  auto message = object.find("message");
  if (message == object.end()) return "";
  std::string text;
  if (message->is_string()) {
    text = message->get<std::string>();
  } else if (message->is_object()) {
    auto inner = message->find("message");
    if (inner != message->end() && inner->is_string()) text = inner->get<std::string>();
  }
  if (text.size() > common::kErrorMessageBytesMax) text.resize(common::kErrorMessageBytesMax);
  return common::Printable(text, /*keep_layout=*/true);
}

}  // namespace muster::worker
