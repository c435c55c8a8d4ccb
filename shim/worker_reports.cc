// The packets for the worker. Part of Supervisor (supervisor.h). Each fact is sent when it happens, and a
// worker that connects later gets all of them again, so no packet needs an acknowledgement.
#include <unistd.h>

#include <algorithm>

#include "common/kernel/process.h"
#include "shim/supervisor.h"

namespace muster::shim {

using common::PacketKind;
using common::ShimPacket;

ShimPacket Supervisor::Packet(PacketKind kind, const Rank* rank) const {
  ShimPacket packet;
  packet.kind = kind;
  if (rank != nullptr) {
    packet.rank = rank->exit.rank;
    packet.pid = rank->exit.pid;
    packet.start_time = rank->start_time;
  }
  return packet;
}

void Supervisor::ReplayFacts() {
  if (connection_.fd() < 0) return;
  ShimPacket hello = Packet(PacketKind::kHello);
  common::ProcessStat self;
  common::ReadProcessStat(getpid(), &self);
  hello.pid = self.pid;
  hello.start_time = self.start_time;
  launch_.mark.copy(hello.text, sizeof hello.text - 1);
  connection_.Send(hello);
  for (Rank& rank : ranks_) {
    if (rank.started) TellStarted(rank);
    if (rank.exited) TellExited(rank);
    for (int i = 0; i < common::kStreams; ++i) {
      rank.told_closed[i] = false;
      if (rank.streams[i].closed()) TellClosed(rank, i);
    }
  }
  // A returning worker has to look into the spool in any case.
  grew_ = true;
  grew_told_ = false;
}

void Supervisor::TellStarted(const Rank& rank) {
  connection_.Send(Packet(PacketKind::kRankStarted, &rank));
}

void Supervisor::TellExited(const Rank& rank) {
  ShimPacket packet = Packet(PacketKind::kRankExited, &rank);
  packet.exit_code = rank.exit.exit_code;
  packet.signal = rank.exit.signal;
  packet.exec_errno = rank.exit.exec_errno;
  packet.exec_stage = static_cast<int32_t>(rank.exit.exec_stage);
  packet.flags = (rank.exit.out_of_memory ? common::kFlagOutOfMemory : 0u) |
                 (rank.exit.memory_limit ? common::kFlagMemoryLimit : 0u) |
                 (rank.exit.stopped ? common::kFlagStopped : 0u);
  packet.since_start_us = rank.exit.since_start_us;
  packet.wall_ms = rank.exit.wall_ms;
  connection_.Send(packet);
}

void Supervisor::TellClosed(Rank& rank, int stream) {
  if (rank.told_closed[stream]) return;
  rank.told_closed[stream] = true;
  ShimPacket packet = Packet(PacketKind::kStreamClosed, &rank);
  packet.stream = static_cast<uint32_t>(stream);
  packet.offset = rank.streams[stream].offset();
  packet.dropped = rank.streams[stream].dropped();
  connection_.Send(packet);
}

void Supervisor::TellGrew() {
  if (!grew_ || grew_told_ || connection_.fd() < 0) return;
  grew_ = false;
  grew_told_ = true;
  connection_.Send(Packet(PacketKind::kSpoolGrew));
}

}  // namespace muster::shim
