// TLS in the HTTP server, over a real socket: what is refused, what is bounded, how certificates
// change.
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/text/strings.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/http/server/server.h"
#include "coordinator/net/listener.h"
#include "identity/certificate.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;
using std::chrono::milliseconds;

constexpr milliseconds kShort{60};
constexpr milliseconds kLong{60'000};
constexpr int64_t kNowMs = 1'790'000'000'000;
constexpr int64_t kLivesMs = int64_t{20} * 365 * 24 * 3'600'000;

const std::string kClose = "Host: localhost\r\nConnection: close\r\n\r\n";

// A client whose calls block.
class TlsClient {
 public:
  struct Wishes {
    int newest = TLS1_3_VERSION;
    std::string protocols;  // ALPN's list
  };
  TlsClient(int fd, const std::string& authority_pem, const Wishes& wishes)
      : fd_(fd), context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
    SSL_CTX_set_max_proto_version(context_.get(), wishes.newest);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()),
                        identity::ReadCertificate(authority_pem)->get());
    ssl_.reset(SSL_new(context_.get()), SSL_free);
    SSL_set_fd(ssl_.get(), fd_);
    if (!wishes.protocols.empty()) {
      SSL_set_alpn_protos(ssl_.get(),
                          reinterpret_cast<const unsigned char*>(wishes.protocols.data()),
                          static_cast<unsigned>(wishes.protocols.size()));
    }
  }
  ~TlsClient() { close(fd_); }

  // Empty: done. TLS 1.3's client is done before the server judges it.
  std::string Shake() {
    ERR_clear_error();
    if (SSL_connect(ssl_.get()) == 1) return "";
    const char* why = ERR_reason_error_string(ERR_peek_error());
    return why == nullptr ? "closed" : why;
  }
  bool Send(const std::string& text) {
    return SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())) ==
           static_cast<int>(text.size());
  }
  // Until the server closes, or `text` has come.
  std::string Read(const std::string& until = "") {
    std::string all;
    char bytes[16'384];
    int got = 0;
    while ((until.empty() || all.find(until) == std::string::npos) &&
           (got = SSL_read(ssl_.get(), bytes, sizeof bytes)) > 0)
      all.append(bytes, static_cast<size_t>(got));
    return all;
  }
  bool WasToldTheEnd() const { return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }
  std::string Serial() const {
    const identity::CertificateHandle shown(SSL_get1_peer_certificate(ssl_.get()), X509_free);
    return identity::FactsOf(shown)->serial;
  }
  std::string Protocol() const {
    const unsigned char* chosen = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_.get(), &chosen, &size);
    return {reinterpret_cast<const char*>(chosen), size};
  }

 private:
  const int fd_;
  std::shared_ptr<SSL_CTX> context_;
  std::shared_ptr<SSL> ssl_;
};

class HttpTlsTest : public ::testing::Test {
 protected:
  // OpenSSL's client answers a connection that is cut with an alert.
  static void SetUpTestSuite() { signal(SIGPIPE, SIG_IGN); }

  struct Pair {
    std::string certificate, key;
  };
  Pair NewPair() {
    const identity::PrivateKey key = identity::PrivateKey::Generate();
    return {authority_
                .Issue({.key = key.handle(),
                        .subject = {.kind = identity::Kind::kCoordinator, .name = "head"},
                        .now_ms = kNowMs,
                        .lives_ms = kLivesMs,
                        .dns_names = {"muster-coordinator", "10.0.0.1", "::1"}})
                .pem,
            key.ToPem()};
  }

  void Start(TimeLimits limits, size_t connections = 64) {
    const Pair pair = NewPair();
    auto tls = ServerTls::Make(pair.certificate, pair.key);
    ASSERT_TRUE(tls.ok()) << tls.status();
    tls_ = *std::move(tls);
    auto fd = ListenOnSocket(path_);
    ASSERT_TRUE(fd.ok()) << fd.status();
    std::vector<Listener> listeners;
    listeners.push_back({.fd = *std::move(fd), .is_unix = true, .own_uid_only = true, .tls = tls_});
    server_ = std::make_unique<Server>(
        Server::Options{
            .listeners = std::move(listeners), .connections = connections, .limits = limits},
        Handlers{.check = [](const RequestHead& head) -> std::optional<Response> {
                   if (head.target == "/refused") return Refusal(403, "no", "do not");
                   return std::nullopt;
                 },
                 .handle = [](Request request,
                              Respond respond) { Handle(request, std::move(respond)); }});
    server_->Begin();
  }

  class Once : public TextSource {
   public:
    std::string Take() override { return std::exchange(news_, ""); }

   private:
    std::string news_ = "data: one\n\n";
  };
  static void Handle(const Request& request, Respond respond) {
    if (request.head.target == "/stream") {
      return respond({.content_type = "text/event-stream",
                      .body = "",
                      .fields = {},
                      .stream = std::make_shared<Once>()});
    }
    const size_t size = request.head.target == "/large" ? 8 << 20 : 0;
    respond(JsonResponse(StrCat(request.head.peer.is_encrypted ? "encrypted " : "plain ",
                                request.head.target, " ", request.body.size(),
                                std::string(size, 'x'))));
  }

  int Connect() {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  TlsClient Client(const TlsClient::Wishes& wishes = {}) {
    return {Connect(), authority_.certificate_pem(), wishes};
  }
  // Of a whole exchange on a connection that the client does not keep.
  std::string Ask(const std::string& line) {
    TlsClient client = Client();
    EXPECT_EQ(client.Shake(), "");
    client.Send(line + "\r\n" + kClose);
    return client.Read();
  }
  static std::string ReadAll(int fd) {
    std::string all;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) all.append(bytes, static_cast<size_t>(got));
    close(fd);
    return all;
  }
  static bool SendRaw(int fd, const std::string& text) {
    return send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  static bool IsClosedWithin(int fd, int ms) {
    pollfd source = {.fd = fd, .events = POLLRDHUP, .revents = 0};
    return poll(&source, 1, ms) > 0;
  }

  const TempDir dir_;
  const std::string path_ = dir_.path() + "/h.sock";
  const identity::Authority authority_ = identity::Authority::Create("lab", kNowMs);
  std::shared_ptr<ServerTls> tls_;
  std::unique_ptr<Server> server_;
};

TEST_F(HttpTlsTest, RequestsAreAnsweredOneAfterAnotherAndTheEndIsTold) {
  Start({});
  TlsClient client = Client();
  ASSERT_EQ(client.Shake(), "");
  client.Send(
      "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "POST /b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
  client.Send("GET /c HTTP/1.1\r\n" + kClose);
  const std::string all = client.Read();
  EXPECT_LT(all.find("encrypted /a 0"), all.find("encrypted /b 3"));
  EXPECT_NE(all.find("encrypted /c 0"), std::string::npos);
  EXPECT_TRUE(client.WasToldTheEnd())
      << "an attacker who cuts the connection must not fake its end";
  EXPECT_GT(Ask("GET /large HTTP/1.1").size(), size_t{8 << 20});
}

TEST_F(HttpTlsTest, OnlyTls13IsSpoken) {
  Start({});
  EXPECT_EQ(Client({.newest = TLS1_2_VERSION}).Shake(), "tlsv1 alert protocol version");
}

TEST_F(HttpTlsTest, AClientThatWantsAnotherProtocolIsRefused) {
  Start({});
  TlsClient both = Client({.protocols = "\x02h2\x08http/1.1"});
  ASSERT_EQ(both.Shake(), "");
  EXPECT_EQ(both.Protocol(), "http/1.1");
  EXPECT_NE(Client({.protocols = "\x02h2"}).Shake(), "");
}

TEST_F(HttpTlsTest, ARequestThatIsNotEncryptedIsToldWhy) {
  Start({});
  const int fd = Connect();
  ASSERT_TRUE(SendRaw(fd, "GET / HTTP/1.1\r\n" + kClose));
  const std::string answer = ReadAll(fd);
  EXPECT_EQ(answer.substr(9, 3), "400");
  EXPECT_NE(answer.find("https://"), std::string::npos);
  EXPECT_EQ(answer.find("plain /"), std::string::npos) << "it was not answered";
}

TEST_F(HttpTlsTest, AHandshakeThatTricklesIsClosedAsIfNothingWasSent) {
  Start({.first_head = kShort});
  const int silent = Connect();
  const int slow = Connect();
  // A greeting of 512 bytes that comes one byte at a time.
  SendRaw(slow, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9));
  while (!IsClosedWithin(slow, 5)) SendRaw(slow, std::string(1, '\0'));
  EXPECT_EQ(ReadAll(slow), "");
  EXPECT_EQ(ReadAll(silent), "");
  Ask("GET / HTTP/1.1");
  EXPECT_EQ(server_->Read().timed_out, 2u);
}

TEST_F(HttpTlsTest, AHandshakeThatWasQuickDoesNotLengthenTheTimeForTheHead) {
  Start({.first_head = milliseconds(300)});
  TlsClient client = Client();
  ASSERT_EQ(client.Shake(), "");
  client.Send("GET / HTT");
  EXPECT_EQ(client.Read(), "");
}

TEST_F(HttpTlsTest, HalfOpenHandshakesMakeRoomForNewClients) {
  Start({.first_head = kLong}, 8);
  std::vector<int> half;
  for (int i = 0; i < 200; ++i) {
    half.push_back(Connect());
    SendRaw(half.back(), std::string("\x16\x03\x01\x02\x00\x01", 6));
  }
  EXPECT_NE(Ask("GET /a HTTP/1.1").find("encrypted /a"), std::string::npos);
  const Server::Counts counts = server_->Read();
  EXPECT_LE(counts.connections, 8u);
  EXPECT_GE(counts.turned_away, 190u);
  for (const int fd : half) close(fd);
}

TEST_F(HttpTlsTest, SoManyHandshakesGoOnAtOnceAndThoseThatStallMakeRoom) {
  Start({.first_head = kLong}, 64);
  std::vector<int> half;
  for (int i = 0; i < 20; ++i) {
    half.push_back(Connect());
    SendRaw(half.back(), std::string("\x16\x03\x01\x02\x00\x01", 6));
  }
  const auto began = std::chrono::steady_clock::now();
  EXPECT_NE(Ask("GET /a HTTP/1.1").find("encrypted /a"), std::string::npos);
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(500)) << "it had to wait";
  const Server::Counts counts = server_->Read();
  EXPECT_GE(counts.turned_away, 1u);
  EXPECT_LE(counts.turned_away, 20u);
  for (const int fd : half) close(fd);
}

TEST_F(HttpTlsTest, ARefusalIsReadByAClientThatIsStillSending) {
  Start({});
  TlsClient client = Client();
  ASSERT_EQ(client.Shake(), "");
  client.Send(
      StrCat("POST /refused HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", 1 << 20, "\r\n\r\n"));
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(client.Send(std::string(1 << 16, 'x'))) << i;
  EXPECT_EQ(client.Read().substr(9, 3), "403");
}

TEST_F(HttpTlsTest, AStreamIsSentAndItsEndIsNoticed) {
  Start({.first_head = kLong, .heartbeat = kShort}, 8);
  {
    TlsClient client = Client();
    ASSERT_EQ(client.Shake(), "");
    client.Send("GET /stream HTTP/1.1\r\n" + kClose);
    EXPECT_NE(client.Read("data: one\n\n").find("text/event-stream"), std::string::npos);
    client.Send("what a client of a stream sends is passed over");
    EXPECT_NE(client.Read(": alive\n\n"), "");
  }
  while (server_->Read().connections > 1) Ask("GET / HTTP/1.1");
}

TEST_F(HttpTlsTest, ANewCertificateIsShownToNewConnectionsAlone) {
  Start({});
  EXPECT_EQ(tls_->Names(), (std::vector<std::string>{"muster-coordinator", "10.0.0.1", "::1"}));
  TlsClient before = Client();
  ASSERT_EQ(before.Shake(), "");
  const Pair pair = NewPair();
  EXPECT_FALSE(tls_->Replace(pair.certificate, NewPair().key).ok()) << "not the certificate's key";
  ASSERT_TRUE(tls_->Replace(pair.certificate, pair.key).ok());
  TlsClient after = Client();
  ASSERT_EQ(after.Shake(), "");
  EXPECT_EQ(after.Serial(), identity::FactsOfPem(pair.certificate)->serial);
  EXPECT_NE(before.Serial(), after.Serial());
  before.Send("GET /a HTTP/1.1\r\n" + kClose);
  EXPECT_NE(before.Read().find("encrypted /a"), std::string::npos);
}

}  // namespace
}  // namespace muster::coordinator::http
