// A CSV file as a run.
#include <fcntl.h>

#include <optional>

#include "client/compare/csv_metrics.h"
#include "client/compare/csv_rows.h"
#include "client/compare/read_run.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kCsvPieceBytes = 1 << 20;

absl::Status BadCsv(const std::string& path, const absl::Status& error, size_t line) {
  if (!common::CodeOf(error).empty()) return error;
  return NotMetrics(common::StrCat(path, line > 0 ? common::StrCat(":", line) : "", ": ",
                                   common::MessageOf(error)),
                    "the first line names the columns: step,loss,… or step,name,value; the fields "
                    "are separated by commas");
}

class CsvFile {
 public:
  CsvFile(const std::string& path, const compare::WantedMetrics& wanted,
          compare::PointBudget* budget)
      : path_(path), wanted_(wanted), builder_(wanted, budget) {}

  absl::Status AddRow(const std::vector<std::string>& fields, size_t line) {
    if (metrics_) {
      RETURN_IF_ERROR(CheckOneJob(fields, line));
      const absl::Status added = metrics_->AddRow(fields, wanted_, &builder_);
      return added.ok() ? added : BadCsv(path_, added, line);
    }
    absl::StatusOr<CsvMetrics> header = CsvMetrics::FromHeader(fields);
    if (!header.ok()) return BadCsv(path_, header.status(), line);
    metrics_ = *std::move(header);
    for (const std::string& name : metrics_->metrics()) {
      if (!name.empty()) builder_.Know(name);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<compare::ComparedRun> Finish() {
    if (!metrics_) return BadCsv(path_, absl::InvalidArgumentError("the file is empty"), 0);
    return builder_.Finish(path_);
  }

 private:
  // The measurements of several jobs are not one run.
  absl::Status CheckOneJob(const std::vector<std::string>& fields, size_t line) {
    const std::string job = metrics_->JobOf(fields);
    if (job.empty() || job == job_) return absl::OkStatus();
    if (job_.empty()) {
      job_ = job;
      return absl::OkStatus();
    }
    return NotMetrics(StrCat(path_, ":", line, ": the file has metrics of several jobs: ",
                             common::Printable(job_), " and ", common::Printable(job)),
                      StrCat("one file for each: jobctl export ", common::Printable(job),
                             " --to csv --out ", common::Printable(job), ".csv"));
  }

  const std::string path_;
  const compare::WantedMetrics& wanted_;
  compare::RunBuilder builder_;
  std::optional<CsvMetrics> metrics_;
  std::string job_;
};

}  // namespace

absl::StatusOr<compare::ComparedRun> ReadCsvRun(const std::string& path,
                                                const compare::WantedMetrics& wanted,
                                                compare::PointBudget* budget) {
  const absl::StatusOr<common::UniqueFd> file = common::OpenRegular(path, O_RDONLY);
  if (!file.ok()) return UnreadableRun(file.status());
  CsvFile csv(path, wanted, budget);
  CsvRows rows([&csv](const auto& fields, size_t line) { return csv.AddRow(fields, line); });
  uint64_t offset = 0;
  while (true) {
    const absl::StatusOr<std::string> piece =
        common::ReadAt(file->get(), offset, kCsvPieceBytes, path);
    if (!piece.ok()) return UnreadableRun(piece.status());
    if (piece->empty()) break;
    std::string_view bytes = *piece;
    if (offset == 0 && bytes.starts_with(kByteOrderMark)) {
      bytes.remove_prefix(kByteOrderMark.size());
    }
    if (const absl::Status fed = rows.Feed(bytes); !fed.ok()) return BadCsv(path, fed, 0);
    offset += piece->size();
  }
  if (const absl::Status ended = rows.Finish(); !ended.ok()) return BadCsv(path, ended, 0);
  return csv.Finish();
}

}  // namespace muster::client
