#include "coordinator/config/open_stores.h"

#include <sys/statvfs.h>

#include <utility>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/local/audit_store.h"
#include "coordinator/local/blob_store.h"
#include "coordinator/local/format.h"
#include "coordinator/local/log_store.h"
#include "coordinator/local/metric_store.h"
#include "coordinator/local/note_store.h"
#include "coordinator/local/sample_store.h"
#include "coordinator/sqlite/audit_store.h"
#include "coordinator/sqlite/code_store.h"
#include "coordinator/sqlite/identity_store.h"
#include "coordinator/sqlite/job_index.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/note_store.h"
#include "coordinator/sqlite/replica.h"
#include "coordinator/sqlite/state_care.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {
class SharedState {
 public:
  SharedState(const Config& config, CommitLog* log)
      : paths(config.data_dir),
        log(log),
        turns(std::make_shared<WriteTurns>(WriteTurns::kTimeout, log)) {}
  const Paths paths;
  CommitLog* const log;
  const std::shared_ptr<WriteTurns> turns;
};

namespace {

uint64_t DiskBytes(const std::string& directory) {
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0) return 0;
  return uint64_t{disk.f_blocks} * disk.f_frsize;
}

absl::StatusOr<Stores> OpenAll(const Config& config, const DescriptorShares& shares,
                               LivedClock& clock, const std::shared_ptr<SharedState>& state) {
  const Paths& paths = state->paths;
  RETURN_IF_ERROR(CheckFormat(paths));
  Stores stores;
  stores.disk_bytes = DiskBytes(config.data_dir);
  stores.gate = std::make_unique<DiskGate>();
  stores.stream_failures = std::make_unique<StreamFailures>();
  stores.logs = std::make_unique<LocalLogStore>(
      paths, DiskUse{shares.log_streams, config.job_logs.Of(stores.disk_bytes), stores.gate.get(),
                     stores.stream_failures.get()});
  stores.metrics = std::make_unique<LocalMetricStore>(
      paths, DiskUse{shares.metric_segments, config.job_metrics.Of(stores.disk_bytes),
                     stores.gate.get(), stores.stream_failures.get()});
  stores.samples = std::make_unique<LocalSampleStore>(paths);
  ASSIGN_OR_RETURN(std::unique_ptr<BlobStore> blobs, LocalBlobStore::Open(paths));
  ASSIGN_OR_RETURN(stores.blobs, Blobs::Open(std::move(blobs), paths, stores.gate.get()));
  const std::shared_ptr<WriteTurns>& turns = state->turns;
  ASSIGN_OR_RETURN(stores.journal, OpenSqliteJournal(paths, &clock, turns));
  ASSIGN_OR_RETURN(stores.index, SqliteJobIndex::Open(paths.Database()));
  ASSIGN_OR_RETURN(stores.identities, SqliteIdentityStore::Open(paths, turns));
  ASSIGN_OR_RETURN(stores.code, SqliteCodeStore::Open(paths, turns));
  return stores;
}

}  // namespace

absl::StatusOr<Stores> OpenStores(const Config& config, const DescriptorShares& shares,
                                  LivedClock& clock, const std::shared_ptr<SharedState>& state) {
  absl::StatusOr<Stores> stores = OpenAll(config, shares, clock, state);
  if (stores.ok() || !common::CodeOf(stores.status()).empty()) return stores;
  return common::MakeProblem(
      stores.status().code(),
      {.code = "JC1602",
       .what = common::StrCat("the data directory ", config.data_dir, " cannot be used"),
       .why = std::string(stores.status().message()),
       .fix = "check the disk, and that the coordinator owns the files there; then restart it"});
}

std::unique_ptr<ReplicaHome> ReplicaHomeOf(const Config& config) {
  return std::make_unique<SqliteReplicaHome>(Paths(config.data_dir));
}

absl::StatusOr<std::string> ReadFollowedNote(const Config& config, Note note) {
  return SqliteNoteStore::ReadOnce(Paths(config.data_dir), note);
}

std::shared_ptr<SharedState> ShareState(const Config& config, CommitLog* log) {
  return std::make_shared<SharedState>(config, log);
}

absl::StatusOr<std::unique_ptr<NoteStore>> OpenNotes(const std::shared_ptr<SharedState>& state) {
  if (state->log != nullptr) return SqliteNoteStore::Open(state->paths, state->turns);
  return std::make_unique<LocalNoteStore>(state->paths);
}

absl::StatusOr<std::unique_ptr<AuditStore>> OpenAuditStore(
    const std::shared_ptr<SharedState>& state) {
  if (state->log != nullptr) return SqliteAuditStore::Open(state->paths, state->turns);
  return std::make_unique<LocalAuditStore>(state->paths.AuditRoot());
}

absl::StatusOr<std::unique_ptr<IdentityStore>> OpenIdentities(const Config& config,
                                                              LivedClock& clock) {
  const Paths paths(config.data_dir);
  // Its tables are in the journal's file.
  RETURN_IF_ERROR(OpenSqliteJournal(paths, &clock).status());
  return SqliteIdentityStore::Open(paths, std::make_shared<WriteTurns>());
}

std::unique_ptr<StateCare> OpenStateCare(const Config& config) {
  return std::make_unique<SqliteStateCare>(Paths(config.data_dir));
}

}  // namespace muster::coordinator
