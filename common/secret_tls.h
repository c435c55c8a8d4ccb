// TLS 1.3 between two programs that the coordinator has told the same secret: an external pre-shared key. Each side
// proves that it has it, and no certificate is needed (RFC 8446, section 2.2).
#pragma once

#include <string>

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

namespace muster::common {

// For connections of one kind: `kind` names it to the peer, and lives as long as the program. Null: OpenSSL has no memory.
// Freed by the caller.
SSL_CTX* NewSecretContext(bool is_server, const char* kind);
// `secret`: 32 bytes, which outlive `tls`.
void SetSecret(SSL* tls, const std::string* secret);
// After the handshake: false: the peer did without the secret, as a stranger with a certificate does.
bool PeerHasSecret(SSL* tls);

}  // namespace muster::common
