// The HTTP client against real servers on loopback, plain and in TLS: what it accepts, what it refuses,
// and that it never waits longer or reads more than it was told.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/files/files.h"
#include "common/http/client.h"
#include "common/http/transfers.h"
#include "common/kernel/pipe_signal.h"
#include "common/text/strings.h"
#include "identity/certificate.h"

namespace muster::common {
namespace {

using std::chrono::milliseconds;

int64_t NowMs() { return SystemClock().Read().wall_ms; }

// A server that takes one connection, and does with it what the test wants.
class OneServer {
 public:
  explicit OneServer(std::function<void(int)> serve)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, serve = std::move(serve)] {
      const PipeSignalHeld held;
      const UniqueFd taken(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (taken.valid()) serve(taken.get());
    });
  }
  ~OneServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  HttpCall Call(bool is_https = false) const {
    return {.url = {.is_https = is_https, .host = "127.0.0.1", .port = port_, .target = "/x?y"},
            .body = "",
            .answer_max = 1 << 20};
  }

 private:
  const UniqueFd listener_;
  uint16_t port_ = 0;
  std::thread thread_;
};

std::string ReadRequest(const std::function<int(char*, int)>& read) {
  std::string all;
  char buffer[4096];
  int count = 0;
  while (all.find("\r\n\r\n") == std::string::npos && (count = read(buffer, sizeof buffer)) > 0)
    all.append(buffer, static_cast<size_t>(count));
  return all;
}

std::string ReadPlain(int fd) {
  return ReadRequest([fd](char* buffer, int size) {
    return static_cast<int>(recv(fd, buffer, static_cast<size_t>(size), 0));
  });
}

void Say(int fd, std::string_view text) { send(fd, text.data(), text.size(), MSG_NOSIGNAL); }

TEST(HttpClientTest, AGetIsOneRequestAndItsChunkedAnswerIsRead) {
  std::string request;
  absl::StatusOr<HttpResponse> answer;
  {
    const OneServer server([&](int fd) {
      request = ReadPlain(fd);
      Say(fd, "HTTP/1.1 418 Tea\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    });
    HttpCall call = server.Call();
    call.headers = {{"X-Sent", "yes"}};
    answer = CallHttp(call);
  }
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 418);
  EXPECT_EQ(answer->body, "abc");
  EXPECT_TRUE(request.starts_with("GET /x?y HTTP/1.1\r\nHost: 127.0.0.1:")) << request;
  EXPECT_NE(request.find("\r\nX-Sent: yes\r\n"), std::string::npos);
  EXPECT_NE(request.find("\r\nConnection: close\r\n"), std::string::npos);
}

TEST(HttpClientTest, AServerThatStaysSilentIsGivenUp) {
  std::atomic<bool> is_done = false;
  const OneServer server([&](int) { is_done.wait(false); });
  HttpCall call = server.Call();
  call.within = milliseconds(50);
  EXPECT_EQ(CallHttp(call).status(), absl::AbortedError("no answer within 0.05 s"));
  is_done = true;
  is_done.notify_all();
}

TEST(HttpClientTest, AStopEndsACallThatWaits) {
  std::atomic<bool> stop = false;
  std::atomic<bool> is_done = false;
  const OneServer server([&](int fd) {
    ReadPlain(fd);
    stop = true;
    is_done.wait(false);
  });
  EXPECT_TRUE(absl::IsCancelled(CallHttp(server.Call(), &stop).status()));
  is_done = true;
  is_done.notify_all();
}

TEST(HttpClientTest, AnEndlessAnswerIsReadNoFurtherThanAllowed) {
  const OneServer server([](int fd) {
    ReadPlain(fd);
    Say(fd, "HTTP/1.1 200 OK\r\n\r\n");
    const std::string more(4096, 'x');
    while (send(fd, more.data(), more.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  EXPECT_EQ(CallHttp(server.Call()).status(),
            absl::AbortedError("the answer has more than 1048576 bytes"));
}

TEST(HttpClientTest, WhatCannotBeReachedIsToldFromWhatDoesNotAnswer) {
  HttpCall call{.url = {.host = "127.0.0.1", .port = 1, .target = "/"}, .body = ""};
  EXPECT_EQ(CallHttp(call).status(), absl::UnavailableError("Connection refused"));
  call.may_call = [](const sockaddr*) { return absl::PermissionDeniedError("not there"); };
  EXPECT_EQ(CallHttp(call).status(), absl::PermissionDeniedError("not there"));
  call.url.host = "no-such-host.invalid";
  EXPECT_TRUE(absl::IsNotFound(CallHttp(call).status()));
  const OneServer server([](int fd) { ReadPlain(fd); });
  EXPECT_TRUE(absl::IsAborted(CallHttp(server.Call()).status()));
}

// A TLS server with a certificate of `authority` for 127.0.0.1; `request` is what it was sent.
class TlsServer {
 public:
  TlsServer(const identity::Authority& authority, const std::string& address)
      : key_(identity::PrivateKey::Generate()) {
    pem_ = authority
               .Issue({.key = key_.handle(),
                       .subject = {identity::Kind::kCoordinator, "c"},
                       .now_ms = NowMs(),
                       .lives_ms = 3'600'000,
                       .dns_names = {address}})
               .pem;
    server_ = std::make_unique<OneServer>([this](int fd) { Serve(fd); });
  }
  HttpCall Call() const { return server_->Call(true); }
  std::string Request() {
    server_.reset();
    return request_;
  }

 private:
  void Serve(int fd) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    const auto certificate = identity::ReadCertificate(pem_);
    SSL_CTX_use_certificate(context.get(), certificate->get());
    SSL_CTX_use_PrivateKey(context.get(), key_.handle().get());
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
    SSL_set_fd(ssl.get(), fd);
    if (SSL_accept(ssl.get()) != 1) return;
    request_ =
        ReadRequest([&](char* buffer, int size) { return SSL_read(ssl.get(), buffer, size); });
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    if (!request_.empty()) SSL_write(ssl.get(), answer.data(), static_cast<int>(answer.size()));
    SSL_shutdown(ssl.get());
  }

  identity::PrivateKey key_;
  std::string pem_;
  std::string request_;
  std::unique_ptr<OneServer> server_;
};

class HttpsClientTest : public testing::Test {
 protected:
  ~HttpsClientTest() override { unsetenv("SSL_CERT_FILE"); }
  // As if the system knew this authority.
  void LetSystemTrust(const identity::Authority& authority) {
    const std::string path = testing::TempDir() + "http_test_" + std::to_string(getpid()) + ".pem";
    std::ofstream(path) << authority.certificate_pem();
    setenv("SSL_CERT_FILE", path.c_str(), 1);
  }
  const identity::Authority authority_ = identity::Authority::Create("lab", NowMs());
  const identity::Authority other_ = identity::Authority::Create("lab", NowMs());
};

TEST_F(HttpsClientTest, ACertificateOfTheSystemsAuthoritiesMustBeValidForTheHost) {
  LetSystemTrust(authority_);
  TlsServer right(authority_, "127.0.0.1");
  const auto answer = CallHttp(right.Call());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "ok");
  TlsServer of_another_host(authority_, "127.0.0.2");
  EXPECT_EQ(CallHttp(of_another_host.Call()).status(),
            absl::UnauthenticatedError("IP address mismatch"));
  EXPECT_EQ(of_another_host.Request(), "");
  TlsServer of_another_authority(other_, "127.0.0.1");
  EXPECT_TRUE(absl::IsUnauthenticated(CallHttp(of_another_authority.Call()).status()));
  EXPECT_EQ(of_another_authority.Request(), "");
}

TEST_F(HttpsClientTest, TransfersVerifyTheSameCertificates) {
  LetSystemTrust(authority_);
  const auto transfers = *Transfers::Open("");
  const auto run = [&transfers](const TlsServer& server) {
    return transfers->Run(
        {.url = StrCat("https://", server.Call().url.Authority(), "/secret?signature")});
  };
  TlsServer right(authority_, "127.0.0.1");
  const auto answer = run(right);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "ok");
  TlsServer of_another_host(authority_, "127.0.0.2");
  EXPECT_TRUE(absl::IsUnauthenticated(run(of_another_host).status()));
  EXPECT_EQ(of_another_host.Request(), "");
  TlsServer of_another_authority(other_, "127.0.0.1");
  const absl::Status refused = run(of_another_authority).status();
  EXPECT_TRUE(absl::IsUnauthenticated(refused)) << refused;
  EXPECT_EQ(refused.message().find("signature"), std::string::npos) << refused;
  EXPECT_EQ(of_another_authority.Request(), "");
  EXPECT_TRUE(
      (*Transfers::Open("/no/such/file"))->Run({.url = "https://127.0.0.1:1/"}).status().code() !=
      absl::StatusCode::kOk);
}

TEST(TransfersTest, BodiesOfFilesAndAnswersOfAnySizePassThrough) {
  std::string request;
  const std::string dir = testing::TempDir() + "transfers_" + std::to_string(getpid());
  ASSERT_TRUE(WriteFileAtomically(dir, "0123456789").ok());
  const auto file = OpenRegular(dir, O_RDONLY);
  const OneServer server([&](int fd) {
    request = ReadPlain(fd);
    Say(fd, "HTTP/1.1 200 OK\r\nX-Tag: t\r\nContent-Length: 6\r\n\r\nabcdef");
    char rest[64];
    while (recv(fd, rest, sizeof rest, 0) > 0) {
    }
  });
  const auto transfers = *Transfers::Open("");
  std::string sunk;
  const auto answer =
      transfers->Run({.method = "PUT",
                      .url = StrCat("http://", server.Call().url.Authority(), "/x"),
                      .body = FileRange{.fd = file->get(), .offset = 2, .size = 5},
                      .sink =
                          [&sunk](std::string_view piece) {
                            sunk += piece;
                            return absl::OkStatus();
                          },
                      .is_sunk = [](const TransferAnswer& head) { return head.status == 200; }});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->Header("x-tag"), "t");
  EXPECT_EQ(sunk, "abcdef");
  EXPECT_EQ(answer->sunk, 6u);
  EXPECT_NE(request.find("Content-Length: 5\r\n"), std::string::npos) << request;
  EXPECT_EQ(request.find("Expect"), std::string::npos) << request;
}

TEST(TransfersTest, AnEndlessAnswerIsReadNoFurtherThanAllowed) {
  const OneServer server([](int fd) {
    ReadPlain(fd);
    Say(fd, "HTTP/1.1 200 OK\r\n\r\n");
    const std::string more(4096, 'x');
    while (send(fd, more.data(), more.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  const auto transfers = *Transfers::Open("");
  const std::string url = StrCat("http://", server.Call().url.Authority(), "/x");
  EXPECT_TRUE(absl::IsAborted(transfers->Run({.url = url}).status()));
}

TEST(TransfersTest, WhatIsNotARequestIsNotSent) {
  const auto transfers = *Transfers::Open("");
  EXPECT_TRUE(absl::IsInvalidArgument(transfers->Run({.url = "file:///etc/passwd"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      transfers->Run({.url = "http://127.0.0.1:1/", .headers = {{"A", "b\r\nC: d"}}}).status()));
  std::atomic<bool> stop = true;
  EXPECT_FALSE(transfers->Run({.url = "http://127.0.0.1:1/"}, &stop).ok());
}

TEST_F(HttpsClientTest, APinnedServerIsKnownByItsAuthorityAndNotByItsHost) {
  PinnedServer pinned{.name = "of-a-cluster", .authority_pem = authority_.certificate_pem()};
  TlsServer right(authority_, "elsewhere");
  HttpCall call = right.Call();
  call.pinned = pinned;
  EXPECT_TRUE(CallHttp(call).ok());
  EXPECT_NE(right.Request().find("\r\nHost: of-a-cluster\r\n"), std::string::npos);
  TlsServer wrong(other_, "127.0.0.1");
  call = wrong.Call();
  call.pinned = pinned;
  EXPECT_TRUE(absl::IsUnauthenticated(CallHttp(call).status()));
  EXPECT_EQ(wrong.Request(), "");
}

TEST_F(HttpsClientTest, WhatThePinsCheckRefusesIsSentNothing) {
  TlsServer server(authority_, "127.0.0.1");
  HttpCall call = server.Call();
  call.pinned = {.name = "c", .authority_pem = authority_.certificate_pem(), .check = [](x509_st*) {
                   return absl::PermissionDeniedError("not that one");
                 }};
  EXPECT_EQ(CallHttp(call).status(), absl::PermissionDeniedError("not that one"));
  EXPECT_EQ(server.Request(), "");
}

TEST_F(HttpsClientTest, AServerWithoutTlsIsNamed) {
  const OneServer server([](int fd) {
    char buffer[1024];
    recv(fd, buffer, sizeof buffer, 0);
    Say(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  EXPECT_EQ(CallHttp(server.Call(true)).status(), absl::AbortedError("it does not speak TLS"));
}

}  // namespace
}  // namespace muster::common
