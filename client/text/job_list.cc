#include "client/text/job_list.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "client/text/assessment_text.h"
#include "client/text/cells.h"
#include "client/text/record_text.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

// Without the time in the queue between two attempts; -1: it never ran.
int64_t RanMs(const v1::JobSummary& job) {
  if (job.first_running_ms() == 0) return -1;
  const int64_t since_ms = job.running_since_ms();
  return job.ran_ms() + (since_ms > 0 ? std::max<int64_t>(0, WallMs() - since_ms) : 0);
}

std::vector<Cell> JobRow(const v1::JobSummary& job) {
  const int64_t ran_ms = RanMs(job);
  Cell step;
  if (job.step() > 0 || job.has_loss()) step = Cell(job.step());
  Cell loss;
  if (job.has_loss()) loss = Cell(Value(job.loss()), absl::StrFormat("%.4g", job.loss()));
  Cell eta;
  if (job.has_eta_ms()) eta = Cell(Value(job.eta_ms()), EtaText(job.eta_ms()));
  Cell checkpoint;
  if (job.checkpoint_step() > 0) checkpoint = Cell(job.checkpoint_step());
  const std::string devices =
      job.device_kind().empty() ? "" : StrCat(job.ranks(), " ", job.device_kind());
  Cell labels(Value(Pairs()), "");
  LabelsByKey by_key = SortedLabels(job.labels());
  if (!by_key.empty()) labels = Cell(Value(by_key), LabelsText(by_key));
  Cell exit_code;
  if (job.finished_ms() > 0) exit_code = Cell(int64_t{job.exit_code()});
  return {Cell(job.name()),
          Cell(Value(int64_t{static_cast<int64_t>(job.id())}), std::to_string(job.id())),
          Cell(StateName(job.state())), Cell(int64_t{job.ranks()}), Cell(devices), step, loss,
          job.has_loss() ? Cell(std::string(LossName(job))) : Cell(), eta, checkpoint,
          AgeCell(job.submitted_ms()), ran_ms < 0 ? Cell() : Cell(Value(ran_ms), Took(ran_ms)),
          Cell(int64_t{job.attempts()}), exit_code, Cell(Value(job.owner()), OwnerText(job)),
          Cell(job.owner_id()), Cell(job.project()), labels,
          // For a job that succeeded, the state says it all.
          Cell(Value(job.reason()), job.state() == v1::JOB_STATE_SUCCEEDED ? "" : job.reason()),
          Cell(job.command())};
}

}  // namespace

Listing JobListing(const v1::ListJobsResponse& response) {
  Listing listing;
  listing.kind = "JobList";
  listing.columns = {{.key = "job", .names = true},
                     {.key = "id", .wide = true, .right = true},
                     {.key = "state"},
                     {.key = "ranks", .wide = true, .right = true},
                     {.key = "devices"},
                     {.key = "step", .right = true},
                     {.key = "loss", .right = true},
                     {.key = "loss_name", .wide = true, .names = true},
                     {.key = "eta", .right = true, .value_name = "eta_ms"},
                     {.key = "checkpoint", .wide = true, .right = true},
                     {.key = "age", .right = true, .value_name = "submitted_ms", .since = true},
                     {.key = "ran", .right = true, .value_name = "ran_ms"},
                     {.key = "attempts", .wide = true, .right = true},
                     {.key = "exit", .wide = true, .right = true},
                     {.key = "owner", .wide = true},
                     {.key = "owner_id", .wide = true},
                     {.key = "project", .wide = true},
                     {.key = "labels", .wide = true, .list = true},
                     {.key = "reason", .shrink = true},
                     {.key = "command", .wide = true, .shrink = true}};
  for (const v1::JobSummary& job : response.jobs()) listing.rows.push_back(JobRow(job));
  return listing;
}

Listing WastedListing(const v1::ListJobsResponse& response) {
  Listing listing;
  listing.kind = "WastedList";
  listing.columns = {{.key = "job", .names = true},
                     {.key = "state"},
                     {.key = "devices"},
                     {.key = "wasted", .right = true, .value_name = "wasted_device_us"},
                     {.key = "code", .wide = true},
                     {.key = "finding", .shrink = true},
                     {.key = "cause", .wide = true, .shrink = true},
                     {.key = "fix", .wide = true, .shrink = true}};
  for (const v1::JobSummary& job : response.jobs()) {
    if (!job.has_finding()) continue;
    const v1::Finding& finding = job.finding();
    const double hours = static_cast<double>(job.wasted_device_us()) / 3.6e9;
    listing.rows.push_back(
        {Cell(job.name()), Cell(StateName(job.state())),
         Cell(StrCat(job.ranks(), " ", job.device_kind())),
         Cell(Value(int64_t{job.wasted_device_us()}),
              hours < 0.1 ? DeviceTime(job.wasted_device_us()) : absl::StrFormat("%.1f h", hours)),
         Cell(finding.code()), Cell(finding.sentence()), Cell(finding.cause()),
         Cell(finding.fix())});
  }
  return listing;
}

}  // namespace muster::client
