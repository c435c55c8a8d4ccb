// Nodes of an attempt that send each other the checkpoint's files: both ends, over loopback.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "worker/checkpoints/arriving_files.h"
#include "worker/checkpoints/peer_server.h"
#include "worker/checkpoints/peer_source.h"

namespace muster::worker {
namespace {

using std::chrono::milliseconds;

std::string BytesOf(size_t size, char salt) {
  std::string bytes(size, ' ');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 31 >> i % 13) + salt);
  return bytes;
}

common::UniqueFd MemoryFile(const std::string& bytes = "") {
  common::UniqueFd fd(memfd_create("file", MFD_CLOEXEC));
  EXPECT_TRUE(common::WriteAll(fd.get(), bytes).ok());
  return fd;
}

std::string ContentOf(int fd) {
  std::string bytes(static_cast<size_t>(lseek(fd, 0, SEEK_END)), ' ');
  EXPECT_EQ(pread(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  return bytes;
}

struct FreeTls {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

// Of a server with a certificate that it signed for itself.
std::unique_ptr<SSL_CTX, FreeTls> CertifiedContext() {
  const std::unique_ptr<EVP_PKEY, FreeTls> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, FreeTls> certificate(X509_new());
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3'600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  std::unique_ptr<SSL_CTX, FreeTls> context(SSL_CTX_new(TLS_server_method()));
  EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  return context;
}

class PeerFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(server_, nullptr); }
  v1::FilePeer Peer() const {
    v1::FilePeer peer;
    peer.set_address("127.0.0.1");
    peer.set_port(server_->port());
    peer.set_secret(server_->secret());
    return peer;
  }
  // A file that is on the serving node as a whole.
  Blob Whole(const std::string& bytes) {
    const Blob blob{common::Sha256Hex(bytes), bytes.size()};
    arriving_->Begin(blob.sha256, blob.size, MemoryFile(bytes).get());
    arriving_->Advance(blob.sha256, blob.size);
    return blob;
  }
  common::UniqueFd Connect() const {
    common::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(server_->port());
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  std::atomic<bool> stop_ = false;
  std::shared_ptr<ArrivingFiles> arriving_ = std::make_shared<ArrivingFiles>(100);
  std::unique_ptr<PeerServer> server_ = PeerServer::Start(PortRange{}, arriving_);
  common::UniqueFd target_ = MemoryFile();
  const std::function<void(uint64_t)> ignore_ = [](uint64_t) {};
};

TEST_F(PeerFilesTest, SendsAFileWhileItArrives) {
  const std::string bytes = BytesOf(3'000'077, 'a');
  const Blob blob{common::Sha256Hex(bytes), bytes.size()};
  const common::UniqueFd source = MemoryFile();
  PeerSource peer(Peer(), stop_);
  ASSERT_TRUE(peer.MayHave(blob));
  std::atomic<uint64_t> got = 0;
  // Each part of it arrives only when the one before has reached the other node.
  std::thread arrives([&] {
    arriving_->Begin(blob.sha256, blob.size, source.get());
    for (uint64_t at = 0; at < bytes.size();) {
      const uint64_t count = std::min<uint64_t>(900'000, bytes.size() - at);
      EXPECT_TRUE(common::WriteAll(source.get(), std::string_view(bytes).substr(at, count)).ok());
      at += count;
      arriving_->Advance(blob.sha256, at);
      while (got < at && !stop_) std::this_thread::yield();
    }
  });
  const absl::Status fetched =
      peer.Fetch(blob, target_.get(), [&got](uint64_t there) { got = there; });
  stop_ = !fetched.ok();
  arrives.join();
  ASSERT_TRUE(fetched.ok()) << fetched;
  EXPECT_EQ(ContentOf(target_.get()), bytes);
}

TEST_F(PeerFilesTest, SendsSeveralFilesOverOneConnection) {
  const std::string one = BytesOf(1 << 20, 'a'), other = BytesOf((1 << 20) + 1, 'b');
  PeerSource peer(Peer(), stop_);
  ASSERT_TRUE(peer.Fetch(Whole(one), target_.get(), ignore_).ok());
  const common::UniqueFd second = MemoryFile();
  ASSERT_TRUE(peer.Fetch(Whole(other), second.get(), ignore_).ok());
  EXPECT_EQ(ContentOf(target_.get()), one);
  EXPECT_EQ(ContentOf(second.get()), other);
}

TEST_F(PeerFilesTest, SaysThatAFileWillNotBeHadAndHasTheNextOne) {
  const std::string here = BytesOf(1 << 20, 'a');
  PeerSource peer(Peer(), stop_);
  const Blob there = Whole(here);
  const Blob cut{common::Sha256Hex("cut"), 2 << 20};
  arriving_->Begin(cut.sha256, cut.size, MemoryFile("cut").get());
  arriving_->Advance(cut.sha256, 3);
  arriving_->End();
  const Blob unknown{common::Sha256Hex("never heard of"), 2 << 20};
  EXPECT_TRUE(absl::IsNotFound(peer.Fetch(unknown, target_.get(), ignore_)));
  EXPECT_TRUE(absl::IsNotFound(peer.Fetch(cut, target_.get(), ignore_))) << "its fetch has ended";
  ASSERT_TRUE(peer.MayHave(there));
  const common::UniqueFd second = MemoryFile();
  ASSERT_TRUE(peer.Fetch(there, second.get(), ignore_).ok());
  EXPECT_EQ(ContentOf(second.get()), here);
}

TEST_F(PeerFilesTest, WhatItSendsIsNotBelieved) {
  const std::string bytes = BytesOf(1 << 20, 'a');
  const Blob blob{common::Sha256Hex(bytes), bytes.size()};
  std::string changed = bytes;
  changed[777] ^= 1;
  arriving_->Begin(blob.sha256, blob.size, MemoryFile(changed).get());
  arriving_->Advance(blob.sha256, blob.size);
  PeerSource peer(Peer(), stop_);
  EXPECT_TRUE(absl::IsDataLoss(peer.Fetch(blob, target_.get(), ignore_)));
  EXPECT_FALSE(peer.MayHave(blob)) << "it is not asked for more";
}

// What was sent of it may have been wrong.
TEST_F(PeerFilesTest, AFileThatIsBegunOnceMoreIsOverForThoseThatHaveSomeOfIt) {
  const std::string bytes = BytesOf(2 << 20, 'a');
  const Blob blob{common::Sha256Hex(bytes), bytes.size()};
  const common::UniqueFd source = MemoryFile(BytesOf(1 << 20, 'b'));
  ASSERT_TRUE(arriving_->Begin(blob.sha256, blob.size, source.get()));
  arriving_->Advance(blob.sha256, 1 << 20);
  PeerSource peer(Peer(), stop_);
  const absl::Status fetched = peer.Fetch(blob, target_.get(), [&](uint64_t there) {
    if (there != 1 << 20) return;
    arriving_->Restart(blob.sha256);
    EXPECT_EQ(pwrite(source.get(), bytes.data(), bytes.size(), 0), 2 << 20);
    arriving_->Advance(blob.sha256, blob.size);
  });
  EXPECT_TRUE(absl::IsNotFound(fetched)) << fetched;
  ASSERT_TRUE(peer.MayHave(blob)) << "this node is not to blame";
  const common::UniqueFd second = MemoryFile();
  ASSERT_TRUE(peer.Fetch(blob, second.get(), ignore_).ok());
  EXPECT_EQ(ContentOf(second.get()), bytes);
}

TEST_F(PeerFilesTest, ANodeThatIsGoneIsNotAskedAgain) {
  const Blob blob = Whole(BytesOf(1 << 20, 'a'));
  PeerSource peer(Peer(), stop_);
  server_ = nullptr;
  EXPECT_FALSE(peer.Fetch(blob, target_.get(), ignore_).ok());
  EXPECT_FALSE(peer.MayHave(blob));
}

TEST_F(PeerFilesTest, EndsInTheMiddleOfAFile) {
  const Blob blob{common::Sha256Hex("never whole"), 2 << 20};
  arriving_->Begin(blob.sha256, blob.size, MemoryFile(BytesOf(1 << 20, 'a')).get());
  arriving_->Advance(blob.sha256, 1 << 20);
  PeerSource peer(Peer(), stop_);
  const absl::Status fetched = peer.Fetch(blob, target_.get(), [&](uint64_t there) {
    if (there == 1 << 20) server_->Stop();
  });
  EXPECT_TRUE(absl::IsAborted(fetched)) << fetched;
}

TEST_F(PeerFilesTest, AStopEndsAWait) {
  const Blob blob{common::Sha256Hex("on its way"), 2 << 20};
  arriving_->Begin(blob.sha256, blob.size, MemoryFile(BytesOf(1 << 20, 'a')).get());
  arriving_->Advance(blob.sha256, 1 << 20);
  PeerSource peer(Peer(), stop_);
  const absl::Status fetched =
      peer.Fetch(blob, target_.get(), [&](uint64_t there) { stop_ = there == 1 << 20; });
  EXPECT_TRUE(absl::IsCancelled(fetched)) << fetched;
}

TEST_F(PeerFilesTest, StrangersGetNothingAndKeepNoNodeOut) {
  const std::string bytes = BytesOf(1 << 20, 'a');
  const Blob blob = Whole(bytes);
  v1::FilePeer guessed = Peer();
  guessed.set_secret(std::string(guessed.secret().size(), 'x'));
  PeerSource stranger(guessed, stop_);
  EXPECT_FALSE(stranger.Fetch(blob, target_.get(), ignore_).ok());
  EXPECT_EQ(ContentOf(target_.get()), "");
  std::vector<common::UniqueFd> others;
  for (size_t i = 0; i < PeerServer::kStrangersMax / 2; ++i) {
    others.push_back(Connect());  // some are silent
    if (i % 2 == 0) send(others.back().get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
  }
  PeerSource peer(Peer(), stop_);
  ASSERT_TRUE(peer.Fetch(blob, target_.get(), ignore_).ok());
  EXPECT_EQ(ContentOf(target_.get()), bytes);
}

// The port of a node that is gone may be another program's. It has a certificate, and no secret.
TEST_F(PeerFilesTest, AServerWithoutTheSecretIsNotAsked) {
  const auto context = CertifiedContext();
  const common::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  std::string heard;
  std::thread stranger([&] {
    while (true) {  // until the listener is shut down
      const common::UniqueFd peer(accept(listener.get(), nullptr, nullptr));
      if (!peer.valid()) return;
      SSL* const tls = SSL_new(context.get());
      SSL_set_fd(tls, peer.get());
      char byte = 0;
      if (SSL_accept(tls) == 1 && SSL_read(tls, &byte, 1) == 1) heard += byte;
      SSL_free(tls);
    }
  });
  v1::FilePeer peer = Peer();
  peer.set_port(ntohs(address.sin_port));
  PeerSource source(peer, stop_);
  EXPECT_FALSE(source.Fetch(Whole(BytesOf(1 << 20, 'a')), target_.get(), ignore_).ok());
  shutdown(listener.get(), SHUT_RDWR);
  stranger.join();
  EXPECT_EQ(heard, "") << "not even a file's name";
}

TEST_F(PeerFilesTest, AFullDiskIsNotThePeersFault) {
  const Blob blob = Whole(BytesOf(1 << 20, 'a'));
  PeerSource peer(Peer(), stop_);
  const common::UniqueFd full(open("/dev/full", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(peer.Fetch(blob, full.get(), ignore_).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(peer.written())) << peer.written();
  EXPECT_TRUE(peer.MayHave(blob));
}

TEST(ArrivingFiles, KeepsNoMoreFilesOpenThanItMay) {
  constexpr size_t kMax = 4;
  ArrivingFiles arriving(kMax);
  const common::UniqueFd file = MemoryFile(std::string(10, 'x'));
  char byte = 0;
  const auto begin = [&](const std::string& name, uint64_t size) {
    const bool is_served = arriving.Begin(name, size, file.get());
    arriving.Advance(name, 10);
    return is_served;
  };
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(begin("small " + std::to_string(i), 10));
  for (size_t i = 0; i < kMax; ++i) EXPECT_TRUE(begin(std::to_string(i), 1 << 20));
  EXPECT_FALSE(begin("0", 1 << 20)) << "the same bytes";
  EXPECT_FALSE(begin("more", 1 << 20));
  EXPECT_EQ(arriving.Read("0", 0, 0, &byte, 1, milliseconds(0)).bytes, 1u);
  EXPECT_TRUE(arriving.Read("more", 0, 0, &byte, 1, milliseconds(0)).is_over);
  arriving.Clear();
  EXPECT_TRUE(arriving.Read("0", 0, 0, &byte, 1, milliseconds(0)).is_over);
}

}  // namespace
}  // namespace muster::worker
