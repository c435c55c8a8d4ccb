// A data directory with a finished job 1, a live job 4, a checkpoint file of each, logs and metrics;
// and a place for backups of it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "coordinator/care/backup.h"
#include "coordinator/care/check.h"
#include "coordinator/local/blob_store.h"
#include "coordinator/local/log_stream_file.h"
#include "coordinator/local/metric_stream_file.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/state_care.h"
#include "coordinator/stores/paths.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/opened_journal.h"
#include "tests/stores/put_blob.h"

namespace muster::coordinator {

inline void Put(const std::string& path, const std::string& text) {
  ASSERT_TRUE(common::MakeDirectories(std::filesystem::path(path).parent_path().string()).ok());
  ASSERT_TRUE(common::WriteFileDurably(path, text).ok());
}

// As if it had not been written to for a long time.
inline void Age(const std::string& path) {
  const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

inline void FlipByte(const std::string& path, size_t at) {
  std::string text = *common::ReadFile(path);
  ASSERT_LT(at, text.size());
  text[at] = static_cast<char>(text[at] ^ 0x20);
  ASSERT_TRUE(common::WriteFileDurably(path, text).ok());
}

inline std::string LogFile(const Paths& paths, uint64_t job, uint32_t attempt, uint32_t rank = 0) {
  return SegmentFiles(paths.LogStream({.job = job, .attempt = attempt, .rank = rank})).At(0);
}

inline std::string MetricFile(const Paths& paths, uint64_t job, uint32_t attempt) {
  return SegmentFiles(paths.MetricStream(job, attempt)).At(0);
}

inline void WriteLog(const Paths& paths, const LogKey& key, const std::vector<std::string>& texts) {
  absl::StatusOr<LogStreamFile> log = LogStreamFile::Open(paths, key);
  ASSERT_TRUE(log.ok()) << log.status();
  for (const std::string& text : texts) {
    v1::LogChunk chunk;
    chunk.set_offset(log->Written());
    chunk.set_data(text);
    ASSERT_TRUE(log->Append(chunk).ok());
  }
}

class SmallData : public testing::Test {
 protected:
  SmallData() : paths(dir.path() + "/data"), backups(dir.path() + "/backup") {}

  void SetUp() override {
    ASSERT_TRUE(common::MakeDirectories(paths.Root()).ok());
    WriteDatabase(5);
    blobs = *Blobs::Open(LocalBlobStore::At(paths), paths);
    AddBlob(kOfFinished);
    AddBlob(kOfLive);
    WriteLog(paths, {.job = 1}, {"out of job 1\n"});
    WriteLog(paths, {.job = 4, .attempt = 1}, {"out of job 4\n", "second\n", "third\n"});
    absl::StatusOr<MetricStreamFile> metrics = MetricStreamFile::Open(paths, 4, 1);
    ASSERT_TRUE(metrics.ok() && metrics->Append(v1::MetricBatch(), "").ok());
    Put(paths.Lived(), "lived");
  }

  static std::string Name(const std::string& bytes) { return common::Sha256Hex(bytes); }

  void AddBlob(const std::string& bytes) { ASSERT_TRUE(PutBlob(*blobs, bytes).ok()); }

  static void Refer(v1::JobRecord& job, const std::string& bytes) {
    v1::CheckpointFile* file = job.add_checkpoints()->add_files();
    file->set_path("state.txt");
    file->set_sha256(Name(bytes));
    file->set_size(bytes.size());
  }

  void WriteDatabase(uint64_t next_job) {
    OpenedJournal opened(*OpenSqliteJournal(paths));
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 4, "a"), ReasonEvent(2, 4, "b")});
    FinishedJob finished = Finished(1, "red-fox-1", "");
    v1::JobRecord first = *finished.record;
    Refer(first, kOfFinished);
    finished.record = std::make_shared<const v1::JobRecord>(first);
    record.facts = FactsOf({finished});
    v1::Snapshot snapshot;
    snapshot.set_format(1);
    snapshot.set_seq(2);
    snapshot.set_next_job_id(next_job);
    v1::JobRecord& live = *snapshot.add_jobs();
    live.set_id(4);
    live.set_name("blue-cat-4");
    live.set_state(v1::JOB_STATE_QUEUED);
    live.set_next_attempt(2);
    Refer(live, kOfLive);
    record.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
    opened.journal->Append(std::move(record));
    ASSERT_TRUE(opened.WaitFor(1).ok());
    ASSERT_TRUE(opened.journal->Stop().ok());
  }

  OnDamage Collect() {
    return [this](const Damage& finding) { findings.push_back(finding); };
  }
  CheckTotals Check(const Paths& where, bool quick = false) {
    CheckTotals totals;
    const absl::Status status = CheckData(where, SqliteStateCare(where), quick, Collect(), &totals);
    EXPECT_TRUE(status.ok()) << status;
    return totals;
  }
  absl::StatusOr<BackupTotals> Backup() {
    return MakeBackup({paths.Root(), backups}, SqliteStateCare(paths), Collect(), [](uint64_t) {});
  }
  std::string Told() const {
    std::string text;
    for (const Damage& finding : findings) text += finding.path + ": " + finding.what + "\n";
    return text;
  }
  std::string BlobPath(const std::string& bytes) const { return paths.BlobFile(Name(bytes)); }

  const std::string kOfFinished = "the checkpoint of job 1";
  const std::string kOfLive = "the checkpoint of job 4";
  // Below the data directory.
  const std::string kLog1 = "logs/1/0/rank-0.stdout.seg";
  const std::string kLog4 = "logs/4/1/rank-0.stdout.seg";
  const std::string kMetrics4 = "metrics/4/1.seg";
  TempDir dir;
  const Paths paths;
  const std::string backups;
  std::unique_ptr<Blobs> blobs;
  std::vector<Damage> findings;
};

inline void ExpectProblem(const absl::Status& status, const std::string& code,
                          const std::string& words) {
  EXPECT_FALSE(status.ok());
  const std::string text(status.message());
  EXPECT_NE(text.find("[" + code + "]"), std::string::npos) << text;
  EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_NE(text.find("fix:"), std::string::npos) << text;
}

}  // namespace muster::coordinator
