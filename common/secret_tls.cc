#include "common/secret_tls.h"

#include <openssl/ssl.h>

#include <string_view>

namespace muster::common {
namespace {

constexpr unsigned char kCipher[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

std::string_view KindOf(SSL* tls) {
  return static_cast<const char*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(tls)));
}

SSL_SESSION* SessionOf(SSL* tls) {
  const auto* secret = static_cast<const std::string*>(SSL_get_app_data(tls));
  const SSL_CIPHER* cipher = SSL_CIPHER_find(tls, kCipher);
  SSL_SESSION* session = SSL_SESSION_new();
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(secret->data()),
                                  secret->size()) != 1 ||
      SSL_SESSION_set_cipher(session, cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int UseSecret(SSL* tls, const EVP_MD*, const unsigned char** id, size_t* id_bytes,
              SSL_SESSION** session) {
  *session = SessionOf(tls);
  *id = reinterpret_cast<const unsigned char*>(KindOf(tls).data());
  *id_bytes = KindOf(tls).size();
  return *session != nullptr ? 1 : 0;
}

int FindSecret(SSL* tls, const unsigned char* id, size_t id_bytes, SSL_SESSION** session) {
  *session = nullptr;
  if (std::string_view(reinterpret_cast<const char*>(id), id_bytes) == KindOf(tls))
    *session = SessionOf(tls);
  return 1;  // without a session the handshake fails: there is no certificate
}

}  // namespace

SSL_CTX* NewSecretContext(bool is_server, const char* kind) {
  SSL_CTX* context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
  if (context == nullptr) return nullptr;
  SSL_CTX_set_app_data(context, const_cast<char*>(kind));
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (is_server) {
    SSL_CTX_set_psk_find_session_callback(context, FindSecret);
  } else {
    SSL_CTX_set_psk_use_session_callback(context, UseSecret);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);  // no certificate is accepted
  }
  return context;
}

void SetSecret(SSL* tls, const std::string* secret) {
  SSL_set_app_data(tls, const_cast<std::string*>(secret));
}

bool PeerHasSecret(SSL* tls) { return SSL_session_reused(tls) == 1; }

}  // namespace muster::common
