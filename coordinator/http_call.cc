#include "coordinator/http_call.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/version.h"

namespace muster::coordinator {
namespace {

using common::StrAppend;
using common::StrCat;
using common::UniqueFd;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kSlice{100};  // how soon a stop is noticed
constexpr size_t kStatusLineBytesMax = 1024;
constexpr size_t kReadBytes = 4 * 1024;

// The time and the patience of one request.
class Patience {
 public:
  explicit Patience(const std::atomic<bool>& stop) : stop_(stop) {}
  absl::Status Check() const {
    if (stop_) return absl::CancelledError("the coordinator is stopping");
    if (steady_clock::now() > deadline_)
      return absl::UnavailableError(StrCat("no answer within ", kCallWithin.count(), " s"));
    return absl::OkStatus();
  }
  absl::Status AwaitSocket(int fd, short events) const {
    while (true) {
      RETURN_IF_ERROR(Check());
      pollfd waited{fd, events, 0};
      if (poll(&waited, 1, static_cast<int>(kSlice.count())) > 0) return absl::OkStatus();
    }
  }

 private:
  const std::atomic<bool>& stop_;
  const steady_clock::time_point deadline_ = steady_clock::now() + kCallWithin;
};

// getaddrinfo in a thread of the C library: a name server may take longer than we wait.
struct Lookup {
  gaicb request{};
  std::string host, port;
  addrinfo hints{};
};

absl::StatusOr<std::shared_ptr<addrinfo>> Resolve(const common::HttpUrl& url,
                                                  const Patience& patience) {
  auto lookup = std::make_unique<Lookup>();
  lookup->host = url.host;
  lookup->port = std::to_string(url.port);
  lookup->hints.ai_socktype = SOCK_STREAM;
  lookup->hints.ai_flags = AI_NUMERICSERV;
  lookup->request.ar_name = lookup->host.c_str();
  lookup->request.ar_service = lookup->port.c_str();
  lookup->request.ar_request = &lookup->hints;
  gaicb* request = &lookup->request;
  if (const int error = getaddrinfo_a(GAI_NOWAIT, &request, 1, nullptr); error != 0)
    return absl::UnavailableError(gai_strerror(error));
  while (gai_error(request) == EAI_INPROGRESS) {
    const timespec slice{0, milliseconds(kSlice).count() * 1'000'000};
    gai_suspend(&request, 1, &slice);
    const absl::Status waits = patience.Check();
    if (waits.ok() || gai_error(request) != EAI_INPROGRESS) continue;
    // Still in use by that thread unless it can be cancelled: never freed then.
    if (gai_cancel(request) != EAI_CANCELED) static_cast<void>(lookup.release());
    return waits;
  }
  if (const int error = gai_error(request); error != 0) {
    return absl::UnavailableError(
        StrCat("the host ", url.host, " does not resolve: ", gai_strerror(error)));
  }
  return std::shared_ptr<addrinfo>(request->ar_result, freeaddrinfo);
}

absl::StatusOr<UniqueFd> ConnectTo(const addrinfo& address, const Patience& patience) {
  UniqueFd socket_fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd.valid()) return absl::UnavailableError(strerror(errno));
  if (connect(socket_fd.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)
    return absl::UnavailableError(strerror(errno));
  RETURN_IF_ERROR(patience.AwaitSocket(socket_fd.get(), POLLOUT));
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket_fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return absl::UnavailableError(strerror(error));
  return socket_fd;
}

// The first address that may be called and answers.
absl::StatusOr<UniqueFd> Connect(const HttpCall& call, const Patience& patience) {
  const common::HttpUrl& url = call.url;
  ASSIGN_OR_RETURN(const std::shared_ptr<addrinfo> found, Resolve(url, patience));
  absl::Status last = absl::UnavailableError(StrCat(url.host, " has no address"));
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    if (absl::Status may = call.may_call(each->ai_addr); !may.ok()) {
      last = std::move(may);
      continue;
    }
    absl::StatusOr<UniqueFd> connected = ConnectTo(*each, patience);
    if (connected.ok() || absl::IsCancelled(connected.status())) return connected;
    last = absl::UnavailableError(
        StrCat("cannot reach ", url.Authority(), ": ", common::MessageOf(connected.status())));
  }
  return last;
}

// Bytes to and from the server, encrypted or not.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual absl::Status Write(std::string_view bytes) = 0;
  // At least one byte; empty at the end.
  virtual absl::StatusOr<std::string> Read() = 0;
};

class PlainChannel final : public Channel {
 public:
  PlainChannel(int fd, const Patience& patience) : fd_(fd), patience_(patience) {}
  absl::Status Write(std::string_view bytes) override {
    while (!bytes.empty()) {
      RETURN_IF_ERROR(patience_.AwaitSocket(fd_, POLLOUT));
      const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count < 0) return absl::UnavailableError(strerror(errno));
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Read() override {
    char buffer[kReadBytes];
    while (true) {
      RETURN_IF_ERROR(patience_.AwaitSocket(fd_, POLLIN));
      const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count < 0) return absl::UnavailableError(strerror(errno));
      return std::string(buffer, static_cast<size_t>(count));
    }
  }

 private:
  const int fd_;
  const Patience& patience_;
};

std::string TlsError() {
  const unsigned long error = ERR_get_error();
  char text[256] = "the connection broke";
  if (error != 0) ERR_error_string_n(error, text, sizeof(text));
  return text;
}

class TlsChannel final : public Channel {
 public:
  TlsChannel(int fd, const Patience& patience) : fd_(fd), patience_(patience) {}

  absl::Status Begin(const std::string& host) {
    ERR_clear_error();
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (context_ == nullptr || SSL_CTX_set_default_verify_paths(context_.get()) != 1 ||
        SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION) != 1)
      return absl::UnavailableError(TlsError());
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    ssl_.reset(SSL_new(context_.get()));
    if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), fd_) != 1)
      return absl::UnavailableError(TlsError());
    // An address is in the certificate as such; a name is also sent, for servers of several.
    X509_VERIFY_PARAM* verify = SSL_get0_param(ssl_.get());
    if (X509_VERIFY_PARAM_set1_ip_asc(verify, host.c_str()) != 1 &&
        (SSL_set1_host(ssl_.get(), host.c_str()) != 1 ||
         SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) != 1))
      return absl::UnavailableError(TlsError());
    const absl::Status begun = Repeat([this] { return SSL_connect(ssl_.get()); });
    const long verified = SSL_get_verify_result(ssl_.get());
    if (!begun.ok() && verified != X509_V_OK) {
      return absl::UnavailableError(StrCat(
          "the certificate of ", host, " is not valid: ", X509_verify_cert_error_string(verified)));
    }
    return begun;
  }
  absl::Status Write(std::string_view bytes) override {
    return Repeat(
        [&] { return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())); });
  }
  absl::StatusOr<std::string> Read() override {
    char buffer[kReadBytes];
    int count = 0;
    const absl::Status status =
        Repeat([&] { return count = SSL_read(ssl_.get(), buffer, sizeof(buffer)); });
    if (!status.ok() && (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0) return "";
    RETURN_IF_ERROR(status);
    return std::string(buffer, static_cast<size_t>(count));
  }

 private:
  template <typename Call>
  absl::Status Repeat(Call call) {
    while (true) {
      ERR_clear_error();
      const int result = call();
      if (result > 0) return absl::OkStatus();
      const int why = SSL_get_error(ssl_.get(), result);
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        return absl::UnavailableError(TlsError());
      RETURN_IF_ERROR(patience_.AwaitSocket(fd_, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT));
    }
  }

  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  const int fd_;
  const Patience& patience_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> ssl_;
};

std::string HttpText(const HttpCall& call) {
  std::string text = StrCat(call.body.empty() ? "GET " : "POST ", call.url.target,
                            " HTTP/1.1\r\nHost: ", call.url.Authority(), "\r\nUser-Agent: Muster/",
                            common::kVersion, "\r\n");
  if (!call.body.empty()) {
    StrAppend(&text, "Content-Type: ", call.content_type, "\r\nContent-Length: ", call.body.size(),
              "\r\n");
  }
  StrAppend(&text, "Connection: close\r\n");
  for (const auto& [name, value] : call.headers) StrAppend(&text, name, ": ", value, "\r\n");
  StrAppend(&text, "\r\n", call.body);
  return text;
}

// "HTTP/1.1 200 OK": 200.
absl::StatusOr<int> ReadStatus(Channel& channel) {
  std::string line;
  while (line.find('\n') == std::string::npos && line.size() < kStatusLineBytesMax) {
    ASSIGN_OR_RETURN(const std::string more, channel.Read());
    if (more.empty()) break;
    line += more;
  }
  int status = 0;
  if (sscanf(line.c_str(), "HTTP/1.%*1[01] %3d", &status) != 1 || status < 100)
    return absl::UnavailableError("the answer is not HTTP");
  return status;
}

absl::StatusOr<common::HttpResponse> ReadAnswer(Channel& channel, size_t bytes_max) {
  std::string bytes;
  while (true) {
    ASSIGN_OR_RETURN(const std::string more, channel.Read());
    bytes += more;
    if (bytes.size() > bytes_max)
      return absl::UnavailableError(StrCat("the answer has more than ", bytes_max, " bytes"));
    const auto answer = common::ParseHttpResponse(bytes, more.empty());
    if (!answer.ok()) return absl::UnavailableError(common::MessageOf(answer.status()));
    if (answer->has_value()) return **answer;
  }
}

}  // namespace

absl::StatusOr<common::HttpResponse> CallHttp(const HttpCall& call, const std::atomic<bool>& stop) {
  const Patience patience(stop);
  ASSIGN_OR_RETURN(const UniqueFd socket_fd, Connect(call, patience));
  PlainChannel plain(socket_fd.get(), patience);
  TlsChannel encrypted(socket_fd.get(), patience);
  if (call.url.is_https) RETURN_IF_ERROR(encrypted.Begin(call.url.host));
  Channel& channel = call.url.is_https ? static_cast<Channel&>(encrypted) : plain;
  RETURN_IF_ERROR(channel.Write(HttpText(call)));
  if (call.answer_max > 0) return ReadAnswer(channel, call.answer_max);
  ASSIGN_OR_RETURN(const int status, ReadStatus(channel));
  return common::HttpResponse{.status = status, .body = ""};
}

}  // namespace muster::coordinator
