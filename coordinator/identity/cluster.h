// A cluster with identities: its name, its certificate authority and its keys. Created by
// `muster-coordinator init`; a data directory with a file CLUSTER belongs to one.
//
// The keys lie in a separate directory (0700), outside the data directory, so that no backup has them
// and no user who may read the data gets them:
//   ca.pem, ca.key       the authority; several coordinators of a cluster share them
//   secrets.key          encrypts secrets at rest: 64 hex digits
//   HOST.pem, HOST.key   this coordinator's own certificate
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "identity/certificate.h"

namespace muster::coordinator {

class Cluster {
 public:
  // The lifetime of the coordinator's own certificate; renewed when a third of it is left.
  static constexpr int64_t kServerLivesMs = 90LL * 24 * 3'600'000;

  struct Founding {
    std::string data_dir;
    std::string name;
    std::string keys_dir;                 // empty: DATA_DIR-keys
    std::vector<std::string> host_names;  // by which clients reach it: names and addresses
  };
  // ALREADY_EXISTS unless neither directory belongs to a cluster. Creates nothing.
  static absl::Status CheckIsNew(const std::string& data_dir, const std::string& keys_dir);
  // Puts keys of another coordinator of the cluster into `keys_dir`, for Found. ALREADY_EXISTS if it has some.
  struct Keys {
    std::string authority_pem;
    std::string authority_key_pem;
    std::string secrets_key;  // 64 hex digits
  };
  static absl::Status PutKeys(const std::string& keys_dir, const Keys& keys);
  // A new cluster. ALREADY_EXISTS if the data directory has one. Existing keys of the same cluster name
  // are used: for a second coordinator of a cluster.
  static absl::StatusOr<std::unique_ptr<Cluster>> Found(const Founding& founding, int64_t now_ms);
  // The cluster of a data directory; null if it has none. `keys_dir` overrides the one in CLUSTER.
  static absl::StatusOr<std::unique_ptr<Cluster>> Open(const std::string& data_dir,
                                                       const std::string& keys_dir, int64_t now_ms);

  const std::string& name() const { return authority_.cluster(); }
  const std::string& keys_dir() const { return keys_dir_; }
  const std::vector<std::string>& host_names() const { return host_names_; }
  const identity::Authority& authority() const { return authority_; }
  // Files of the coordinator's certificate, key and authority, which TLS reads and watches.
  const std::string& certificate_file() const { return certificate_file_; }
  const std::string& key_file() const { return key_file_; }
  const std::string& authority_file() const { return authority_file_; }
  // Issues a new certificate for the same key if the old one nears its end. True: it did. An error
  // (JC1370) only if no valid one is left; until then Certificate() reports a failure. Blocks on the
  // disk.
  absl::StatusOr<bool> RenewIfDue(int64_t now_ms);
  struct CertificateState {
    int64_t not_after_ms = 0;      // of the one in certificate_file(); 0: it is not one of ours
    uint64_t failed_renewals = 0;  // since the start
    absl::Status why;              // of the last failed renewal; OK once no renewal is due
  };
  // Any thread.
  CertificateState Certificate() const;

  // 64 hex digits. Secret: only for files of mode 0600, and for further coordinators.
  std::string SecretsKeyText() const;
  // Encrypts with the secrets key (AES-256-GCM); Unseal needs the same `purpose`.
  std::string Seal(std::string_view purpose, std::string_view value) const;
  // 64 bits, never 0. Without the secrets key, no reader can tell which bytes were hashed.
  uint64_t KeyedHash(std::string_view purpose, std::string_view bytes) const;
  // DATA_LOSS if it was sealed for another purpose, with another key, or changed.
  absl::StatusOr<std::string> Unseal(std::string_view purpose, std::string_view sealed) const;

 private:
  absl::Status IssueOwn(int64_t now_ms) const;
  Cluster(identity::Authority authority, identity::PrivateKey key, std::string keys_dir,
          std::string secrets_key, std::vector<std::string> host_names);

  const identity::Authority authority_;
  const identity::PrivateKey key_;
  const std::string keys_dir_;
  const std::string secrets_key_;  // 32 bytes
  const std::vector<std::string> host_names_;
  std::string certificate_file_;
  std::string key_file_;
  std::string authority_file_;
  mutable std::mutex mutex_;  // guards what follows
  CertificateState certificate_;
};

}  // namespace muster::coordinator
