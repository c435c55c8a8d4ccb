#include "identity/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <utility>

#include "common/base/status.h"
#include "common/hash/hex.h"
#include "common/text/strings.h"
#include "identity/openssl_text.h"

namespace muster::identity {
namespace {

using common::StrCat;

constexpr size_t kPemBytesMax = 64 * 1024;

// We issue nothing larger, and the parser sees no more than this of what others send.
absl::Status CheckSize(std::string_view pem) {
  if (pem.size() <= kPemBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("it has ", pem.size(), " bytes"));
}

absl::StatusOr<int64_t> MsOf(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1)
    return absl::InvalidArgumentError("it has no valid dates");
  return int64_t{timegm(&parts)} * 1'000;
}

// The only URI among the alternative names.
absl::StatusOr<std::string> UriIn(const x509_st* certificate) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::string uri;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    if (!uri.empty()) return absl::InvalidArgumentError("it names two identities");
    const ASN1_STRING* text = name->d.uniformResourceIdentifier;
    uri.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
               static_cast<size_t>(ASN1_STRING_length(text)));
  }
  if (uri.empty()) return absl::InvalidArgumentError("it names no identity");
  return uri;
}

std::string SerialOf(const x509_st* certificate) {
  const ASN1_INTEGER* serial = X509_get0_serialNumber(certificate);
  return common::ToHex({reinterpret_cast<const char*>(ASN1_STRING_get0_data(serial)),
                        static_cast<size_t>(ASN1_STRING_length(serial))});
}

}  // namespace

absl::StatusOr<CertificateHandle> ReadCertificate(std::string_view pem) {
  RETURN_IF_ERROR(CheckSize(pem));
  const BioHandle in = Reading(pem);
  CertificateHandle certificate(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr), X509_free);
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(StrCat("not a certificate: ", WhyOpenSslFailed()));
  }
  return certificate;
}

absl::StatusOr<CertificateFacts> FactsOf(const CertificateHandle& certificate) {
  CertificateFacts facts;
  ASSIGN_OR_RETURN(const std::string uri, UriIn(certificate.get()));
  ASSIGN_OR_RETURN(Named named, ParseUri(uri));
  facts.cluster = std::move(named.cluster);
  facts.subject = std::move(named.subject);
  if (X509_check_ca(certificate.get()) != 0) {
    return absl::InvalidArgumentError("it may sign others, which a leaf may not");
  }
  EVP_PKEY* key = X509_get0_pubkey(certificate.get());
  if (key == nullptr || !IsP256(key)) return absl::InvalidArgumentError("its key is not P-256");
  facts.key_sha256 = PublicKeyHash(key);
  facts.serial = SerialOf(certificate.get());
  ASSIGN_OR_RETURN(facts.not_before_ms, MsOf(X509_get0_notBefore(certificate.get())));
  ASSIGN_OR_RETURN(facts.not_after_ms, MsOf(X509_get0_notAfter(certificate.get())));
  return facts;
}

absl::StatusOr<CertificateFacts> FactsOfPem(std::string_view pem) {
  ASSIGN_OR_RETURN(const CertificateHandle certificate, ReadCertificate(pem));
  return FactsOf(certificate);
}

KeyHandle KeyOf(const CertificateHandle& certificate) {
  return {X509_get_pubkey(certificate.get()), EVP_PKEY_free};
}

std::string PemOf(const CertificateHandle& certificate) {
  const BioHandle out = Writing();
  PEM_write_bio_X509(out.get(), certificate.get());
  return TextOf(out);
}

absl::Status CheckIssuer(std::string_view leaf_pem, std::string_view authority_pem) {
  ASSIGN_OR_RETURN(const CertificateHandle leaf, ReadCertificate(leaf_pem));
  ASSIGN_OR_RETURN(const CertificateHandle authority, ReadCertificate(authority_pem));
  if (X509_verify(leaf.get(), KeyOf(authority).get()) == 1) return absl::OkStatus();
  ERR_clear_error();
  return absl::InvalidArgumentError("its certificate was not issued by its authority");
}

absl::StatusOr<std::string> Fingerprint(std::string_view certificate_pem) {
  ASSIGN_OR_RETURN(const CertificateHandle certificate, ReadCertificate(certificate_pem));
  unsigned char hash[32];
  unsigned size = sizeof hash;
  if (X509_digest(certificate.get(), EVP_sha256(), hash, &size) != 1) {
    return absl::InvalidArgumentError(StrCat("not a certificate: ", WhyOpenSslFailed()));
  }
  return common::ToHex({reinterpret_cast<const char*>(hash), size});
}

std::string MakeRequest(const PrivateKey& key) {
  const std::unique_ptr<X509_REQ, decltype(&X509_REQ_free)> request(X509_REQ_new(), X509_REQ_free);
  X509_REQ_set_version(request.get(), X509_REQ_VERSION_1);
  X509_REQ_set_pubkey(request.get(), key.handle().get());
  X509_REQ_sign(request.get(), key.handle().get(), EVP_sha256());
  const BioHandle out = Writing();
  PEM_write_bio_X509_REQ(out.get(), request.get());
  return TextOf(out);
}

absl::StatusOr<KeyHandle> ReadRequest(std::string_view pem) {
  RETURN_IF_ERROR(CheckSize(pem));
  const BioHandle in = Reading(pem);
  const std::unique_ptr<X509_REQ, decltype(&X509_REQ_free)> request(
      PEM_read_bio_X509_REQ(in.get(), nullptr, nullptr, nullptr), X509_REQ_free);
  if (request == nullptr) {
    return absl::InvalidArgumentError(
        StrCat("not a request for a certificate: ", WhyOpenSslFailed()));
  }
  KeyHandle key(X509_REQ_get_pubkey(request.get()), EVP_PKEY_free);
  if (key == nullptr || !IsP256(key.get())) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the key that it asks a certificate for is not P-256");
  }
  if (X509_REQ_verify(request.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("it is not signed with the key that it asks for");
  }
  return key;
}

}  // namespace muster::identity
