// Every path of the worker, built in one place. Any thread; accesses no file.
//
//   <state-dir>/
//     LOCK                       one worker per state directory
//     identity                   incarnation, boot id, highest epoch, recorded facts
//     contact                    boot-time clock of the last contact; after a restart the
//                                self-fence counts from it
//     credentials                  the node's key and certificate, 0600 (identity/credential_files.h)
//     audit-heads                newest hashes of the coordinator's audit
//     coordinators               addresses of the cluster's coordinators (membership/known_heads.h)
//     attempts/<job>-<attempt>/
//       launch.pb                the LaunchAttempt message; written before the shim starts
//       event-files              existing event files, and which attempt later ones belong to
//       shim.launch  exit        the shim's launch file and its exit record
//       spool/rank-R.stdout|.stderr (+ .idx), acked
//       errors/rank-R.json
//       metrics/rank-R.batches, acked
//       checkpoints/step-N/      MUSTER_CHECKPOINT_DIR
//       uploads/step-N.part-P    parts whose bytes are durable at the coordinator; outputs.part-P
//       resume/step-N/           MUSTER_RESUME_FROM
//       tensorboard/             MUSTER_TENSORBOARD_DIR
//       diagnostics/             MUSTER_DIAGNOSTICS_DIR
//       credential/token the token that ranks show to their worker (MUSTER_RANK_TOKEN_FILE) …
//       credential/rank_table.json addresses of all ranks' devices (RANK_TABLE_FILE)
//       credential.sha256 … and its hash, by which the worker checks it
//       account the account that the ranks run as; missing: the worker's
//       tmp/                     the ranks' /tmp, if they have their own
//       code/                    the job's tree, if it brought one
//       image                    link to the image that its ranks run in, if it names one
//       containers/ … and the files of those containers (common/kernel/shim_protocol.h, LaunchContainer)
//       setup                    link to the result of its setup, if it has one (MUSTER_SETUP_DIR)
//     code/ shared by several attempts (worker/preparation/code_cache.h)
//       secret                   makes the names of setups unpredictable
//       trees/<project>-<tree>/  manifest, tree/, size
//       setups/<key>/            tree/, dir/, log, done, size
//       images/<manifest>/       root/, config.json, size
//       image-names/<hash> the image that a name was resolved to
//       new/ garbage/ unfinished entries, and entries being removed
//   <runtime-dir>/               short: a unix socket's path is limited to 108 bytes
//     shim-<job>-<attempt>.sock  trainer-<job>-<attempt>.sock
//     <job>-<attempt>/trainer.sock … for ranks that cannot see other attempts' sockets
//
// Where ranks have another account than the worker, everything belongs to the worker and is closed (0700,
// files 0600), except the path to the directories that ranks write to (0711), and these directories,
// which belong to the account.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "worker/core/state.h"

namespace muster::worker {

inline constexpr size_t kRuntimeDirBytesMax = 60;

class Paths {
 public:
  Paths() = default;
  Paths(std::string state_dir, std::string runtime_dir)
      : state_dir_(std::move(state_dir)), runtime_dir_(std::move(runtime_dir)) {}

  const std::string& StateDir() const { return state_dir_; }
  std::string Lock() const;
  std::string Identity() const;
  std::string Contact() const;
  std::string AuditHeads() const;
  std::string ToolVersions() const;
  std::string Coordinators() const;
  std::string SecretsRootName() const;  // a file; see secret_files.h
  std::string Credentials() const;
  std::string Attempts() const;

  std::string AttemptDir(const AttemptKey& key) const;
  std::string Launch(const AttemptKey& key) const;
  std::string EventLedger(const AttemptKey& key) const;
  std::string SpoolDir(const AttemptKey& key) const;
  // `stream` is "stdout" or "stderr".
  std::string Spool(const AttemptKey& key, uint32_t rank, std::string_view stream) const;
  std::string SpoolIndex(const AttemptKey& key, uint32_t rank, std::string_view stream) const;
  std::string SpoolAcked(const AttemptKey& key) const;
  std::string ErrorsDir(const AttemptKey& key) const;
  std::string ErrorFile(const AttemptKey& key, uint32_t rank) const;
  std::string MetricsDir(const AttemptKey& key) const;
  std::string MetricBatches(const AttemptKey& key, uint32_t rank) const;
  std::string CheckpointsDir(const AttemptKey& key) const;
  std::string UploadsDir(const AttemptKey& key) const;
  std::string UploadRecord(const AttemptKey& key, int64_t step, uint32_t part) const;
  std::string ResumeDir(const AttemptKey& key) const;
  std::string ResumeStep(const AttemptKey& key, int64_t step) const;
  std::string TensorboardDir(const AttemptKey& key) const;
  std::string DiagnosticsDir(const AttemptKey& key) const;
  std::string CredentialDir(const AttemptKey& key) const;
  std::string RankToken(const AttemptKey& key) const;
  std::string RankTokenHash(const AttemptKey& key) const;
  std::string RankTable(const AttemptKey& key) const;
  std::string Account(const AttemptKey& key) const;
  std::string TemporaryDir(const AttemptKey& key) const;
  std::string AttemptCode(const AttemptKey& key) const;
  std::string AttemptSetup(const AttemptKey& key) const;
  std::string CodeDir() const;
  std::string CodeTrees() const;
  std::string CodeSetups() const;
  std::string AttemptImage(const AttemptKey& key) const;
  std::string Containers(const AttemptKey& key) const;
  std::string CodeImages() const;

  std::string ShimSocket(const AttemptKey& key) const;
  std::string TrainerSocket(const AttemptKey& key) const;
  std::string OwnTrainerDir(const AttemptKey& key) const;
  std::string OwnTrainerSocket(const AttemptKey& key) const;
  const std::string& RuntimeDir() const { return runtime_dir_; }

 private:
  std::string state_dir_;
  std::string runtime_dir_;
};

// "42-0" → {42, 0}; nullopt for any other name.
std::optional<AttemptKey> ParseKey(std::string_view name);
// "step-120" → 120; nullopt for any other name, leading zeros included.
std::optional<int64_t> ParseStep(std::string_view name);
std::string StepName(int64_t step);
// <state-dir>/run if that is short enough, otherwise /tmp/muster-<uid>-<hash of the state
// directory>.
std::string DefaultRuntimeDir(const std::string& state_dir);

}  // namespace muster::worker
