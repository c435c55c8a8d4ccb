#include "client/export/event_files.h"

#include "client/command_line/errors.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/tensorboard/event_record.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

double SecondsOf(int64_t milliseconds) { return static_cast<double>(milliseconds) / 1000; }

}  // namespace

absl::StatusOr<EventFiles> EventFiles::Create(const std::string& directory,
                                              const v1::JobRecord& record,
                                              const std::vector<uint32_t>& ranks, bool replace) {
  if (ranks.size() > kRanksMax) {
    return Usage("JC1004",
                 StrCat(ranks.size(), " ranks of ", record.name(), " logged metrics; at most ",
                        kRanksMax, " are exported at once"),
                 "--rank N exports one rank's metrics");
  }
  // The name comes from the coordinator: checked before it becomes a path.
  if (!common::IsPathName(record.name())) {
    return common::MakeProblem(
        absl::StatusCode::kDataLoss,
        {.code = "JC1504",
         .what = StrCat("the job's name \"", record.name(), "\" cannot be a directory's name"),
         .fix = "export it as csv with --out FILE"});
  }
  EventFiles files;
  for (const uint32_t rank : ranks) {
    // The same name every time, so that a second export fails instead of being added to the first.
    const std::string path = StrCat(
        directory, "/", record.name(), rank == ranks[0] ? "" : StrCat("/rank-", rank),
        "/events.out.tfevents.", record.submitted_ms() / 1000, ".jobctl.", record.id(), ".", rank);
    ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path, replace));
    std::string head;
    common::AppendFileVersion(SecondsOf(record.submitted_ms()), &head);
    RETURN_IF_ERROR(file.Write(head));
    files.files_.emplace(rank, std::move(file));
  }
  return files;
}

absl::Status EventFiles::Add(const ExportedPoint& point) {
  const auto file = files_.find(point.rank);
  if (file == files_.end()) return absl::OkStatus();  // it began to log during the export
  record_.clear();
  common::AppendScalarEvent({.tag = point.name,
                             .step = point.step,
                             .value = point.value,
                             .wall_time = SecondsOf(point.time_ms)},
                            &record_);
  return file->second.Write(record_);
}

absl::Status EventFiles::Commit() {
  for (auto& [rank, file] : files_) RETURN_IF_ERROR(file.Commit());
  return absl::OkStatus();
}

}  // namespace muster::client
