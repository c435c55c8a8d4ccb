// jobctl stack: what every rank is doing, and which one the others are waiting for.
#include <algorithm>
#include <set>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/diagnosis/hang_report.h"
#include "client/session/session.h"
#include "client/terminal/record_json.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kStackFlags[] = {
    {"files", 0, "DIR", "read the records in this directory instead of querying a job's ranks"},
    {"full", 0, "", "include the stacks of all threads"},
    {"rank", 0, "N", "with --full or -o: only this rank's"},
    {"wait", 0, "TIME", "how long to wait for the ranks' answers (default 10s)"},
    kRecordOutputFlag,
};

struct Collected {
  int world_size = 0;
  std::vector<RankRecord> records;
};

absl::StatusOr<Collected> FromFiles(Session& session, const std::string& directory) {
  Collected collected;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, common::ListDirectory(directory));
  for (const std::string& name : names) {
    if (!name.starts_with("flight-rank-") || !name.ends_with(".json")) continue;
    // The ranks wrote them: an unreadable one must not hide the others.
    const absl::StatusOr<std::string> content = common::ReadFile(StrCat(directory, "/", name));
    absl::StatusOr<RankRecord> record =
        content.ok() ? ParseRankRecord(*content) : absl::StatusOr<RankRecord>(content.status());
    if (!record.ok()) {
      session.Note(StrCat(name, " is skipped: ", std::string(record.status().message())));
      continue;
    }
    collected.world_size = std::max(collected.world_size, record->world_size);
    collected.records.push_back(*std::move(record));
  }
  if (collected.records.empty()) {
    return common::MakeProblem(
        absl::StatusCode::kNotFound,
        {.code = "JC1210",
         .what = StrCat(directory, " holds no flight-rank-RRRRR.json"),
         .fix = "use the directory that the ranks got as MUSTER_DIAGNOSTICS_DIR"});
  }
  return collected;
}

absl::StatusOr<Collected> FromRanks(Session& session, const Arguments& arguments) {
  v1::DiagnoseJobRequest request;
  request.set_job(arguments.words()[0]);
  ASSIGN_OR_RETURN(const int64_t wait_ms, arguments.DurationMs("wait", 10'000));
  request.set_wait_ms(static_cast<uint32_t>(std::clamp<int64_t>(wait_ms, 1, 600'000)));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Collected collected;
  std::string name;
  RETURN_IF_ERROR(connection->DiagnoseJob(request, [&](const v1::DiagnoseJobUpdate& update) {
    if (update.has_attempt()) {
      collected.world_size = static_cast<int>(update.attempt().world_size());
      name = update.attempt().name();
      return true;
    }
    absl::StatusOr<RankRecord> record = ParseRankRecord(update.diagnosis().record());
    if (!record.ok()) return true;
    // What the worker reports is more reliable than what the rank reports.
    record->rank = static_cast<int>(update.diagnosis().rank());
    record->host = update.diagnosis().node();
    collected.records.push_back(*std::move(record));
    return true;
  }));
  if (collected.records.empty()) {
    return common::MakeProblem(
        absl::StatusCode::kDeadlineExceeded,
        {.code = "JC1210",
         .what = StrCat("no rank of ", name, " answered within ", wait_ms / 1000.0, " s"),
         .fix = StrCat("jobctl stack ", name,
                       " --wait 60s; jobctl nodes ls shows whether its "
                       "workers are connected")});
  }
  return collected;
}

std::vector<RecordFields> RunningCollectives(const RankRecord& record) {
  std::vector<RecordFields> list;
  for (const RankRecord::Collective& each : record.collectives) {
    if (!each.runs) continue;
    RecordFields& fields = list.emplace_back();
    fields.Add("operation", each.operation).Add("sequence", static_cast<int64_t>(each.sequence));
    fields.Add("group", each.group).Add("dtype", each.dtype).Add("bytes", each.bytes);
    fields.Add("failed", each.failed).Add("age_ms", each.age_ms);
  }
  return list;
}

RecordFields OutsideFields(const RankRecord::Outside& outside) {
  RecordFields fields;
  fields.Add("pid", outside.pid).Add("program", outside.program).Add("doing", outside.doing);
  fields.Add("cpu_seconds", outside.cpu_seconds).Add("frames_from", outside.frames);
  fields.Add("problem", outside.problem);
  return fields;
}

std::vector<RecordFields> ThreadFields(const RankRecord& record) {
  std::vector<RecordFields> list;
  for (const RankRecord::Thread& thread : record.threads) {
    RecordFields& fields = list.emplace_back();
    fields.Add("id", thread.id).Add("name", thread.name).Add("problem", thread.problem);
    fields.AddTexts("frames", thread.frames);
  }
  return list;
}

absl::StatusOr<std::string> StackRecord(const HangReport& report, const Collected& collected,
                                        int64_t only, const Arguments& arguments) {
  std::vector<RecordFields> ranks;
  for (const RankRecord& record : collected.records) {
    if (only >= 0 && record.rank != only) continue;
    RecordFields& fields = ranks.emplace_back();
    fields.Add("rank", int64_t{record.rank}).Add("node", record.host);
    fields.Add("reason", record.reason).Add("place", record.place).Add("time_ms", record.time_ms);
    fields.AddList("waits_in", RunningCollectives(record));
    if (record.outside.seen || !record.outside.problem.empty())
      fields.AddObject("outside", OutsideFields(record.outside));
    if (arguments.Has("full")) fields.AddList("threads", ThreadFields(record));
  }
  RecordFields fields;
  fields.Add("sentence", report.sentence).AddNumbers("suspects", report.suspects);
  fields.Add("world_size", int64_t{collected.world_size}).AddList("ranks", std::move(ranks));
  return RecordText("Stack", fields, arguments.Get("output"));
}

// Why ranks have no Python frames, and the fix: one line for all with the same reason.
void NoteMissingFrames(Session& session, const std::vector<RankRecord>& records) {
  std::set<std::string> noted;
  for (const RankRecord& record : records) {
    const std::string& problem = record.outside.problem;
    if (!problem.starts_with("no Python frames") || !noted.insert(problem).second) continue;
    session.Note(StrCat("rank ", record.rank, " on ", record.host, ": ", problem));
  }
}

absl::StatusOr<int> Stack(Session& session, const Arguments& arguments) {
  if (arguments.Has("files") != arguments.words().empty()) {
    return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                               {.code = "JC1004",
                                .what = "give either a job or --files DIR, not both",
                                .fix = "jobctl stack JOB"});
  }
  ASSIGN_OR_RETURN(const int64_t only, arguments.Number("rank", 0, 99'999, -1));
  ASSIGN_OR_RETURN(Collected collected, arguments.Has("files")
                                            ? FromFiles(session, arguments.Get("files"))
                                            : FromRanks(session, arguments));
  std::sort(collected.records.begin(), collected.records.end(),
            [](const RankRecord& a, const RankRecord& b) { return a.rank < b.rank; });
  const HangReport report = MakeHangReport(collected.world_size, collected.records);
  if (arguments.Has("output")) {
    ASSIGN_OR_RETURN(const std::string text, StackRecord(report, collected, only, arguments));
    session.Print(text);
    return 0;
  }
  session.Print(StrCat(report.sentence, "\n\n", report.table));
  if (!arguments.Has("full")) {
    NoteMissingFrames(session, collected.records);
    return 0;
  }
  for (const RankRecord& record : collected.records) {
    if (only < 0 || record.rank == only) session.Print(StrCat("\n", StacksText(record)));
  }
  return 0;
}

}  // namespace

const Command kStackCommand = {
    .name = "stack",
    .place = 270,
    .summary = "show what every rank is doing, and which one the others wait for",
    .arguments = "[JOB]",
    .least = 0,
    .most = 1,
    .flags = kStackFlags,
    .completes = "job",
    .examples =
        "jobctl stack calm-otter-3\twhich rank blocks the job, and where\n"
        "jobctl stack calm-otter-3 --full --rank 1\tall threads of rank 1\n"
        "jobctl stack --files diagnostics\tthe records of a run without a coordinator",
    .run = Stack};

}  // namespace muster::client
