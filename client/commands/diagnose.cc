// jobctl diagnose: why a job failed or makes no progress, on one screen or with all data in a file.
#include <algorithm>
#include <set>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/diagnosis/bundle.h"
#include "client/diagnosis/first_cause.h"
#include "client/diagnosis/gather.h"
#include "client/diagnosis/report.h"
#include "client/session/session.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kLogBytesPerRank = 1 << 20;
// limit: jobctl: output in a bundle; the rest is left out
constexpr size_t kLogBytesInAll = 64 << 20;
// limit: jobctl: ranks whose output a bundle has; others are left out
constexpr size_t kLogRanksMax = 256;

constexpr Flag kDiagnoseFlags[] = {
    {"bundle",
     0,
     "FILE.tar.gz",
     "also write everything into this file, with no secret but what ranks printed",
     {},
     "file"},
    {"force", 0, "", "with --bundle: replace an existing file"},
    {"wait", 0, "TIME", "how long to wait for running ranks' stacks (default 6s)"},
    {"output", 'o', "FORMAT", "json instead of text", "json"},
};

// The ranks whose output the bundle holds: those that failed, in order, then the others.
std::vector<uint32_t> RanksToPack(const CaseFile& file, const FirstCause& cause) {
  std::vector<uint32_t> ranks;
  std::set<uint32_t> seen;
  const auto add = [&](uint32_t rank) {
    if (ranks.size() < kLogRanksMax && seen.insert(rank).second) ranks.push_back(rank);
  };
  for (const uint32_t rank : cause.ranks) add(rank);
  const v1::Attempt* attempt = AttemptTold(file.job);
  if (attempt == nullptr) return ranks;
  for (const v1::RankExit& exit : DeathsInOrder(*attempt)) add(exit.rank());
  for (uint32_t rank = 0; rank < attempt->world_size() && ranks.size() < kLogRanksMax; ++rank)
    add(rank);
  return ranks;
}

absl::Status Pack(Session& session, Connection& connection, const Arguments& arguments,
                  const FirstCause& cause, CaseFile* file) {
  BundleParts parts;
  parts.report = DiagnosisText(*file, cause);
  parts.metrics = MetricRows(connection, *file, &file->gaps);
  size_t bytes = 0;
  const std::vector<uint32_t> ranks = RanksToPack(*file, cause);
  for (const uint32_t rank : ranks) {
    if (bytes >= kLogBytesInAll) break;
    parts.logs.emplace_back(rank, TailOf(connection, *file, rank, kLogBytesPerRank, &file->gaps));
    bytes += parts.logs.back().second.size();
  }
  const v1::Attempt* attempt = AttemptTold(file->job);
  if (attempt != nullptr && parts.logs.size() < attempt->world_size()) {
    file->gaps.push_back(StrCat("the bundle has the output of ", parts.logs.size(), " of ",
                                attempt->world_size(), " ranks"));
  }
  Redaction redaction;
  redaction.LearnFrom(file->job.spec());
  ASSIGN_OR_RETURN(const std::vector<ArchiveFile> files,
                   BundleFiles(*file, std::move(parts), &redaction));
  ASSIGN_OR_RETURN(const std::string archive,
                   MakeTarGz(StrCat("diagnosis-job-", file->job.id()), files, file->now_ms / 1000));
  const std::string path = arguments.Get("bundle");
  RETURN_IF_ERROR(WriteBundle(path, archive, arguments.Has("force")));
  uint64_t hidden = 0;
  for (const auto& [kind, count] : redaction.hidden()) hidden += count;
  session.Note(StrCat("wrote ", path, " (", archive.size() >> 10, " KiB, ",
                      common::Counted(files.size(), "file"), "); ",
                      common::Counted(hidden, "secret"),
                      " hidden, see hidden.txt; look through it before you send it"));
  return absl::OkStatus();
}

absl::StatusOr<int> Diagnose(Session& session, const Arguments& arguments) {
  if (arguments.Has("force") && !arguments.Has("bundle")) {
    return Usage("JC1004", "--force is for --bundle",
                 "jobctl diagnose JOB --bundle FILE.tar.gz --force");
  }
  GatherOptions options;
  ASSIGN_OR_RETURN(const int64_t wait_ms, arguments.DurationMs("wait", options.stack_wait_ms));
  options.stack_wait_ms = std::clamp<int64_t>(wait_ms, 1, 600'000);
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(CaseFile file, Gather(*connection, arguments.words()[0], options));
  const FirstCause cause = FindFirstCause(file);
  GatherTails(*connection, cause.ranks, &file);
  session.Print(arguments.Get("output") == "json" ? DiagnosisJson(file, cause)
                                                  : DiagnosisText(file, cause));
  if (arguments.Has("bundle")) RETURN_IF_ERROR(Pack(session, *connection, arguments, cause, &file));
  return kExitOk;
}

}  // namespace

const Command kDiagnoseCommand = {
    .name = "diagnose",
    .place = 290,
    .summary = "explain why a job failed or hangs, and what to do about it",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .flags = kDiagnoseFlags,
    .completes = "job",
    .examples =
        "jobctl diagnose @last\tthe first cause, what happened around it, and the fix\n"
        "jobctl diagnose calm-otter-3 --bundle otter.tar.gz\tlogs, events, metrics, stacks and "
        "versions in one file",
    .run = Diagnose};

}  // namespace muster::client
