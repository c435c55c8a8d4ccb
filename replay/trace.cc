#include "replay/trace.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/job/rules.h"
#include "common/problem.h"
#include "common/text/text.h"

namespace muster::replay {
namespace {

constexpr double kSecondsMax = 1e11;
constexpr uint32_t kDevicesMax = 1'000'000;

absl::Status Refused(size_t line, const std::string& what) {
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1004",
       .what = absl::StrCat("line ", line, " of the trace: ", what),
       .fix =
           "a trace is CSV with the columns submit_s, duration_s and devices, and perhaps project, "
           "priority and estimate_s"});
}

using Columns = std::map<std::string, size_t>;

class Row {
 public:
  Row(const Columns& columns, const std::string& text, size_t line)
      : columns_(columns), fields_(absl::StrSplit(text, ',')), line_(line) {}

  // The first of these columns that there is; empty: none is.
  std::string Text(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const auto column = columns_.find(name);
      if (column != columns_.end() && column->second < fields_.size())
        return std::string(absl::StripAsciiWhitespace(fields_[column->second]));
    }
    return "";
  }
  absl::StatusOr<int64_t> Ms(const char* name) const {
    const std::string text = Text({name});
    double seconds = 0;
    if (!absl::SimpleAtod(text, &seconds) || !std::isfinite(seconds) || seconds < 0 ||
        seconds > kSecondsMax) {
      return Refused(line_,
                     absl::StrCat(name, " is \"", common::Printable(text), "\", not seconds"));
    }
    return static_cast<int64_t>(seconds * 1000);
  }
  absl::StatusOr<TracedJob> Job(Estimates estimates) const {
    TracedJob job;
    ASSIGN_OR_RETURN(job.submit_ms, Ms("submit_s"));
    ASSIGN_OR_RETURN(job.duration_ms, Ms("duration_s"));
    job.duration_ms =
        std::clamp<int64_t>(job.duration_ms, job::kSecondMs, job::kMaxDurationMs.most);
    if (!absl::SimpleAtoi(Text({"devices", "gpus", "procs"}), &job.devices) ||
        job.devices > kDevicesMax) {
      return Refused(line_, "it has no number of devices");
    }
    job.devices = std::max(1u, job.devices);
    job.project = common::Printable(Text({"project", "vc"}));
    const std::string priority = Text({"priority"});
    if (!priority.empty() &&
        (!absl::SimpleAtoi(priority, &job.priority) || job.priority < job::kPriority.least ||
         job.priority > job::kPriority.most)) {
      return Refused(line_, absl::StrCat("priority is \"", common::Printable(priority), "\""));
    }
    if (estimates == Estimates::kTrue) job.estimate_ms = job.duration_ms;
    if (estimates == Estimates::kGiven && !Text({"estimate_s"}).empty()) {
      ASSIGN_OR_RETURN(job.estimate_ms, Ms("estimate_s"));
      job.estimate_ms = std::min<int64_t>(job.estimate_ms, job::kEstimateMs.most);
    }
    return job;
  }

 private:
  const Columns& columns_;
  const std::vector<std::string> fields_;
  const size_t line_;
};

}  // namespace

absl::StatusOr<std::vector<TracedJob>> ParseTrace(const std::string& csv, Estimates estimates) {
  Columns columns;
  std::vector<TracedJob> jobs;
  size_t number = 0;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (columns.empty()) {
      for (const std::string& name : std::vector<std::string>(absl::StrSplit(line, ',')))
        columns.emplace(std::string(absl::StripAsciiWhitespace(name)), columns.size());
      for (const char* needed : {"submit_s", "duration_s"}) {
        if (!columns.contains(needed))
          return Refused(number, absl::StrCat("there is no column ", needed));
      }
      continue;
    }
    if (line.empty()) continue;
    if (jobs.size() == kTracedJobsMax)
      return Refused(number, absl::StrCat("there are more than ", kTracedJobsMax, " jobs"));
    ASSIGN_OR_RETURN(jobs.emplace_back(), Row(columns, line, number).Job(estimates));
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const TracedJob& a, const TracedJob& b) {
    return a.submit_ms < b.submit_ms;
  });
  return jobs;
}

}  // namespace muster::replay
