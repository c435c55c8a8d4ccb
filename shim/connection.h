// The shim's socket: a listener for restarted workers, and the one active connection. The newest
// worker wins. The shim's only thread; never blocks. What cannot be sent at once is queued; the
// number of packets is bounded by the ranks.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "common/kernel/shim_protocol.h"

namespace muster::shim {

class Connection {
 public:
  // `inherited`: the worker's end of the first connection, -1 for none.
  explicit Connection(int inherited) : fd_(inherited) {}
  ~Connection();
  Connection(const Connection&) = delete;

  // 0 or an errno. Only this user may connect.
  int Listen(const std::string& path);
  // True if a worker of the same user connected; nothing has been sent to it yet.
  bool Accept();
  void Send(const common::ShimPacket& packet);
  void Flush();
  // Packets that arrived. Closes the connection if the worker is gone.
  std::vector<common::ShimPacket> Receive();
  // Removes the socket's name.
  void Unlink();

  int fd() const { return fd_; }
  int listener() const { return listener_; }
  bool wants_to_write() const { return !unsent_.empty(); }

 private:
  void Close();

  int fd_;
  int listener_ = -1;
  std::string path_;
  std::deque<common::ShimPacket> unsent_;
};

}  // namespace muster::shim
