// jobctl export.
#include <optional>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/compare/configuration.h"
#include "client/connection/connection.h"
#include "client/export/event_files.h"
#include "client/export/job_points.h"
#include "client/export/mlflow.h"
#include "client/export/trace.h"
#include "client/machine/output_file.h"
#include "client/session/session.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr uint32_t kTracedEventsMax = 100'000;  // the newest of each job
constexpr size_t kPrintedPieceBytes = 64 * 1024;

constexpr Flag kExportFlags[] = {
    {"to", 0, "FORMAT", "tensorboard, csv, jsonl, mlflow or perfetto",
     "tensorboard|csv|jsonl|mlflow|perfetto"},
    {"out",
     0,
     "PATH",
     "directory for tensorboard (exported), file for the others (stdout)",
     {},
     "file"},
    {"key", 0, "NAMES", "only these metrics, separated by commas; * and ? match"},
    {"rank", 0, "N", "only this rank's metrics"},
    {"attempt", 0, "N", "only this attempt (default: the job's effective history)"},
    {"force", 0, "", "replace files that exist"},
    {"url", 0, "URL", "mlflow: the tracking server, http://HOST:PORT or https://HOST"},
    {"experiment", 0, "NAME", "mlflow: created if missing (muster)"},
};

// What is exported, checked before anything is written.
struct ExportRequest {
  std::vector<v1::JobRecord> jobs;
  std::vector<v1::MetricSummaries> summaries;  // of each job
  std::vector<std::vector<uint32_t>> ranks;    // of each job: those that logged
  PointSelection selection;
  std::string out;
  bool force = false;
};

absl::StatusOr<ExportRequest> ExportRequestOf(const Arguments& arguments, Connection& connection) {
  ExportRequest request;
  request.selection.keys = arguments.Listed("key");
  ASSIGN_OR_RETURN(request.selection.rank, arguments.Number("rank", 0, INT32_MAX, -1));
  ASSIGN_OR_RETURN(request.selection.attempt, arguments.Number("attempt", 0, INT32_MAX, -1));
  request.out = arguments.Get("out");
  request.force = arguments.Has("force");
  const bool has_points = arguments.Get("to") != "perfetto";
  for (const std::string& word : arguments.words()) {
    ASSIGN_OR_RETURN(v1::GetJobResponse job, connection.GetJob(word));
    request.jobs.push_back(std::move(*job.mutable_record()));
    if (!has_points) continue;
    const std::string& name = request.jobs.back().name();
    ASSIGN_OR_RETURN(v1::MetricSummaries summaries, connection.SummarizeMetrics(name));
    ASSIGN_OR_RETURN(std::vector<uint32_t> ranks,
                     RanksOfPoints(name, summaries, request.selection));
    request.summaries.push_back(std::move(summaries));
    request.ranks.push_back(std::move(ranks));
  }
  return request;
}

absl::Status ForEachPointOf(Connection& connection, const ExportRequest& request, size_t job,
                            uint64_t* count, const OnPoint& on_point) {
  return ForEachPoint(connection, request.jobs[job].name(), request.summaries[job],
                      request.selection, [&](const ExportedPoint& point) {
                        ++*count;
                        return on_point(point);
                      });
}

void NotePoints(Session& session, const ExportRequest& request, size_t job, uint64_t count,
                const std::string& where) {
  session.Note(
      StrCat(request.jobs[job].name(), ": ", common::Counted(count, "point"), " to ", where));
}

// Stdout, or a file that appears only once it is complete.
class TextOutput {
 public:
  static absl::StatusOr<TextOutput> Open(Session& session, const ExportRequest& request) {
    TextOutput output(session);
    if (request.out.empty() || request.out == "-") return output;
    ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(request.out, request.force));
    output.file_.emplace(std::move(file));
    return output;
  }
  absl::Status Write(std::string_view text) {
    if (file_) return file_->Write(text);
    session_->Print(text);
    return absl::OkStatus();
  }
  absl::Status Commit() { return file_ ? file_->Commit() : absl::OkStatus(); }
  std::string name() const { return file_ ? file_->path() : "stdout"; }

 private:
  explicit TextOutput(Session& session) : session_(&session) {}
  Session* session_;
  std::optional<OutputFile> file_;
};

absl::Status ExportText(Session& session, Connection& connection, const ExportRequest& request,
                        bool as_csv) {
  ASSIGN_OR_RETURN(TextOutput output, TextOutput::Open(session, request));
  std::string text = as_csv ? std::string(kCsvPointHead) : "";
  std::vector<uint64_t> counts(request.jobs.size());
  for (size_t i = 0; i < request.jobs.size(); ++i) {
    RETURN_IF_ERROR(ForEachPointOf(connection, request, i, &counts[i],
                                   [&](const ExportedPoint& point) -> absl::Status {
                                     (as_csv ? AppendCsvPoint : AppendJsonPoint)(point, &text);
                                     if (text.size() < kPrintedPieceBytes) return absl::OkStatus();
                                     const absl::Status written = output.Write(text);
                                     text.clear();
                                     return written;
                                   }));
  }
  RETURN_IF_ERROR(output.Write(text));
  RETURN_IF_ERROR(output.Commit());
  for (size_t i = 0; i < counts.size(); ++i) {
    NotePoints(session, request, i, counts[i], output.name());
  }
  return absl::OkStatus();
}

absl::Status ExportEvents(Session& session, Connection& connection, const ExportRequest& request) {
  const std::string directory = request.out.empty() ? "exported" : request.out;
  std::vector<EventFiles> all;
  std::vector<uint64_t> counts(request.jobs.size());
  for (size_t i = 0; i < request.jobs.size(); ++i) {
    ASSIGN_OR_RETURN(EventFiles files, EventFiles::Create(directory, request.jobs[i],
                                                          request.ranks[i], request.force));
    RETURN_IF_ERROR(ForEachPointOf(connection, request, i, &counts[i],
                                   [&](const ExportedPoint& point) { return files.Add(point); }));
    all.push_back(std::move(files));
  }
  for (EventFiles& files : all) RETURN_IF_ERROR(files.Commit());
  for (size_t i = 0; i < counts.size(); ++i) {
    NotePoints(session, request, i, counts[i],
               request.ranks[i].empty() ? "no file: it has no such metrics"
                                        : StrCat(directory, "/", request.jobs[i].name()));
  }
  session.Note(StrCat("next: tensorboard --logdir ", ShellQuote(directory)));
  return absl::OkStatus();
}

// The configuration without the environment, which may hold secrets.
std::vector<std::pair<std::string, std::string>> ParamsOf(const v1::JobRecord& record) {
  std::vector<std::pair<std::string, std::string>> params;
  for (const auto& [field, value] : ConfigurationOf(record, {})) {
    if (!field.second.starts_with("env ")) params.emplace_back(field.second, value);
  }
  return params;
}

absl::Status ExportToMlflow(Session& session, Connection& connection, const ExportRequest& request,
                            const Arguments& arguments) {
  ASSIGN_OR_RETURN(MlflowServer server, MlflowServer::At(arguments.Get("url")));
  ASSIGN_OR_RETURN(const std::string experiment,
                   server.ExperimentId(arguments.Get("experiment", "muster")));
  for (size_t i = 0; i < request.jobs.size(); ++i) {
    const v1::JobRecord& job = request.jobs[i];
    ASSIGN_OR_RETURN(MlflowRun run, MlflowRun::Create(&server, experiment, job, ParamsOf(job)));
    const uint32_t first_rank = request.ranks[i].empty() ? 0 : request.ranks[i][0];
    uint64_t count = 0;
    absl::Status sent =
        ForEachPointOf(connection, request, i, &count,
                       [&](const ExportedPoint& point) { return run.Add(point, first_rank); });
    if (sent.ok()) sent = run.Finish(job);
    if (!sent.ok()) {
      run.Delete();
      return sent;
    }
    session.Note(StrCat(job.name(), ": ", common::Counted(count, "point"), " to run ", run.id(),
                        " of experiment ", experiment));
  }
  return absl::OkStatus();
}

absl::Status ExportTrace(Session& session, Connection& connection, const ExportRequest& request) {
  ASSIGN_OR_RETURN(TextOutput output, TextOutput::Open(session, request));
  std::vector<TracedJob> jobs;
  for (const v1::JobRecord& record : request.jobs) {
    TracedJob job{.record = record};
    v1::ListEventsRequest events;
    events.set_job(std::to_string(record.id()));
    events.set_limit(kTracedEventsMax);
    RETURN_IF_ERROR(connection.ListEvents(events, [&job](const v1::EventBatch& batch) {
      job.events.insert(job.events.end(), batch.events().begin(), batch.events().end());
      job.texts.insert(job.texts.end(), batch.texts().begin(), batch.texts().end());
      return true;
    }));
    jobs.push_back(std::move(job));
  }
  RETURN_IF_ERROR(output.Write(TraceOf(jobs, WallMs())));
  RETURN_IF_ERROR(output.Commit());
  session.Note(StrCat("trace of ", common::Counted(jobs.size(), "job"), " to ", output.name(),
                      "; open it at ui.perfetto.dev or chrome://tracing"));
  return absl::OkStatus();
}

absl::StatusOr<int> Export(Session& session, const Arguments& arguments) {
  const std::string to = arguments.Get("to");
  if (to.empty()) {
    return Usage("JC1004", "--to is missing", "--to tensorboard, csv, jsonl, mlflow or perfetto");
  }
  if ((to == "mlflow") != arguments.Has("url")) {
    return Usage("JC1004", to == "mlflow" ? "--to mlflow needs --url" : "--url is for --to mlflow",
                 "--to mlflow --url http://HOST:5000");
  }
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const ExportRequest request, ExportRequestOf(arguments, *connection));
  // A retry would print or send points twice.
  session.DoNotRepeat();
  if (to == "tensorboard") {
    RETURN_IF_ERROR(ExportEvents(session, *connection, request));
  } else if (to == "mlflow") {
    RETURN_IF_ERROR(ExportToMlflow(session, *connection, request, arguments));
  } else if (to == "perfetto") {
    RETURN_IF_ERROR(ExportTrace(session, *connection, request));
  } else {
    RETURN_IF_ERROR(ExportText(session, *connection, request, to == "csv"));
  }
  return kExitOk;
}

}  // namespace

const Command kExportCommand = {
    .name = "export",
    .place = 140,
    .summary = "write metrics for other programs, or a trace of the jobs",
    .arguments = "JOB…",
    .least = 1,
    .most = -1,
    .flags = kExportFlags,
    .completes = "job",
    .examples =
        "jobctl export calm-otter-3 --to tensorboard\tthen: tensorboard --logdir exported\n"
        "jobctl export calm-otter-3 red-fox-4 --to csv --out runs.csv\ta line for each point\n"
        "jobctl export @last --to jsonl --key 'train/*'\ton stdout\n"
        "jobctl export @last --to mlflow --url http://mlflow:5000\tas an MLflow run\n"
        "jobctl export @last --to perfetto --out trace.json\tfor ui.perfetto.dev",
    .notes =
        "tensorboard  DIR/JOB/events.out.tfevents…; ranks other than the lowest that\n"
        "             logged are separate runs, JOB/rank-N. TensorBoard's values\n"
        "             are 32-bit floats\n"
        "csv, jsonl   job, attempt, rank, step, time_ms, name, value; exact values. A\n"
        "             spreadsheet reads a name that starts with = + - or @ as a formula\n"
        "mlflow       metrics, and the job's configuration without its environment as\n"
        "             params; characters that MLflow refuses in a name become _.\n"
        "             With https its certificate must be one of the host; SSL_CERT_FILE\n"
        "             names the file of authorities that the system does not know\n"
        "perfetto     states, attempts, checkpoints and events of the jobs, and the\n"
        "             lifetime of each rank\n\n"
        "No existing file is replaced without --force, and none is left half written.",
    .run = Export};

}  // namespace muster::client
