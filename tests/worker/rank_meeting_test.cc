// Ranks that have met, seen from outside in real sockets of real processes.
#include "worker/sampling/rank_meeting.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "common/files/files.h"

namespace muster::worker {
namespace {

// A TCP socket at a port of the kernel's choice.
common::UniqueFd Bound(bool v6, uint32_t* port) {
  common::UniqueFd fd(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* address = v6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
  socklen_t size = v6 ? sizeof six : sizeof four;
  EXPECT_EQ(bind(fd.get(), address, size), 0);
  EXPECT_EQ(getsockname(fd.get(), address, &size), 0);
  *port = ntohs(v6 ? six.sin6_port : four.sin_port);
  return fd;
}

common::UniqueFd Connected(uint32_t port) {
  common::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// A process that only lives, with the descriptors that its parent has now.
class Rank {
 public:
  Rank() : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
  ~Rank() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

bool HaveMet(uint32_t port, const RankMeeting::Processes& ranks) {
  RankMeeting meeting(port);
  meeting.Look(ranks);
  return meeting.IsSeen();
}

TEST(RankMeetingTest, AProcessThatListensOnThePortIsEnough) {
  const Rank zero, one;
  for (const bool v6 : {false, true}) {
    uint32_t port = 0;
    const common::UniqueFd socket = Bound(v6, &port);
    EXPECT_FALSE(HaveMet(port, {{0, zero.pid()}, {1, one.pid()}})) << "it is only held";
    ASSERT_EQ(listen(socket.get(), 1), 0);
    EXPECT_TRUE(HaveMet(port, {{0, zero.pid()}, {1, one.pid()}}));
    EXPECT_FALSE(HaveMet(port + 1, {{0, zero.pid()}, {1, one.pid()}}));
  }
}

TEST(RankMeetingTest, TwoEndsOfAConnectionInTwoRanksAreEnough) {
  uint32_t port = 0, held = 0;
  const common::UniqueFd unused = Bound(false, &held);
  common::UniqueFd server = Bound(false, &port);
  ASSERT_EQ(listen(server.get(), 1), 0);
  std::optional<Rank> zero, one;
  {
    const common::UniqueFd near = Connected(port);
    zero.emplace();
  }
  {
    const common::UniqueFd far(accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
    one.emplace();
  }
  server.Reset();
  EXPECT_TRUE(HaveMet(held, {{0, zero->pid()}, {1, one->pid()}}));
  EXPECT_FALSE(HaveMet(held, {{0, zero->pid()}, {0, one->pid()}})) << "two processes of one rank";
  EXPECT_FALSE(HaveMet(held, {{0, zero->pid()}})) << "the other end does not belong to a rank";
}

// As ranks of MPI do, or of a program with its own shared memory.
TEST(RankMeetingTest, MemoryThatTwoRanksWriteIntoIsEnough) {
  constexpr size_t kBytes = 4096;
  uint32_t held = 0;
  const common::UniqueFd unused = Bound(false, &held);
  const Rank alone;
  std::optional<Rank> zero, one, reader;
  {
    const common::UniqueFd file(memfd_create("segment", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
    void* written = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    zero.emplace();
    one.emplace();
    munmap(written, kBytes);
    void* read = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file.get(), 0);
    reader.emplace();
    munmap(read, kBytes);
  }
  EXPECT_TRUE(HaveMet(held, {{0, zero->pid()}, {1, one->pid()}}));
  EXPECT_FALSE(HaveMet(held, {{0, zero->pid()}, {0, one->pid()}})) << "two processes of one rank";
  EXPECT_FALSE(HaveMet(held, {{0, zero->pid()}, {1, reader->pid()}})) << "data that is only read";
  EXPECT_FALSE(HaveMet(held, {{0, zero->pid()}, {1, alone.pid()}}));
}

TEST(RankMeetingTest, DevicesAndPrivateMemoryAreNotShared) {
  const auto files = ParseSharedMemory(
      "7f01-7f02 rw-s 00000000 00:01 1041 /memfd:segment (deleted)\n"
      "7f02-7f03 rw-s 00000000 00:1a 7 /dev/shm/vader_segment.host.0\n"
      "7f03-7f04 rw-s 00000000 00:05 312 /dev/nvidia0\n"
      "7f04-7f05 rw-p 00000000 08:01 99 /usr/lib/libc.so.6\n"
      "7f05-7f06 rw-p 00000000 00:00 0\ngarbage\n");
  EXPECT_EQ(files, (std::vector<std::string>{"00:01 1041", "00:1a 7"}));
}

TEST(RankMeetingTest, WhatWasSeenOnceIsNotForgottenAndNothingIsSeenWithoutProcesses) {
  const Rank zero;
  uint32_t port = 0;
  common::UniqueFd socket = Bound(false, &port);
  ASSERT_EQ(listen(socket.get(), 1), 0);
  RankMeeting meeting(port);
  meeting.Look({});
  EXPECT_FALSE(meeting.IsSeen());
  meeting.Look({{0, zero.pid()}});
  EXPECT_TRUE(meeting.IsSeen());
  socket.Reset();
  meeting.Look({{0, zero.pid()}});
  EXPECT_TRUE(meeting.IsSeen());
}

TEST(RankMeetingTest, RowsThatAreNoneAreLeftOut) {
  const auto rows = ParseSockets(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode\n"
      "   0: 0100007F:1E61 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
      "4711 1 0000000000000000 100 0 0 10 0\n"
      "   1: 0100007F:1E61 0100007F:C000 06 00000000:00000000 00:00000000 00000000     0        0 "
      "0 "
      "3 0000000000000000\n"
      "garbage\n   2: 0100007F:1E61 0100007F:C001 01\n");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].LocalPort(), 7'777u);
  EXPECT_TRUE(rows[0].listens);
  EXPECT_EQ(rows[0].inode, 4'711u);
}

}  // namespace
}  // namespace muster::worker
