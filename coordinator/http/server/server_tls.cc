#include "coordinator/http/server/server_tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/identity/browser_certificate.h"
#include "identity/certificate.h"
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

// HTTP/1.1 for clients that offer it; clients that offer only other protocols get an alert, so that bytes
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
  const auto pem = identity::Reading(certificate_pem);
  const Certificate certificate(PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr));
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
  // The rest of its chain.
  while (const Certificate above{PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr)}) {
    if (SSL_CTX_add1_chain_cert(context.get(), above.get()) != 1) return NotUsable("a bad chain");
  }
  ERR_clear_error();
  // Without resumption a handshake costs a fraction of a millisecond, and each one proves the key.
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseProtocol, nullptr);
  return Shown{.context = std::move(context), .names = HostsOfCertificate(certificate_pem)};
}

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTls::Make(std::string_view certificate_pem,
                                                           std::string_view key_pem) {
  ASSIGN_OR_RETURN(Shown shown, Read(certificate_pem, key_pem));
  std::shared_ptr<ServerTls> tls(new ServerTls({}));
  tls->Set(std::move(shown));
  return tls;
}

void ServerTls::Set(Shown shown) {
  SSL_CTX_set_tlsext_servername_callback(shown.context.get(), ChooseCertificate);
  SSL_CTX_set_tlsext_servername_arg(shown.context.get(), this);
  std::lock_guard lock(mutex_);
  shown_ = std::move(shown);
}

int ServerTls::ChooseCertificate(ssl_st* connection, int*, void* self) {
  const char* name = SSL_get_servername(connection, TLSEXT_NAMETYPE_host_name);
  if (name != nullptr && name == identity::kCoordinatorDnsName) return SSL_TLSEXT_ERR_OK;
  auto* const tls = static_cast<ServerTls*>(self);
  std::lock_guard lock(tls->mutex_);
  if (tls->for_browsers_.context != nullptr)
    SSL_set_SSL_CTX(connection, tls->for_browsers_.context.get());
  return SSL_TLSEXT_ERR_OK;
}

absl::Status ServerTls::ShowToBrowsers(std::string_view certificate_pem, std::string_view key_pem) {
  ASSIGN_OR_RETURN(Shown shown, Read(certificate_pem, key_pem));
  std::lock_guard lock(mutex_);
  for_browsers_ = std::move(shown);
  return absl::OkStatus();
}

absl::Status ServerTls::Replace(std::string_view certificate_pem, std::string_view key_pem) {
  ASSIGN_OR_RETURN(Shown shown, Read(certificate_pem, key_pem));
  Set(std::move(shown));
  return absl::OkStatus();
}

TlsContext ServerTls::Context() const {
  std::lock_guard lock(mutex_);
  return shown_.context;
}

std::vector<std::string> ServerTls::Names() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names = shown_.names;
  names.insert(names.end(), for_browsers_.names.begin(), for_browsers_.names.end());
  return names;
}

}  // namespace muster::coordinator::http
