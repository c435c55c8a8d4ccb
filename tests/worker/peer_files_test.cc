// Nodes of an attempt that send each other the checkpoint's files: both ends, over loopback.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

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
  std::shared_ptr<ArrivingFiles> arriving_ = std::make_shared<ArrivingFiles>();
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

// As after a fetch that failed halfway and began once more: what was sent of it so far was right.
TEST_F(PeerFilesTest, AFileThatIsFetchedOnceMoreGoesOnWhereItWas) {
  const std::string bytes = BytesOf(2 << 20, 'a');
  const Blob blob{common::Sha256Hex(bytes), bytes.size()};
  const common::UniqueFd source = MemoryFile(bytes.substr(0, 1 << 20));
  arriving_->Begin(blob.sha256, blob.size, source.get());
  arriving_->Advance(blob.sha256, 1 << 20);
  PeerSource peer(Peer(), stop_);
  const absl::Status fetched = peer.Fetch(blob, target_.get(), [&](uint64_t there) {
    if (there != 1 << 20) return;
    arriving_->Restart(blob.sha256);
    EXPECT_EQ(ftruncate(source.get(), 0), 0);
    lseek(source.get(), 0, SEEK_SET);
    EXPECT_TRUE(common::WriteAll(source.get(), bytes).ok());
    arriving_->Advance(blob.sha256, blob.size);
  });
  ASSERT_TRUE(fetched.ok()) << fetched;
  EXPECT_EQ(ContentOf(target_.get()), bytes);
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

TEST_F(PeerFilesTest, StrangersGetNothingAndKeepNobodyOut) {
  const std::string bytes = BytesOf(1 << 20, 'a');
  const Blob blob = Whole(bytes);
  v1::FilePeer guessed = Peer();
  guessed.set_secret(std::string(guessed.secret().size(), 'x'));
  PeerSource stranger(guessed, stop_);
  EXPECT_FALSE(stranger.Fetch(blob, target_.get(), ignore_).ok());
  EXPECT_EQ(ContentOf(target_.get()), "");
  std::vector<common::UniqueFd> others;
  for (size_t i = 0; i < PeerServer::kLinksMax / 2; ++i) {
    others.push_back(Connect());  // some are silent
    if (i % 2 == 0) send(others.back().get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
  }
  PeerSource peer(Peer(), stop_);
  ASSERT_TRUE(peer.Fetch(blob, target_.get(), ignore_).ok());
  EXPECT_EQ(ContentOf(target_.get()), bytes);
}

TEST(ArrivingFiles, KeepsNoMoreFilesOpenThanItMay) {
  ArrivingFiles arriving;
  const common::UniqueFd file = MemoryFile(std::string(10, 'x'));
  char byte = 0;
  for (size_t i = 0; i <= ArrivingFiles::kFilesMax; ++i) {
    arriving.Begin(std::to_string(i), 10, file.get());
    arriving.Advance(std::to_string(i), 10);
  }
  EXPECT_EQ(arriving.Read("0", 0, &byte, 1, milliseconds(0)).bytes, 1u);
  EXPECT_TRUE(arriving.Read(std::to_string(ArrivingFiles::kFilesMax), 0, &byte, 1, milliseconds(0))
                  .is_over);
}

}  // namespace
}  // namespace muster::worker
