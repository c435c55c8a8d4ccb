#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <climits>

#include "common/base/status.h"
#include "common/http/channel.h"

namespace muster::common {
namespace {

std::string TlsError() {
  const unsigned long error = ERR_peek_error();
  ERR_clear_error();
  const char* why = error == 0 ? nullptr : ERR_reason_error_string(error);
  if (why == nullptr) return "the connection broke";
  const std::string text(why);
  // OpenSSL's error for the first bytes of another protocol.
  return text == "wrong version number" ? "it does not speak TLS" : text;
}

class Tls final : public Channel {
 public:
  Tls(int fd, const Deadline& deadline) : fd_(fd), deadline_(deadline) {}

  absl::Status Begin(const HttpCall& call) {
    ERR_clear_error();
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (context_ == nullptr) return absl::AbortedError(TlsError());
    RETURN_IF_ERROR(call.pinned ? Trust(*call.pinned) : TrustSystem());
    ssl_.reset(SSL_new(context_.get()));
    const bool made = ssl_ != nullptr && SSL_set_fd(ssl_.get(), fd_) == 1 &&
                      (call.pinned ? AskFor(call.pinned->name) : Require(call.url.host));
    if (!made) return absl::AbortedError(TlsError());
    const absl::Status shaken = Repeat([this] { return SSL_connect(ssl_.get()); });
    const long verified = SSL_get_verify_result(ssl_.get());
    const bool matters = SSL_get_verify_mode(ssl_.get()) != SSL_VERIFY_NONE;
    if (matters && verified != X509_V_OK)
      return absl::UnauthenticatedError(X509_verify_cert_error_string(verified));
    RETURN_IF_ERROR(shaken);
    if (!call.pinned || !call.pinned->check) return absl::OkStatus();
    const std::unique_ptr<X509, Free> shown(SSL_get1_peer_certificate(ssl_.get()));
    if (shown == nullptr) return absl::UnauthenticatedError("it shows no certificate");
    return call.pinned->check(shown.get());
  }

  absl::Status Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const int most = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
      int count = 0;
      RETURN_IF_ERROR(Repeat([&] { return count = SSL_write(ssl_.get(), bytes.data(), most); }));
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Read() override {
    char buffer[16 * 1024];
    int count = 0;
    const absl::Status status =
        Repeat([&] { return count = SSL_read(ssl_.get(), buffer, sizeof(buffer)); });
    if (!status.ok() && (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0) return "";
    RETURN_IF_ERROR(status);
    return std::string(buffer, static_cast<size_t>(count));
  }

 private:
  absl::Status TrustSystem() {
    if (SSL_CTX_set_default_verify_paths(context_.get()) != 1 ||
        SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION) != 1)
      return absl::AbortedError(TlsError());
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    return absl::OkStatus();
  }

  absl::Status Trust(const PinnedServer& server) {
    if (SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION) != 1)
      return absl::AbortedError(TlsError());
    if (server.authority_pem.empty()) return absl::OkStatus();
    const std::unique_ptr<BIO, Free> text(BIO_new_mem_buf(
        server.authority_pem.data(), static_cast<int>(server.authority_pem.size())));
    const std::unique_ptr<X509, Free> authority(
        PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
    if (authority == nullptr ||
        X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority.get()) != 1)
      return absl::InvalidArgumentError("the authority is not a certificate");
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    return absl::OkStatus();
  }

  bool AskFor(const std::string& name) {
    return SSL_set_tlsext_host_name(ssl_.get(), name.c_str()) == 1;
  }

  // A certificate names an IP address as such. A host name is also sent, for servers that have several.
  bool Require(const std::string& host) {
    X509_VERIFY_PARAM* verify = SSL_get0_param(ssl_.get());
    return X509_VERIFY_PARAM_set1_ip_asc(verify, host.c_str()) == 1 ||
           (SSL_set1_host(ssl_.get(), host.c_str()) == 1 && AskFor(host));
  }

  template <typename Call>
  absl::Status Repeat(Call call) {
    while (true) {
      ERR_clear_error();
      const int result = call();
      if (result > 0) return absl::OkStatus();
      const int why = SSL_get_error(ssl_.get(), result);
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        return absl::AbortedError(TlsError());
      RETURN_IF_ERROR(deadline_.AwaitSocket(fd_, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT));
    }
  }

  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(BIO* bio) const { BIO_free(bio); }
  };
  const int fd_;
  const Deadline& deadline_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> ssl_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Channel>> TlsChannel(int fd, const HttpCall& call,
                                                    const Deadline& deadline) {
  auto channel = std::make_unique<Tls>(fd, deadline);
  RETURN_IF_ERROR(channel->Begin(call));
  return channel;
}

}  // namespace muster::common
