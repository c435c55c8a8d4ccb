// Which engine implements which store: the only place that names the implementations behind
// stores/. A new engine is a folder next to sqlite/ and local/, a line in open_stores.cc, and the flag
// that chooses it (config.h, flags.cc).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/config/config.h"
#include "coordinator/store_parts/blobs.h"
#include "coordinator/store_parts/direct_uploads.h"
#include "coordinator/store_parts/disk_gate.h"
#include "coordinator/store_parts/lived_clock.h"
#include "coordinator/stores/archive.h"
#include "coordinator/stores/audit_store.h"
#include "coordinator/stores/code_store.h"
#include "coordinator/stores/commit_log.h"
#include "coordinator/stores/file_move.h"
#include "coordinator/stores/identity_store.h"
#include "coordinator/stores/job_index.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/log_store.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/note_store.h"
#include "coordinator/stores/object_names.h"
#include "coordinator/stores/objects.h"
#include "coordinator/stores/pack_names.h"
#include "coordinator/stores/replica.h"
#include "coordinator/stores/sample_store.h"
#include "coordinator/stores/state_care.h"
#include "coordinator/stores/stream_failures.h"

namespace muster::coordinator {

// Constructed in this order, destroyed in reverse.
struct Stores {
  uint64_t disk_bytes = 0;  // of the data directory's disk, at the start
  std::unique_ptr<DiskGate> gate;
  std::unique_ptr<StreamFailures> stream_failures;
  std::unique_ptr<LogStore> logs;
  std::unique_ptr<MetricStore> metrics;
  std::unique_ptr<SampleStore> samples;
  std::unique_ptr<Blobs> blobs;
  std::unique_ptr<Journal> journal;
  // Of blobs in a store that the whole cluster reaches; null: they are in the data directory. The state's.
  Objects* objects = nullptr;
  ObjectNames* object_names = nullptr;
  std::string object_prefix;  // of their keys
  // Likewise of logs and metrics.
  PackNames* pack_names = nullptr;
  std::string pack_prefix;
  // Call it once the store is known to be the cluster's: until then nothing is put there.
  std::function<void()> release_packs;
  std::unique_ptr<DirectUploads> direct;
  // When it is set, what waits for the store ends soon, with CANCELLED.
  std::atomic<bool>* objects_stop = nullptr;
  std::shared_ptr<BlobStore> object_blobs;
  std::string before_objects;           // the directory that may still have blobs of before
  std::unique_ptr<FileMove> file_move;  // of output and metrics of before; ends before `logs` do
  std::unique_ptr<JobIndex> index;
  std::unique_ptr<Archive> archive;  // null: this coordinator is alone
  std::unique_ptr<IdentityStore> identities;
  std::unique_ptr<CodeStore> code;
};

// What the stores of one state share. Made before them, lives as long as they do.
class SharedState;
struct AmongOthers {
  CommitLog* log = nullptr;  // what every change of the state is first added to
  std::string head;          // this coordinator's name
  std::string
      archive_dir;  // the data directory whose blobs have its archive; empty: the state's own
};
// Without `among` this coordinator is alone.
std::shared_ptr<SharedState> ShareState(const Config& config, AmongOthers among = {});

// `clock` is raised to the journal's time.
absl::StatusOr<Stores> OpenStores(const Config& config, const DescriptorShares& shares,
                                  LivedClock& clock, const std::shared_ptr<SharedState>& state);

// Where a coordinator among several keeps its copy of the state.
std::unique_ptr<ReplicaHome> ReplicaHomeOf(const Config& config);

// A note of that copy, while it is kept up to date. NOT_FOUND: no leader has written it so far.
absl::StatusOr<std::string> ReadFollowedNote(const Config& config, Note note);

// For a state that is moved, besides a coordinator's.
absl::StatusOr<std::unique_ptr<Archive>> OpenArchive(const std::shared_ptr<SharedState>& state);

// Opened before all other stores, because the clocks continue from its values.
absl::StatusOr<std::unique_ptr<NoteStore>> OpenNotes(const std::shared_ptr<SharedState>& state);

absl::StatusOr<std::unique_ptr<AuditStore>> OpenAuditStore(
    const std::shared_ptr<SharedState>& state);

// Opens only the identities in a state that no coordinator serves; creates the state if there is none.
absl::StatusOr<std::unique_ptr<IdentityStore>> OpenIdentities(const Config& config,
                                                              LivedClock& clock);

// A configuration with only the location of the state, for commands that do not serve.
inline Config ConfigOf(const std::string& data_dir) {
  Config config;
  config.data_dir = data_dir;
  return config;
}

// For the commands that maintain the state (check, repair, backup, restore).
std::unique_ptr<StateCare> OpenStateCare(const Config& config);

}  // namespace muster::coordinator
