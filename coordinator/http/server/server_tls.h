// The certificate that the HTTP listeners show: TLS 1.3 only, without a client certificate. It may be
// replaced while they listen; open connections keep theirs. Browsers may be shown another one: jobctl and
// workers ask for the name that every coordinator's certificate has, and browsers do not. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct ssl_ctx_st;
struct ssl_st;

namespace muster::coordinator::http {

// OpenSSL's SSL_CTX.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

class ServerTls {
 public:
  // INVALID_ARGUMENT unless both are PEM texts of one key.
  static absl::StatusOr<std::shared_ptr<ServerTls>> Make(std::string_view certificate_pem,
                                                         std::string_view key_pem);
  // For connections from now on. If it fails, the previous one stays.
  absl::Status Replace(std::string_view certificate_pem, std::string_view key_pem);
  // Shown to clients that do not ask for identity::kCoordinatorDnsName. If it fails, the previous one stays.
  absl::Status ShowToBrowsers(std::string_view certificate_pem, std::string_view key_pem);
  // This outlives it: handshakes use this.
  TlsContext Context() const;
  // The DNS names and addresses that the certificates are valid for.
  std::vector<std::string> Names() const;

 private:
  struct Shown {
    TlsContext context;
    std::vector<std::string> names;
  };
  explicit ServerTls(Shown shown) : shown_(std::move(shown)) {}
  static absl::StatusOr<Shown> Read(std::string_view certificate_pem, std::string_view key_pem);
  static int ChooseCertificate(ssl_st* connection, int* alert, void* self);
  void Set(Shown shown);

  mutable std::mutex mutex_;  // guards what follows
  Shown shown_;
  Shown for_browsers_;  // no context: the same one
};

}  // namespace muster::coordinator::http
