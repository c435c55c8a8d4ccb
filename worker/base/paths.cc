// paths: see the tree in the header.
#include "worker/base/paths.h"

#include <unistd.h>

#include <charconv>

#include "common/hash/sha256.h"
#include "common/outputs.h"
#include "common/text/strings.h"

namespace muster::worker {

std::string Paths::Lock() const { return state_dir_ + "/LOCK"; }
std::string Paths::Identity() const { return state_dir_ + "/identity"; }
std::string Paths::SecretsRootName() const { return state_dir_ + "/secrets-root"; }
std::string Paths::ToolVersions() const { return state_dir_ + "/tool-versions"; }
std::string Paths::AuditHeads() const { return state_dir_ + "/audit-heads"; }
std::string Paths::Coordinators() const { return state_dir_ + "/coordinators"; }
std::string Paths::Contact() const { return state_dir_ + "/contact"; }
std::string Paths::Credentials() const { return state_dir_ + "/credentials"; }
std::string Paths::Attempts() const { return state_dir_ + "/attempts"; }

std::string Paths::AttemptDir(const AttemptKey& key) const {
  return common::StrCat(Attempts(), "/", KeyText(key));
}
std::string Paths::Launch(const AttemptKey& key) const { return AttemptDir(key) + "/launch.pb"; }
std::string Paths::EventLedger(const AttemptKey& key) const {
  return AttemptDir(key) + "/event-files";
}
std::string Paths::SpoolDir(const AttemptKey& key) const { return AttemptDir(key) + "/spool"; }
std::string Paths::Spool(const AttemptKey& key, uint32_t rank, std::string_view stream) const {
  return common::StrCat(SpoolDir(key), "/rank-", rank, ".", stream);
}
std::string Paths::SpoolIndex(const AttemptKey& key, uint32_t rank, std::string_view stream) const {
  return Spool(key, rank, stream) + ".idx";
}
std::string Paths::SpoolAcked(const AttemptKey& key) const { return SpoolDir(key) + "/acked"; }
std::string Paths::ErrorsDir(const AttemptKey& key) const { return AttemptDir(key) + "/errors"; }
std::string Paths::ErrorFile(const AttemptKey& key, uint32_t rank) const {
  return common::StrCat(ErrorsDir(key), "/rank-", rank, ".json");
}
std::string Paths::MetricsDir(const AttemptKey& key) const { return AttemptDir(key) + "/metrics"; }
std::string Paths::MetricBatches(const AttemptKey& key, uint32_t rank) const {
  return common::StrCat(MetricsDir(key), "/rank-", rank, ".batches");
}
std::string Paths::CheckpointsDir(const AttemptKey& key) const {
  return AttemptDir(key) + "/checkpoints";
}
std::string Paths::UploadsDir(const AttemptKey& key) const { return AttemptDir(key) + "/uploads"; }
std::string Paths::UploadRecord(const AttemptKey& key, int64_t step, uint32_t part) const {
  const std::string name = step == common::kOutputsStep ? "outputs" : StepName(step);
  return common::StrCat(UploadsDir(key), "/", name, ".part-", part);
}
std::string Paths::ResumeDir(const AttemptKey& key) const { return AttemptDir(key) + "/resume"; }
std::string Paths::ResumeStep(const AttemptKey& key, int64_t step) const {
  return common::StrCat(ResumeDir(key), "/", StepName(step));
}
std::string Paths::TensorboardDir(const AttemptKey& key) const {
  return AttemptDir(key) + "/tensorboard";
}
std::string Paths::DiagnosticsDir(const AttemptKey& key) const {
  return AttemptDir(key) + "/diagnostics";
}

std::string Paths::CredentialDir(const AttemptKey& key) const {
  return AttemptDir(key) + "/credential";
}
std::string Paths::RankToken(const AttemptKey& key) const { return CredentialDir(key) + "/token"; }
std::string Paths::RankTable(const AttemptKey& key) const {
  return CredentialDir(key) + "/rank_table.json";
}
std::string Paths::RankTokenHash(const AttemptKey& key) const {
  return AttemptDir(key) + "/credential.sha256";
}
std::string Paths::Account(const AttemptKey& key) const { return AttemptDir(key) + "/account"; }
std::string Paths::TemporaryDir(const AttemptKey& key) const { return AttemptDir(key) + "/tmp"; }

std::string Paths::AttemptCode(const AttemptKey& key) const { return AttemptDir(key) + "/code"; }
std::string Paths::AttemptSetup(const AttemptKey& key) const { return AttemptDir(key) + "/setup"; }
std::string Paths::CodeDir() const { return state_dir_ + "/code"; }
std::string Paths::CodeTrees() const { return CodeDir() + "/trees"; }
std::string Paths::CodeSetups() const { return CodeDir() + "/setups"; }
std::string Paths::AttemptImage(const AttemptKey& key) const { return AttemptDir(key) + "/image"; }
std::string Paths::Containers(const AttemptKey& key) const {
  return AttemptDir(key) + "/containers";
}
std::string Paths::CodeImages() const { return CodeDir() + "/images"; }

std::string Paths::ShimSocket(const AttemptKey& key) const {
  return common::StrCat(runtime_dir_, "/shim-", KeyText(key), ".sock");
}
std::string Paths::TrainerSocket(const AttemptKey& key) const {
  return common::StrCat(runtime_dir_, "/trainer-", KeyText(key), ".sock");
}
std::string Paths::OwnTrainerDir(const AttemptKey& key) const {
  return common::StrCat(runtime_dir_, "/", KeyText(key));
}
std::string Paths::OwnTrainerSocket(const AttemptKey& key) const {
  return OwnTrainerDir(key) + "/trainer.sock";
}

std::optional<AttemptKey> ParseKey(std::string_view name) {
  AttemptKey key;
  const char* end = name.data() + name.size();
  const auto job = std::from_chars(name.data(), end, key.job);
  if (job.ec != std::errc() || job.ptr == end) return std::nullopt;
  const auto attempt = std::from_chars(job.ptr + 1, end, key.attempt);
  // Compared as a whole, so that "042-0", "42-0x" and "42+0" are not accepted.
  if (attempt.ec != std::errc() || KeyText(key) != name) return std::nullopt;
  return key;
}

std::optional<int64_t> ParseStep(std::string_view name) {
  if (name.substr(0, 5) != "step-") return std::nullopt;
  int64_t step = 0;
  const auto parsed = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  if (parsed.ec != std::errc() || step < 0 || StepName(step) != name) return std::nullopt;
  return step;
}

std::string StepName(int64_t step) { return common::StrCat("step-", step); }

std::string DefaultRuntimeDir(const std::string& state_dir) {
  std::string inside = state_dir + "/run";
  if (inside.size() <= kRuntimeDirBytesMax) return inside;
  return common::StrCat("/tmp/muster-", getuid(), "-", common::Sha256Hex(state_dir).substr(0, 12));
}

}  // namespace muster::worker
