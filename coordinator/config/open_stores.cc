#include "coordinator/config/open_stores.h"

#include <sys/statvfs.h>

#include <functional>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/local/audit_store.h"
#include "coordinator/local/blob_store.h"
#include "coordinator/local/format.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_store.h"
#include "coordinator/local/metric_store.h"
#include "coordinator/local/note_store.h"
#include "coordinator/local/sample_store.h"
#include "coordinator/object_files/object_files.h"
#include "coordinator/packs/log_store.h"
#include "coordinator/packs/metric_store.h"
#include "coordinator/packs/output_move.h"
#include "coordinator/packs/packs.h"
#include "coordinator/s3/objects.h"
#include "coordinator/sqlite/archive/archive.h"
#include "coordinator/sqlite/audit_store.h"
#include "coordinator/sqlite/code_store.h"
#include "coordinator/sqlite/identity_store.h"
#include "coordinator/sqlite/job_index.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/note_store.h"
#include "coordinator/sqlite/object_names.h"
#include "coordinator/sqlite/pack_names.h"
#include "coordinator/sqlite/replica.h"
#include "coordinator/sqlite/state_care.h"
#include "coordinator/store_parts/object_blobs.h"
#include "coordinator/store_parts/put_bytes.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {
class SharedState {
 public:
  SharedState(const Config& config, AmongOthers others)
      : paths(config.data_dir),
        among(std::move(others)),
        archive_paths(among.archive_dir.empty() ? config.data_dir : among.archive_dir),
        turns(std::make_shared<WriteTurns>(WriteTurns::kTimeout, among.log)),
        blobs(LocalBlobStore::At(archive_paths)) {}
  const Paths paths;
  const AmongOthers among;
  const Paths archive_paths;
  const std::shared_ptr<WriteTurns> turns;
  // Set once the journal is open; null: blobs are in files.
  std::atomic<bool> objects_stop = false;
  std::unique_ptr<Objects> objects;
  std::unique_ptr<ObjectNames> object_names;
  std::unique_ptr<PackNames> pack_names;
  std::shared_ptr<BlobStore> blobs;
};

namespace {

// That wait for the object store, for logs and metrics.
constexpr int kPackThreads = 8;

absl::StatusOr<std::unique_ptr<Archive>> OpenArchiveThat(
    const std::shared_ptr<SharedState>& state,
    std::function<absl::StatusOr<std::string>(std::string_view)> put) {
  return SqliteArchive::Open({.paths = state->paths,
                              .head = state->among.head,
                              .blobs = state->blobs,
                              .put = std::move(put),
                              .turns = state->turns});
}

uint64_t DiskBytes(const std::string& directory) {
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0) return 0;
  return uint64_t{disk.f_blocks} * disk.f_frsize;
}

absl::StatusOr<std::unique_ptr<Objects>> OpenObjects(const std::string& address,
                                                     const std::atomic<bool>& stop) {
  if (address.starts_with(ObjectFiles::kScheme)) {
    ASSIGN_OR_RETURN(const std::string directory, ObjectFiles::ParseAddress(address));
    return ObjectFiles::Open(directory);
  }
  s3::ClientOptions options;
  ASSIGN_OR_RETURN(options.address, s3::ParseAddress(address));
  options.stop = &stop;
  return s3::S3Objects::Open(std::move(options));
}

absl::Status NoObjects(const absl::Status& why) {
  if (!common::CodeOf(why).empty()) return why;
  return common::MakeProblem(why.code(),
                             {.code = "JC1640",
                              .what = "the store of --objects cannot be used",
                              .why = std::string(why.message()),
                              .fix = "muster-coordinator --help tells how it is named"});
}

// From now on blobs, logs and metrics are put into the object store; those in files are read there.
absl::Status UseObjects(const Config& config, const LivedClock& clock, SharedState& state,
                        Stores& stores) {
  absl::StatusOr<std::unique_ptr<Objects>> objects =
      OpenObjects(config.objects, state.objects_stop);
  if (!objects.ok()) return NoObjects(objects.status());
  state.objects = *std::move(objects);
  ASSIGN_OR_RETURN(state.object_names, SqliteObjectNames::Open(state.paths, state.turns, clock));
  const std::string prefix = common::StrCat(stores.journal->ClusterId(), "/");
  stores.object_prefix = prefix + "blobs/";
  const std::shared_ptr<BlobStore> before = std::move(state.blobs);
  state.blobs = std::make_shared<ObjectBlobs>(*state.objects, *state.object_names,
                                              stores.object_prefix, before, clock);
  stores.object_blobs = state.blobs;
  stores.before_objects = state.archive_paths.Root();
  stores.objects_stop = &state.objects_stop;
  stores.objects = state.objects.get();
  stores.object_names = state.object_names.get();
  stores.direct =
      std::make_unique<DirectUploads>(*state.objects, *state.object_names, stores.object_prefix);
  ASSIGN_OR_RETURN(state.pack_names,
                   SqlitePackNames::Open(state.paths, state.turns, clock, prefix));
  stores.pack_names = state.pack_names.get();
  stores.pack_prefix = prefix;
  const auto packs = std::make_shared<Packs>(
      *state.objects, *state.pack_names, prefix, NewPackTerm(stores.journal->Epoch()),
      std::make_unique<PackThreads>(kPackThreads),
      PackPace{.logs_bytes = config.job_logs.Of(stores.disk_bytes)});
  packs->writer.Hold();
  stores.release_packs = [packs] { packs->writer.Release(); };
  stores.logs = std::make_unique<PackLogStore>(packs, std::make_unique<LocalLogReader>(state.paths),
                                               state.paths);
  auto metrics = std::make_unique<PackMetricStore>(packs, state.paths,
                                                   config.job_metrics.Of(stores.disk_bytes));
  stores.file_move = std::make_unique<OutputMove>(
      packs, std::make_unique<LocalLogReader>(state.paths), state.paths,
      [raw = metrics.get()](uint64_t job) { return raw->NoteFor(job); }, state.objects_stop);
  stores.metrics = std::move(metrics);
  return absl::OkStatus();
}

// Logs and metrics are in the data directory.
void UseFiles(const Config& config, const DescriptorShares& shares, const Paths& paths,
              Stores& stores) {
  stores.logs = std::make_unique<LocalLogStore>(
      paths, DiskUse{shares.log_streams, config.job_logs.Of(stores.disk_bytes), stores.gate.get(),
                     stores.stream_failures.get()});
  stores.metrics = std::make_unique<LocalMetricStore>(
      paths, DiskUse{shares.metric_segments, config.job_metrics.Of(stores.disk_bytes),
                     stores.gate.get(), stores.stream_failures.get()});
}

absl::StatusOr<Stores> OpenAll(const Config& config, const DescriptorShares& shares,
                               LivedClock& clock, const std::shared_ptr<SharedState>& state) {
  const Paths& paths = state->paths;
  RETURN_IF_ERROR(CheckFormat(paths));
  Stores stores;
  stores.disk_bytes = DiskBytes(config.data_dir);
  stores.gate = std::make_unique<DiskGate>();
  stores.stream_failures = std::make_unique<StreamFailures>();
  stores.samples = std::make_unique<LocalSampleStore>(paths);
  RETURN_IF_ERROR(common::MakeDirectories(paths.BlobRoot()));
  const std::shared_ptr<WriteTurns>& turns = state->turns;
  ASSIGN_OR_RETURN(stores.journal, OpenSqliteJournal(paths, &clock, turns));
  if (config.objects.empty()) {
    UseFiles(config, shares, paths, stores);
  } else {
    RETURN_IF_ERROR(UseObjects(config, clock, *state, stores));
  }
  ASSIGN_OR_RETURN(stores.blobs, Blobs::Open(state->blobs, paths, stores.gate.get()));
  ASSIGN_OR_RETURN(stores.index, SqliteJobIndex::Open(paths.Database(), state->blobs));
  if (state->among.log != nullptr) {
    ASSIGN_OR_RETURN(stores.archive,
                     OpenArchiveThat(state, [blobs = stores.blobs.get()](std::string_view bytes) {
                       return blobs->Add(bytes);
                     }));
  }
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
  const Paths paths(config.data_dir);
  return std::make_unique<SqliteReplicaHome>(
      paths, config.objects.empty() ? LocalBlobStore::At(paths) : nullptr);
}

absl::StatusOr<std::string> ReadFollowedNote(const Config& config, Note note) {
  return SqliteNoteStore::ReadOnce(Paths(config.data_dir), note);
}

std::shared_ptr<SharedState> ShareState(const Config& config, AmongOthers among) {
  return std::make_shared<SharedState>(config, std::move(among));
}

absl::StatusOr<std::unique_ptr<Archive>> OpenArchive(const std::shared_ptr<SharedState>& state) {
  // Nothing collects garbage meanwhile.
  return OpenArchiveThat(state, [state](std::string_view bytes) {
    return PutBytes(*state->blobs, state->archive_paths, bytes);
  });
}

absl::StatusOr<std::unique_ptr<NoteStore>> OpenNotes(const std::shared_ptr<SharedState>& state) {
  if (state->among.log != nullptr) return SqliteNoteStore::Open(state->paths, state->turns);
  return std::make_unique<LocalNoteStore>(state->paths);
}

absl::StatusOr<std::unique_ptr<AuditStore>> OpenAuditStore(
    const std::shared_ptr<SharedState>& state) {
  if (state->among.log != nullptr)
    return SqliteAuditStore::Open(state->paths, state->turns, state->blobs);
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
