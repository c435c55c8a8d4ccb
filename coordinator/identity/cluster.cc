#include "coordinator/identity/cluster.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/files/private_directory.h"
#include "common/hash/hex.h"
#include "common/hash/hmac.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/identity/seal.h"
#include "identity/keys.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kFileMax = 64 * 1024;

// The file CLUSTER of a data directory: lines "name: value".
struct ClusterFile {
  std::string name;
  std::string keys_dir;
  std::vector<std::string> host_names;
};

std::string ClusterFileOf(const std::string& data_dir) { return data_dir + "/CLUSTER"; }

absl::StatusOr<ClusterFile> ReadClusterFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, common::ReadFile(path, kFileMax));
  ClusterFile file;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    if (parts.first == "name") file.name = std::string(parts.second);
    if (parts.first == "keys") file.keys_dir = std::string(parts.second);
    if (parts.first == "host") file.host_names.emplace_back(parts.second);
  }
  if (identity::IsName(file.name) && file.keys_dir.starts_with('/')) return file;
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1325",
       .what = StrCat(path, " does not name a cluster and its keys"),
       .fix = "restore it: the lines are \"name: CLUSTER\", \"keys: /DIRECTORY\", \"host: NAME\""});
}

absl::Status WriteClusterFile(const std::string& path, const ClusterFile& file) {
  std::string text = StrCat("name: ", file.name, "\nkeys: ", file.keys_dir, "\n");
  for (const std::string& host : file.host_names) common::StrAppend(&text, "host: ", host, "\n");
  return common::WriteFileDurably(path, text, 0600);
}

absl::Status NotUsable(const std::string& what, std::string why) {
  return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                             {.code = "JC1325", .what = what, .why = std::move(why)});
}

absl::Status CheckHasNoCluster(const std::string& data_dir) {
  const std::string path = ClusterFileOf(data_dir);
  if (!common::Exists(path)) return absl::OkStatus();
  return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                             {.code = "JC1325",
                              .what = StrCat(data_dir, " belongs to a cluster already"),
                              .why = StrCat(path, " names it"),
                              .fix = "start the coordinator; `jobctl token create` makes tokens"});
}

absl::Status CheckHasNoKeys(const std::string& keys_dir) {
  if (!common::Exists(keys_dir + "/ca.pem")) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kAlreadyExists,
      {.code = "JC1325",
       .what = StrCat(keys_dir, " has the keys of a cluster already"),
       .fix = "if they are this cluster's, init --further uses them; otherwise name another "
              "--keys-dir"});
}

absl::Status CheckKeysAreApart(const std::string& data_dir, const std::string& keys_dir) {
  if (!(keys_dir + "/").starts_with(data_dir + "/")) return absl::OkStatus();
  return NotUsable(StrCat("the keys may not lie in ", keys_dir),
                   "that is inside the data directory, whose backups would have them");
}

// A secret file that only its owner may read.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && (info.st_mode & 077) != 0) {
    return NotUsable(StrCat("the cluster's key ", path, " is not used"), "others may read it");
  }
  absl::StatusOr<std::string> text = common::ReadFile(path, kFileMax);
  if (text.ok()) return text;
  return NotUsable(StrCat("the cluster's key ", path, " cannot be read"),
                   std::string(text.status().message()));
}

absl::StatusOr<identity::Authority> LoadAuthority(const std::string& keys_dir) {
  ASSIGN_OR_RETURN(const std::string key, ReadSecretFile(keys_dir + "/ca.key"));
  ASSIGN_OR_RETURN(const std::string certificate, common::ReadFile(keys_dir + "/ca.pem", kFileMax));
  absl::StatusOr<identity::Authority> authority = identity::Authority::Load(certificate, key);
  if (authority.ok()) return authority;
  return NotUsable(StrCat("the cluster's authority in ", keys_dir, " cannot be used"),
                   std::string(authority.status().message()));
}

absl::StatusOr<std::string> LoadSecretsKey(const std::string& keys_dir) {
  ASSIGN_OR_RETURN(std::string text, ReadSecretFile(keys_dir + "/secrets.key"));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::optional<std::string> key = common::FromHex(text);
  if (key.has_value() && key->size() == kSealKeyBytes) return *std::move(key);
  return NotUsable(StrCat(keys_dir, "/secrets.key cannot be used"), "it is not 64 hex digits");
}

// The authority is written last: its presence means that the directory is complete.
absl::Status WriteKeys(const std::string& keys_dir, const Cluster::Keys& keys) {
  RETURN_IF_ERROR(common::MakePrivateDirectory(keys_dir));
  RETURN_IF_ERROR(
      common::WriteFileDurably(keys_dir + "/secrets.key", StrCat(keys.secrets_key, "\n")));
  RETURN_IF_ERROR(common::WriteFileDurably(keys_dir + "/ca.key", keys.authority_key_pem));
  return common::WriteFileDurably(keys_dir + "/ca.pem", keys.authority_pem, 0644);
}

absl::Status MakeKeys(const std::string& keys_dir, const std::string& name, int64_t now_ms) {
  const identity::Authority made = identity::Authority::Create(name, now_ms);
  return WriteKeys(keys_dir, {.authority_pem = made.certificate_pem(),
                              .authority_key_pem = made.key().ToPem(),
                              .secrets_key = common::ToHex(identity::RandomBytes(kSealKeyBytes))});
}

std::string OwnName(const std::vector<std::string>& host_names) {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0 && identity::IsName(name)) return name;
  return !host_names.empty() && identity::IsName(host_names.front()) ? host_names.front() : "head";
}

absl::StatusOr<identity::PrivateKey> LoadOrMakeKey(const std::string& path) {
  if (common::Exists(path)) {
    ASSIGN_OR_RETURN(const std::string pem, ReadSecretFile(path));
    absl::StatusOr<identity::PrivateKey> key = identity::PrivateKey::FromPem(pem);
    if (key.ok()) return key;
    return NotUsable(StrCat("the coordinator's key ", path, " cannot be used"),
                     std::string(key.status().message()));
  }
  identity::PrivateKey made = identity::PrivateKey::Generate();
  RETURN_IF_ERROR(common::WriteFileDurably(path, made.ToPem()));
  return made;
}

}  // namespace

Cluster::Cluster(identity::Authority authority, identity::PrivateKey key, std::string keys_dir,
                 std::string secrets_key, std::vector<std::string> host_names)
    : authority_(std::move(authority)),
      key_(std::move(key)),
      keys_dir_(std::move(keys_dir)),
      secrets_key_(std::move(secrets_key)),
      host_names_(std::move(host_names)),
      certificate_file_(StrCat(keys_dir_, "/", OwnName(host_names_), ".pem")),
      key_file_(StrCat(keys_dir_, "/", OwnName(host_names_), ".key")),
      authority_file_(keys_dir_ + "/ca.pem") {}

absl::Status Cluster::PutKeys(const std::string& keys_dir, const Keys& keys) {
  RETURN_IF_ERROR(CheckHasNoKeys(keys_dir));
  return WriteKeys(keys_dir, keys);
}

absl::Status Cluster::CheckIsNew(const std::string& data_dir, const std::string& keys_dir) {
  RETURN_IF_ERROR(CheckHasNoCluster(data_dir));
  RETURN_IF_ERROR(CheckKeysAreApart(data_dir, keys_dir));
  return CheckHasNoKeys(keys_dir);
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Found(const Founding& founding, int64_t now_ms) {
  RETURN_IF_ERROR(identity::CheckName("a cluster", founding.name));
  RETURN_IF_ERROR(CheckHasNoCluster(founding.data_dir));
  const std::string keys_dir =
      founding.keys_dir.empty() ? founding.data_dir + "-keys" : founding.keys_dir;
  RETURN_IF_ERROR(CheckKeysAreApart(founding.data_dir, keys_dir));
  if (!common::Exists(keys_dir + "/ca.pem")) {
    RETURN_IF_ERROR(MakeKeys(keys_dir, founding.name, now_ms));
  }
  ASSIGN_OR_RETURN(const identity::Authority authority, LoadAuthority(keys_dir));
  if (authority.cluster() != founding.name) {
    return NotUsable(StrCat("the keys in ", keys_dir, " are not those of ", founding.name),
                     StrCat("they are the cluster ", authority.cluster(), "'s"));
  }
  RETURN_IF_ERROR(common::MakePrivateDirectory(founding.data_dir));
  RETURN_IF_ERROR(WriteClusterFile(
      ClusterFileOf(founding.data_dir),
      {.name = founding.name, .keys_dir = keys_dir, .host_names = founding.host_names}));
  return Open(founding.data_dir, keys_dir, now_ms);
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Open(const std::string& data_dir,
                                                       const std::string& keys_dir,
                                                       int64_t now_ms) {
  const std::string path = ClusterFileOf(data_dir);
  if (!common::Exists(path)) return nullptr;
  ASSIGN_OR_RETURN(ClusterFile file, ReadClusterFile(path));
  if (!keys_dir.empty()) file.keys_dir = keys_dir;
  ASSIGN_OR_RETURN(identity::Authority authority, LoadAuthority(file.keys_dir));
  if (authority.cluster() != file.name) {
    return NotUsable(StrCat("the keys in ", file.keys_dir, " are not those of ", file.name),
                     StrCat("they are the cluster ", authority.cluster(), "'s"));
  }
  ASSIGN_OR_RETURN(std::string secrets_key, LoadSecretsKey(file.keys_dir));
  ASSIGN_OR_RETURN(identity::PrivateKey key,
                   LoadOrMakeKey(StrCat(file.keys_dir, "/", OwnName(file.host_names), ".key")));
  std::unique_ptr<Cluster> cluster(new Cluster(std::move(authority), std::move(key),
                                               std::move(file.keys_dir), std::move(secrets_key),
                                               std::move(file.host_names)));
  RETURN_IF_ERROR(cluster->RenewIfDue(now_ms).status());
  return cluster;
}

Cluster::CertificateState Cluster::Certificate() const {
  std::lock_guard lock(mutex_);
  return certificate_;
}

absl::StatusOr<bool> Cluster::RenewIfDue(int64_t now_ms) {
  int64_t not_after_ms = 0;
  const absl::StatusOr<std::string> pem = common::ReadFile(certificate_file_, kFileMax);
  if (pem.ok()) {
    const absl::StatusOr<identity::CertificateFacts> facts = authority_.FactsIfIssued(*pem);
    const bool is_ours =
        facts.ok() && facts->key_sha256 == identity::PublicKeyHash(key_.handle().get());
    if (is_ours) not_after_ms = facts->not_after_ms;
  }
  const bool is_due = not_after_ms - now_ms <= kServerLivesMs / 3;
  const absl::Status issued = is_due ? IssueOwn(now_ms) : absl::OkStatus();
  if (is_due && issued.ok()) not_after_ms = now_ms + kServerLivesMs;
  {
    std::lock_guard lock(mutex_);
    certificate_.not_after_ms = not_after_ms;
    certificate_.failed_renewals += issued.ok() ? 0 : 1;
    certificate_.why = issued;
  }
  if (!issued.ok() && not_after_ms <= now_ms) return issued;
  return is_due && issued.ok();
}

absl::Status Cluster::IssueOwn(int64_t now_ms) const {
  std::vector<std::string> names = host_names_;
  names.emplace_back(identity::kCoordinatorDnsName);
  names.emplace_back("localhost");
  names.emplace_back("127.0.0.1");
  const identity::Authority::Issued issued =
      authority_.Issue({.key = key_.handle(),
                        .subject = {identity::Kind::kCoordinator, OwnName(host_names_)},
                        .now_ms = now_ms,
                        .lives_ms = kServerLivesMs,
                        .dns_names = std::move(names)});
  const absl::Status written = common::WriteFileDurably(certificate_file_, issued.pem, 0644);
  if (written.ok()) return written;
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1370",
       .what = StrCat("the coordinator's certificate ", certificate_file_, " cannot be renewed"),
       .why = std::string(written.message()),
       .fix = StrCat("let the coordinator write its directory; under systemd: ReadWritePaths=",
                     keys_dir_, " (systemctl edit muster-coordinator)")});
}

std::string Cluster::SecretsKeyText() const { return common::ToHex(secrets_key_); }

std::string Cluster::Seal(std::string_view purpose, std::string_view value) const {
  return SealWith(secrets_key_, purpose, value);
}

uint64_t Cluster::KeyedHash(std::string_view purpose, std::string_view bytes) const {
  // A separate key: the other one encrypts.
  const std::string key = common::HmacSha256Hex(secrets_key_, StrCat("hash of ", purpose));
  const std::string mac = common::HmacSha256Hex(key, bytes);
  return std::max<uint64_t>(1, std::strtoull(mac.substr(0, 16).c_str(), nullptr, 16));
}

absl::StatusOr<std::string> Cluster::Unseal(std::string_view purpose,
                                            std::string_view sealed) const {
  return UnsealWith(secrets_key_, purpose, sealed);
}

}  // namespace muster::coordinator
