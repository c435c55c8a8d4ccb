// Certificates: what one states, how a key requests one, and the authority that issues them. Profile:
// X.509 v3, ECDSA P-256, one URI SAN (names.h), leaf certificates that sign nothing. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "identity/keys.h"
#include "identity/names.h"

struct x509_st;

namespace muster::identity {

// The DNS name in every coordinator's certificate: clients expect it at whatever address they dial.
inline constexpr std::string_view kCoordinatorDnsName = "muster-coordinator";

using CertificateHandle = std::shared_ptr<x509_st>;

// What a leaf certificate states.
struct CertificateFacts {
  std::string serial;  // 32 lower-case hex digits
  std::string cluster;
  Subject subject;
  std::string key_sha256;  // PublicKeyHash
  int64_t not_before_ms = 0;
  int64_t not_after_ms = 0;
};

// The first certificate of a PEM text. INVALID_ARGUMENT if there is none.
absl::StatusOr<CertificateHandle> ReadCertificate(std::string_view pem);
// INVALID_ARGUMENT unless it is of our profile. Says nothing about who signed it.
absl::StatusOr<CertificateFacts> FactsOf(const CertificateHandle& certificate);
absl::StatusOr<CertificateFacts> FactsOfPem(std::string_view pem);
KeyHandle KeyOf(const CertificateHandle& certificate);
// The certificate alone, encoded again: readers of PEM differ in what they see in a foreign text.
std::string PemOf(const CertificateHandle& certificate);
// INVALID_ARGUMENT unless the first certificate of `leaf_pem` is signed with the key of the first
// one of `authority_pem`. Says nothing about times.
absl::Status CheckIssuer(std::string_view leaf_pem, std::string_view authority_pem);
// SHA-256 of the certificate in DER, as 64 lower-case hex digits. A token pins the authority by it.
absl::StatusOr<std::string> Fingerprint(std::string_view certificate_pem);

// A request for a certificate (PKCS #10), signed with the key as proof that the sender has it. It
// contains no name: what authorizes the request decides who the certificate is for.
std::string MakeRequest(const PrivateKey& key);
// The key to be certified. INVALID_ARGUMENT unless it is a P-256 key that signed the request.
absl::StatusOr<KeyHandle> ReadRequest(std::string_view pem);

// The cluster's private certificate authority.
class Authority {
 public:
  static constexpr int64_t kLivesMs = 10LL * 365 * 24 * 3'600'000;
  // The nodes' clocks may be behind by this much.
  static constexpr int64_t kBackdatedMs = 5 * 60'000;

  // A new one, with its own key.
  static Authority Create(std::string_view cluster, int64_t now_ms);
  static absl::StatusOr<Authority> Load(std::string_view certificate_pem, std::string_view key_pem);

  const std::string& certificate_pem() const { return pem_; }
  const PrivateKey& key() const { return key_; }
  const std::string& cluster() const { return cluster_; }
  // Of its own certificate.
  std::string Fingerprint() const;

  struct Order {
    KeyHandle key;  // its public part is certified
    Subject subject;
    int64_t now_ms = 0;
    int64_t lives_ms = 0;
    std::vector<std::string> dns_names;  // for a coordinator: also addresses
  };
  struct Issued {
    std::string pem;
    CertificateFacts facts;
  };
  Issued Issue(const Order& order) const;

  // The facts of a certificate that this authority issued, expired or not. UNAUTHENTICATED if it did
  // not.
  absl::StatusOr<CertificateFacts> FactsIfIssued(std::string_view pem) const;

 private:
  Authority(PrivateKey key, CertificateHandle certificate, std::string pem, std::string cluster)
      : key_(std::move(key)),
        certificate_(std::move(certificate)),
        pem_(std::move(pem)),
        cluster_(std::move(cluster)) {}

  PrivateKey key_;
  CertificateHandle certificate_;
  std::string pem_;
  std::string cluster_;
};

}  // namespace muster::identity
