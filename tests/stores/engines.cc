#include "tests/stores/engines.h"

#include <atomic>

#include "common/base/status.h"
#include "coordinator/local/blob_store.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_store.h"
#include "coordinator/local/metric_store.h"
#include "coordinator/local/sample_store.h"
#include "coordinator/object_files/object_files.h"
#include "coordinator/packs/log_store.h"
#include "coordinator/packs/metric_store.h"
#include "coordinator/packs/packs.h"
#include "coordinator/sqlite/archive/archive.h"
#include "coordinator/sqlite/code_store.h"
#include "coordinator/sqlite/identity_store.h"
#include "coordinator/sqlite/job_index.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/pack_names.h"
#include "coordinator/sqlite/replica.h"
#include "coordinator/store_parts/followed_journal.h"
#include "coordinator/store_parts/put_bytes.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/following_index.h"
#include "tests/stores/memory_blob_store.h"
#include "tests/stores/memory_code_store.h"
#include "tests/stores/memory_identity_store.h"
#include "tests/stores/memory_journal.h"
#include "tests/stores/memory_log_store.h"
#include "tests/stores/memory_metric_store.h"
#include "tests/stores/memory_sample_store.h"

namespace muster::coordinator {
namespace {

// SQLite and files, as the coordinator runs by default.
class LocalEngine : public Engine {
 public:
  std::unique_ptr<Journal> OpenJournal() override {
    return *OpenSqliteJournal(paths_, nullptr, turns_);
  }
  std::unique_ptr<JobIndex> OpenJobIndex() override {
    return *SqliteJobIndex::Open(paths_.Database(), LocalBlobStore::At(paths_));
  }
  std::unique_ptr<IdentityStore> OpenIdentityStore() override {
    return *SqliteIdentityStore::Open(paths_, turns_);
  }
  std::unique_ptr<CodeStore> OpenCodeStore() override {
    return *SqliteCodeStore::Open(paths_, turns_);
  }
  std::unique_ptr<LogStore> OpenLogStore() override {
    return std::make_unique<LocalLogStore>(paths_);
  }
  std::unique_ptr<MetricStore> OpenMetricStore() override {
    return std::make_unique<LocalMetricStore>(paths_);
  }
  std::unique_ptr<SampleStore> OpenSampleStore() override {
    return std::make_unique<LocalSampleStore>(paths_);
  }
  std::unique_ptr<Blobs> OpenBlobs() override {
    return *Blobs::Open(LocalBlobStore::At(paths_), paths_);
  }

 protected:
  const TempDir dir_;
  const Paths paths_{dir_.path()};
  const std::shared_ptr<WriteTurns> turns_ = std::make_shared<WriteTurns>();
};

// The same, but the log carries nothing: the index follows it in a separate file.
class FollowedEngine final : public LocalEngine {
 public:
  std::unique_ptr<Journal> OpenJournal() override {
    indexes_.push_back(FollowingIndex::Open(Index()));
    return *FollowJournal(*OpenSqliteJournal(paths_, nullptr, turns_, Carried::kNothing),
                          {indexes_.back().get()});
  }
  std::unique_ptr<JobIndex> OpenJobIndex() override {
    return *SqliteJobIndex::Open(Index(), LocalBlobStore::At(paths_));
  }

 private:
  std::string Index() const { return paths_.Root() + "/index.db"; }
  std::vector<std::unique_ptr<FollowingIndex>> indexes_;  // outlive the journals
};

// The same on two machines: what is committed on one is an entry of a log, and applied to the other's copy. Each
// journal that is opened is on the other machine: a takeover.
class TakenOverEngine final : public LocalEngine {
 public:
  TakenOverEngine() {
    for (const Machine& machine : machines_) {
      CHECK((*SqliteReplica::Open(machine.paths, LocalBlobStore::At(machine.paths)))
                ->Follow("log")
                .ok());
    }
  }
  std::unique_ptr<Journal> OpenJournal() override {
    leader_ = 1 - leader_;
    logs_.push_back(std::make_unique<Copying>(*this, ++terms_, machines_[1 - leader_].paths));
    turns_here_ = std::make_shared<WriteTurns>(WriteTurns::kTimeout, logs_.back().get());
    return *OpenSqliteJournal(Here(), nullptr, turns_here_);
  }
  std::unique_ptr<JobIndex> OpenJobIndex() override {
    const std::shared_ptr<BlobStore> blobs = LocalBlobStore::At(Here());
    if (turns_here_ != nullptr) MoveAllToArchive(blobs);
    return *SqliteJobIndex::Open(Here().Database(), blobs);
  }
  std::unique_ptr<IdentityStore> OpenIdentityStore() override {
    return *SqliteIdentityStore::Open(Here(), turns_here_);
  }
  std::unique_ptr<CodeStore> OpenCodeStore() override {
    return *SqliteCodeStore::Open(Here(), turns_here_);
  }

 private:
  struct Machine {
    TempDir dir;
    Paths paths{dir.path()};
  };

  // Of one leader, until the next one.
  class Copying final : public CommitLog {
   public:
    Copying(TakenOverEngine& engine, uint64_t term, const Paths& other)
        : engine_(engine),
          term_(term),
          other_(*SqliteReplica::Open(other, LocalBlobStore::At(other))) {}
    absl::StatusOr<uint64_t> Append(std::string_view changes) override {
      if (engine_.terms_ != term_ || has_failed_) return absl::AbortedError("another one leads");
      CHECK(other_->Apply(++engine_.position_, changes).ok());
      return engine_.position_.load();
    }
    void FailedHere(const absl::Status&) override { has_failed_ = true; }

   private:
    TakenOverEngine& engine_;
    const uint64_t term_;
    const std::unique_ptr<Replica> other_;
    bool has_failed_ = false;
  };

  const Paths& Here() const { return machines_[leader_].paths; }
  // What can be archived is, so that the contract holds for that, too.
  void MoveAllToArchive(const std::shared_ptr<BlobStore>& blobs) {
    const auto archive = *SqliteArchive::Open(
        {.paths = Here(),
         .head = "a",
         .blobs = blobs,
         .put = [&](std::string_view bytes) { return PutBytes(*blobs, Here(), bytes); },
         .turns = turns_here_});
    while (*archive->MoveOldest(UINT64_MAX) > 0) {
    }
  }

  Machine machines_[2];
  int leader_ = 0;
  std::atomic<uint64_t> terms_ = 0;
  std::atomic<uint64_t> position_ = 0;
  std::vector<std::unique_ptr<Copying>> logs_;  // outlive the journals
  std::shared_ptr<WriteTurns> turns_here_;
};

// Logs and metrics are in an object store. The next store that is opened is another coordinator's: it has nothing but what the
// state and the objects say.
class PacksEngine final : public LocalEngine {
 public:
  std::unique_ptr<LogStore> OpenLogStore() override {
    return std::make_unique<PackLogStore>(OpenPacks(), std::make_unique<LocalLogReader>(paths_),
                                          paths_);
  }
  std::unique_ptr<MetricStore> OpenMetricStore() override {
    return std::make_unique<PackMetricStore>(OpenPacks(), paths_);
  }

 private:
  std::shared_ptr<Packs> OpenPacks() {
    if (names_ == nullptr) {
      CHECK(OpenSqliteJournal(paths_, nullptr, turns_).ok());
      names_ = *SqlitePackNames::Open(paths_, turns_, clock_, "c/");
    }
    return std::make_shared<Packs>(
        *objects_, *names_, "c/", NewPackTerm(++epoch_), std::make_unique<PackThreads>(4),
        PackPace{.every = std::chrono::milliseconds(20), .merged = 3, .record_every = {}});
  }

  const TempDir store_;
  const std::unique_ptr<Objects> objects_ = *ObjectFiles::Open(store_.path());
  const common::SystemClock clock_;
  std::unique_ptr<PackNames> names_;
  uint64_t epoch_ = 0;
};

class MemoryEngine final : public Engine {
 public:
  std::unique_ptr<Journal> OpenJournal() override {
    return std::make_unique<MemoryJournal>(tables_);
  }
  std::unique_ptr<JobIndex> OpenJobIndex() override {
    return std::make_unique<MemoryJobIndex>(tables_);
  }
  std::unique_ptr<IdentityStore> OpenIdentityStore() override {
    return std::make_unique<MemoryIdentityStore>(identities_);
  }
  std::unique_ptr<CodeStore> OpenCodeStore() override {
    return std::make_unique<MemoryCodeStore>(code_);
  }
  std::unique_ptr<LogStore> OpenLogStore() override {
    return std::make_unique<MemoryLogStore>(logs_);
  }
  std::unique_ptr<MetricStore> OpenMetricStore() override {
    return std::make_unique<MemoryMetricStore>(metrics_);
  }
  std::unique_ptr<SampleStore> OpenSampleStore() override {
    return std::make_unique<MemorySampleStore>(samples_);
  }
  std::unique_ptr<Blobs> OpenBlobs() override {
    return *Blobs::Open(std::make_unique<MemoryBlobStore>(blobs_), uploads_);
  }

 private:
  const std::shared_ptr<MemoryTables> tables_ = std::make_shared<MemoryTables>();
  const std::shared_ptr<MemoryIdentities> identities_ = std::make_shared<MemoryIdentities>();
  const std::shared_ptr<MemoryCode> code_ = std::make_shared<MemoryCode>();
  const std::shared_ptr<MemoryLogs> logs_ = std::make_shared<MemoryLogs>();
  const std::shared_ptr<MemoryMetrics> metrics_ = std::make_shared<MemoryMetrics>();
  const std::shared_ptr<MemorySamples> samples_ = std::make_shared<MemorySamples>();
  const std::shared_ptr<MemoryBlobs> blobs_ = std::make_shared<MemoryBlobs>();
  const TempDir dir_;
  const Paths uploads_{dir_.path()};
};

}  // namespace

std::vector<EngineKind> EngineKinds() {
  return {{"Local", [] { return std::make_unique<LocalEngine>(); }},
          {"Memory", [] { return std::make_unique<MemoryEngine>(); }}};
}

std::vector<EngineKind> JournalKinds() {
  std::vector<EngineKind> kinds = EngineKinds();
  kinds.push_back({"Followed", [] { return std::make_unique<FollowedEngine>(); }});
  kinds.push_back({"TakenOver", [] { return std::make_unique<TakenOverEngine>(); }});
  return kinds;
}

std::vector<EngineKind> LogKinds() {
  std::vector<EngineKind> kinds = EngineKinds();
  kinds.push_back({"Packs", [] { return std::make_unique<PacksEngine>(); }});
  return kinds;
}

std::string NameOfKind(const testing::TestParamInfo<EngineKind>& info) { return info.param.name; }

}  // namespace muster::coordinator
