// The issuing side of certificate.h.
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "identity/certificate.h"
#include "identity/openssl_text.h"

namespace muster::identity {
namespace {

using common::StrCat;

constexpr size_t kSerialBytes = 16;
constexpr size_t kCommonNameMax = 64;

void MustDo(bool done) {
  // Out of memory, or a bug: names and keys from outside are checked before they get here.
  if (!done) std::abort();
}

CertificateHandle NewCertificate(EVP_PKEY* key, int64_t from_ms, int64_t to_ms) {
  CertificateHandle made(X509_new(), X509_free);
  // Positive, and never with a leading zero byte: its hex digits are its name everywhere.
  std::string serial = RandomBytes(kSerialBytes);
  serial[0] = static_cast<char>((serial[0] & 0x3f) | 0x40);
  BIGNUM* number = BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()),
                             static_cast<int>(serial.size()), nullptr);
  MustDo(made != nullptr && number != nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(made.get()));
  BN_free(number);
  MustDo(X509_set_version(made.get(), X509_VERSION_3) == 1 &&
         ASN1_TIME_set(X509_getm_notBefore(made.get()), from_ms / 1'000) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(made.get()), to_ms / 1'000) != nullptr &&
         X509_set_pubkey(made.get(), key) == 1);
  return made;
}

void AddName(X509_NAME* name, const char* field, std::string_view text) {
  MustDo(X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1);
}

void AddExtension(X509* to, X509* issuer, int which, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str());
  MustDo(extension != nullptr && X509_add_ext(to, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

// Built as values: text from outside never meets OpenSSL's configuration syntax.
void AddAlternativeNames(X509* to, const std::string& uri, const std::vector<std::string>& names) {
  GENERAL_NAMES* all = GENERAL_NAMES_new();
  MustDo(all != nullptr);
  const auto add = [all](int type, const std::string& bytes) {
    GENERAL_NAME* name = GENERAL_NAME_new();
    ASN1_STRING* text = type == GEN_IPADD ? static_cast<ASN1_STRING*>(ASN1_OCTET_STRING_new())
                                          : static_cast<ASN1_STRING*>(ASN1_IA5STRING_new());
    MustDo(name != nullptr && text != nullptr &&
           ASN1_STRING_set(text, bytes.data(), static_cast<int>(bytes.size())) == 1);
    GENERAL_NAME_set0_value(name, type, text);
    MustDo(sk_GENERAL_NAME_push(all, name) > 0);
  };
  add(GEN_URI, uri);
  for (const std::string& name : names) {
    unsigned char address[16];
    if (inet_pton(AF_INET, name.c_str(), address) == 1) {
      add(GEN_IPADD, std::string(reinterpret_cast<char*>(address), 4));
    } else if (inet_pton(AF_INET6, name.c_str(), address) == 1) {
      add(GEN_IPADD, std::string(reinterpret_cast<char*>(address), 16));
    } else {
      add(GEN_DNS, name);
    }
  }
  MustDo(X509_add1_ext_i2d(to, NID_subject_alt_name, all, 0, X509V3_ADD_DEFAULT) == 1);
  GENERAL_NAMES_free(all);
}

}  // namespace

Authority Authority::Create(std::string_view cluster, int64_t now_ms) {
  PrivateKey key = PrivateKey::Generate();
  CertificateHandle made =
      NewCertificate(key.handle().get(), now_ms - kBackdatedMs, now_ms + kLivesMs);
  X509_NAME* name = X509_get_subject_name(made.get());
  AddName(name, "O", cluster);
  AddName(name, "CN", "Muster cluster authority");
  MustDo(X509_set_issuer_name(made.get(), name) == 1);
  AddExtension(made.get(), made.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  AddExtension(made.get(), made.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(made.get(), made.get(), NID_subject_key_identifier, "hash");
  MustDo(X509_sign(made.get(), key.handle().get(), EVP_sha256()) > 0);
  std::string pem = PemOf(made);
  return {std::move(key), std::move(made), std::move(pem), std::string(cluster)};
}

absl::StatusOr<Authority> Authority::Load(std::string_view certificate_pem,
                                          std::string_view key_pem) {
  ASSIGN_OR_RETURN(PrivateKey key, PrivateKey::FromPem(key_pem));
  ASSIGN_OR_RETURN(CertificateHandle certificate, ReadCertificate(certificate_pem));
  if (X509_check_private_key(certificate.get(), key.handle().get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the certificate is not that of the key");
  }
  char cluster[256] = {};
  if (X509_check_ca(certificate.get()) != 1 ||
      X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_organizationName,
                                cluster, sizeof cluster) <= 0 ||
      !IsName(cluster)) {
    return absl::InvalidArgumentError("not the certificate of a cluster's authority");
  }
  std::string pem = PemOf(certificate);
  return Authority(std::move(key), std::move(certificate), std::move(pem), cluster);
}

std::string Authority::Fingerprint() const { return *identity::Fingerprint(pem_); }

Authority::Issued Authority::Issue(const Order& order) const {
  const CertificateHandle made =
      NewCertificate(order.key.get(), order.now_ms - kBackdatedMs, order.now_ms + order.lives_ms);
  X509_NAME* name = X509_get_subject_name(made.get());
  AddName(name, "O", cluster_);
  // For people who look at it. The alternative name has the full subject: X.509 allows 64 bytes here.
  AddName(name, "CN", PathOf(order.subject).substr(0, kCommonNameMax));
  MustDo(X509_set_issuer_name(made.get(), X509_get_subject_name(certificate_.get())) == 1);
  AddExtension(made.get(), certificate_.get(), NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(made.get(), certificate_.get(), NID_key_usage, "critical,digitalSignature");
  AddExtension(made.get(), certificate_.get(), NID_ext_key_usage,
               order.subject.kind == Kind::kCoordinator ? "serverAuth,clientAuth" : "clientAuth");
  AddExtension(made.get(), certificate_.get(), NID_authority_key_identifier, "keyid");
  AddAlternativeNames(made.get(), UriOf(cluster_, order.subject), order.dns_names);
  MustDo(X509_sign(made.get(), key_.handle().get(), EVP_sha256()) > 0);
  absl::StatusOr<CertificateFacts> facts = FactsOf(made);
  MustDo(facts.ok());
  return {.pem = PemOf(made), .facts = *std::move(facts)};
}

absl::StatusOr<CertificateFacts> Authority::FactsIfIssued(std::string_view pem) const {
  ASSIGN_OR_RETURN(const CertificateHandle certificate, ReadCertificate(pem));
  if (X509_verify(certificate.get(), key_.handle().get()) != 1) {
    ERR_clear_error();
    return absl::UnauthenticatedError("this cluster's authority did not issue it");
  }
  ASSIGN_OR_RETURN(CertificateFacts facts, FactsOf(certificate));
  if (facts.cluster != cluster_) {
    return absl::UnauthenticatedError(StrCat("it is for the cluster ", facts.cluster));
  }
  return facts;
}

}  // namespace muster::identity
