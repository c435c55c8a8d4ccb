#include "coordinator/http/server_tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "common/status.h"
#include "common/strings.h"
#include "identity/openssl_text.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

using identity::Freed;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

absl::Status NotUsable(std::string_view what) {
  const unsigned long error = ERR_peek_error();
  ERR_clear_error();
  const char* why = error == 0 ? nullptr : ERR_reason_error_string(error);
  return absl::InvalidArgumentError(StrCat(what, why == nullptr ? "" : ": ", why ? why : ""));
}

// As a Host field has it; empty: neither a name nor an address.
std::string HostOf(const GENERAL_NAME* name) {
  const ASN1_STRING* value = name->type == GEN_DNS     ? name->d.dNSName
                             : name->type == GEN_IPADD ? name->d.iPAddress
                                                       : nullptr;
  if (value == nullptr) return "";
  const unsigned char* bytes = ASN1_STRING_get0_data(value);
  const int size = ASN1_STRING_length(value);
  if (name->type == GEN_DNS) {
    return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)};
  }
  char text[INET6_ADDRSTRLEN] = {};
  if (size == 4) inet_ntop(AF_INET, bytes, text, sizeof text);
  if (size == 16) inet_ntop(AF_INET6, bytes, text, sizeof text);
  return text;
}

std::vector<std::string> HostsOf(X509* certificate) {
  std::vector<std::string> hosts;
  auto* const all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    std::string host = HostOf(sk_GENERAL_NAME_value(all, i));
    if (!host.empty()) hosts.push_back(std::move(host));
  }
  GENERAL_NAMES_free(all);
  return hosts;
}

// HTTP/1.1, to clients that ask; to those that want only another protocol an alert, so that bytes
// meant for another server are never read as HTTP.
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* size,
                   const unsigned char* offered, unsigned int offered_size, void*) {
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  unsigned char* found = nullptr;
  const int result =
      SSL_select_next_proto(&found, size, kHttp11, sizeof kHttp11 - 1, offered, offered_size);
  *chosen = found;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

absl::StatusOr<ServerTls::Shown> ServerTls::Read(std::string_view certificate_pem,
                                                 std::string_view key_pem) {
  ERR_clear_error();
  const Certificate certificate(
      PEM_read_bio_X509(identity::Reading(certificate_pem).get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) return NotUsable("not a certificate in PEM");
  // An empty passphrase: never ask the terminal for one.
  char none[] = "";
  const Key key(PEM_read_bio_PrivateKey(identity::Reading(key_pem).get(), nullptr, nullptr, none));
  if (key == nullptr) return NotUsable("not an unencrypted private key in PEM");
  TlsContext context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_use_certificate(context.get(), certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return NotUsable("the certificate cannot be used with the key");
  }
  // Without resumption a handshake costs a fraction of a millisecond, and each proves the key anew.
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseProtocol, nullptr);
  return Shown{.context = std::move(context), .names = HostsOf(certificate.get())};
}

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTls::Make(std::string_view certificate_pem,
                                                           std::string_view key_pem) {
  ASSIGN_OR_RETURN(Shown shown, Read(certificate_pem, key_pem));
  return std::shared_ptr<ServerTls>(new ServerTls(std::move(shown)));
}

absl::Status ServerTls::Replace(std::string_view certificate_pem, std::string_view key_pem) {
  ASSIGN_OR_RETURN(Shown shown, Read(certificate_pem, key_pem));
  std::lock_guard lock(mutex_);
  shown_ = std::move(shown);
  return absl::OkStatus();
}

TlsContext ServerTls::Context() const {
  std::lock_guard lock(mutex_);
  return shown_.context;
}

std::vector<std::string> ServerTls::Names() const {
  std::lock_guard lock(mutex_);
  return shown_.names;
}

}  // namespace muster::coordinator::http
