#include "identity/https_client.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "common/clock.h"
#include "common/files.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/version.h"
#include "identity/certificate.h"

namespace muster::identity {
namespace {

using common::StrCat;
using std::chrono::milliseconds;

constexpr size_t kHeadMax = 16 * 1024;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

absl::Status Unreachable(const std::string& address, std::string why) {
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1301",
       .what = StrCat("the coordinator at ", address, " does not answer"),
       .why = std::move(why),
       .fix = "check the address (HTTPS listens on another port than gRPC) and that "
              "muster-coordinator runs there"});
}

absl::Status NotThatCluster(const std::string& address, std::string why) {
  return common::MakeProblem(
      absl::StatusCode::kUnauthenticated,
      {.code = "JC1354",
       .what = StrCat(address, " is not a coordinator of this cluster; nothing was sent to it"),
       .why = std::move(why)});
}

// While it lives, writing to a connection that the other side has closed is an error and not the end
// of the process. For this thread alone: what the program does with the signal is its own.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalHeld() {
    const timespec none{};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&pipe_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

// A connection with a deadline for all that is done on it.
class Dialed {
 public:
  Dialed(std::string address, milliseconds within)
      : address_(std::move(address)), deadline_ms_(common::MonotonicMs() + within.count()) {}

  absl::Status Connect() {
    const size_t colon = address_.rfind(':');
    std::string host = address_.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const std::string port = colon == std::string::npos ? "" : address_.substr(colon + 1);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
      return Unreachable(address_, gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
    absl::Status last = Unreachable(address_, "it has no address");
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
      last = ConnectTo(*each);
      if (last.ok()) return last;
    }
    return last;
  }

  // Without an authority any certificate will do.
  absl::Status Secure(const std::string& authority_pem) {
    ERR_clear_error();
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (context_ == nullptr || SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION) != 1) {
      return Unreachable(address_, TlsError());
    }
    if (!authority_pem.empty()) {
      ASSIGN_OR_RETURN(const CertificateHandle authority, ReadCertificate(authority_pem));
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority.get());
      SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    }
    ssl_.reset(SSL_new(context_.get()));
    if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), socket_.get()) != 1 ||
        SSL_set_tlsext_host_name(ssl_.get(), std::string(kCoordinatorDnsName).c_str()) != 1) {
      return Unreachable(address_, TlsError());
    }
    const absl::Status shaken = Repeat([this] { return SSL_connect(ssl_.get()); });
    const long verified = SSL_get_verify_result(ssl_.get());
    if (!authority_pem.empty() && verified != X509_V_OK) {
      return NotThatCluster(address_, StrCat("its certificate is refused: ",
                                             X509_verify_cert_error_string(verified)));
    }
    RETURN_IF_ERROR(shaken);
    return authority_pem.empty() ? absl::OkStatus() : CheckIsCoordinator();
  }

  absl::Status Write(std::string_view bytes) {
    return Repeat(
        [&] { return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())); });
  }
  // At least one byte, appended to `all`.
  absl::Status ReadMore(std::string& all) {
    char buffer[16 * 1024];
    int count = 0;
    RETURN_IF_ERROR(Repeat([&] { return count = SSL_read(ssl_.get(), buffer, sizeof buffer); }));
    all.append(buffer, static_cast<size_t>(count));
    return absl::OkStatus();
  }

 private:
  absl::Status ConnectTo(const addrinfo& address) {
    socket_ =
        common::UniqueFd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_.valid()) return Unreachable(address_, strerror(errno));
    if (connect(socket_.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
      return Unreachable(address_, strerror(errno));
    }
    RETURN_IF_ERROR(Await(POLLOUT));
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0 ? absl::OkStatus() : Unreachable(address_, strerror(error));
  }

  // A worker's certificate is of the same authority.
  absl::Status CheckIsCoordinator() const {
    const CertificateHandle shown(SSL_get1_peer_certificate(ssl_.get()), X509_free);
    const absl::StatusOr<CertificateFacts> facts = FactsOf(shown);
    if (facts.ok() && facts->subject.kind == Kind::kCoordinator) return absl::OkStatus();
    return NotThatCluster(address_,
                          facts.ok() ? StrCat("its certificate is that of ", PathOf(facts->subject))
                                     : "its certificate names no coordinator");
  }

  absl::Status Await(short events) {
    while (true) {
      const int64_t left = deadline_ms_ - common::MonotonicMs();
      if (left <= 0) return Unreachable(address_, "no answer in time");
      pollfd waited{socket_.get(), events, 0};
      const int ready = poll(&waited, 1, static_cast<int>(std::min<int64_t>(left, INT32_MAX)));
      if (ready > 0) return absl::OkStatus();
      if (ready < 0 && errno != EINTR) return Unreachable(address_, strerror(errno));
    }
  }

  template <typename Call>
  absl::Status Repeat(Call call) {
    while (true) {
      ERR_clear_error();
      const int result = call();
      if (result > 0) return absl::OkStatus();
      const int why = SSL_get_error(ssl_.get(), result);
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
        return Unreachable(address_, TlsError());
      }
      RETURN_IF_ERROR(Await(why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT));
    }
  }

  static std::string TlsError() {
    const unsigned long error = ERR_peek_error();
    ERR_clear_error();
    const char* why = error == 0 ? nullptr : ERR_reason_error_string(error);
    if (why == nullptr) return "the connection broke";
    const std::string text(why);
    // What OpenSSL calls the first bytes of another protocol.
    return text == "wrong version number" ? "it does not speak TLS" : text;
  }

  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  const std::string address_;
  const int64_t deadline_ms_;
  common::UniqueFd socket_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> ssl_;
};

std::string TextOfRequest(const HttpsRequest& request) {
  std::string text = StrCat(request.body.empty() ? "GET " : "POST ", request.target,
                            " HTTP/1.1\r\nHost: ", kCoordinatorDnsName, "\r\nUser-Agent: Muster/",
                            common::kVersion, "\r\nConnection: close\r\n");
  if (!request.body.empty()) {
    common::StrAppend(
        &text, "Content-Type: application/json\r\nContent-Length: ", request.body.size(), "\r\n");
  }
  common::StrAppend(&text, "\r\n", request.body);
  return text;
}

struct Head {
  int status = 0;
  size_t body_bytes = 0;
};

// Of a head without its empty line. Our coordinators give every answer a Content-Length.
std::optional<Head> ParseHead(std::string_view text) {
  Head head;
  const std::string line(text.substr(0, text.find("\r\n")));
  if (sscanf(line.c_str(), "HTTP/1.%*1[01] %3d", &head.status) != 1 || head.status < 100) {
    return std::nullopt;
  }
  const std::string lower = absl::AsciiStrToLower(common::ToAbsl(text));
  constexpr std::string_view kName = "\r\ncontent-length:";
  const size_t at = lower.find(kName);
  if (at == std::string::npos) return std::nullopt;
  const size_t from = at + kName.size();
  const std::string value = lower.substr(from, lower.find("\r\n", from) - from);
  if (!absl::SimpleAtoi(value, &head.body_bytes) || head.body_bytes > kHttpsAnswerMax) {
    return std::nullopt;
  }
  return head;
}

absl::StatusOr<HttpsAnswer> ReadAnswer(Dialed& server, const std::string& address) {
  std::string all;
  size_t end = std::string::npos;
  while ((end = all.find(kHeadEnd)) == std::string::npos) {
    if (all.size() > kHeadMax) return Unreachable(address, "its answer is not HTTP");
    RETURN_IF_ERROR(server.ReadMore(all));
  }
  const std::optional<Head> head = ParseHead(std::string_view(all).substr(0, end));
  if (!head.has_value()) return Unreachable(address, "its answer is not that of a coordinator");
  const size_t begin = end + kHeadEnd.size();
  while (all.size() < begin + head->body_bytes) RETURN_IF_ERROR(server.ReadMore(all));
  return HttpsAnswer{.status = head->status, .body = all.substr(begin, head->body_bytes)};
}

absl::StatusOr<HttpsAnswer> Exchange(const HttpsRequest& request) {
  const PipeSignalHeld held;
  Dialed server(request.address, request.within);
  RETURN_IF_ERROR(server.Connect());
  RETURN_IF_ERROR(server.Secure(request.authority_pem));
  RETURN_IF_ERROR(server.Write(TextOfRequest(request)));
  return ReadAnswer(server, request.address);
}

}  // namespace

absl::StatusOr<HttpsAnswer> AskHttps(const HttpsRequest& request) {
  if (request.authority_pem.empty()) {
    return absl::InvalidArgumentError("a request without an authority proves nothing");
  }
  return Exchange(request);
}

absl::StatusOr<ShownAuthority> AskForAuthority(const std::string& address, milliseconds within) {
  ASSIGN_OR_RETURN(HttpsAnswer answer, Exchange({.address = address,
                                                 .target = "/enroll/ca",
                                                 .body = "",
                                                 .authority_pem = "",
                                                 .within = within}));
  if (answer.status != 200) {
    return Unreachable(address,
                       StrCat("it has no cluster to join (HTTP status ", answer.status, ")"));
  }
  const absl::StatusOr<CertificateHandle> shown = ReadCertificate(answer.body);
  if (!shown.ok())
    return NotThatCluster(address, "what it shows as its authority is not a certificate");
  // Exactly what the fingerprint is of: the answer may hold more, which nothing vouches for.
  std::string pem = PemOf(*shown);
  ASSIGN_OR_RETURN(std::string fingerprint, Fingerprint(pem));
  return ShownAuthority{.pem = std::move(pem), .fingerprint = std::move(fingerprint)};
}

absl::StatusOr<std::string> FetchAuthority(const AuthorityQuestion& question) {
  ASSIGN_OR_RETURN(ShownAuthority shown, AskForAuthority(question.address, question.within));
  if (shown.fingerprint == question.fingerprint) return std::move(shown.pem);
  return NotThatCluster(question.address,
                        StrCat("the fingerprint of its authority is ", shown.fingerprint, ", not ",
                               question.fingerprint));
}

}  // namespace muster::identity
