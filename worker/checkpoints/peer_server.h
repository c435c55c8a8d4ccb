// Sends an attempt's checkpoint files to the other nodes of the attempt, as they arrive here. Its thread, and one for
// each node that fetches from this one, end a while after the last file arrived.
//
// A request is the SHA-256 of a file, 64 hex digits. The answer is pieces of the file from its beginning on, each after
// its length (four bytes, the lowest first; at most kPieceBytesMax), until the whole file was sent. Length 0: nothing
// yet, wait. kGone: the file will not be had here, and the answer ends.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "common/files/files.h"
#include "worker/checkpoints/arriving_files.h"
#include "worker/rendezvous/port_holder.h"

namespace muster::worker {

class PeerLink;

class PeerServer {
 public:
  static constexpr size_t kNameBytes = 64;
  static constexpr uint32_t kPieceBytesMax = 256 << 10;
  static constexpr uint32_t kGone = UINT32_MAX;
  // So often a waiting node hears that its file is still on the way.
  static constexpr std::chrono::seconds kHeardEvery{5};
  // limit: checkpoints: without a byte of any file, a node tells those that wait for it to use the store
  static constexpr std::chrono::seconds kStuckFor{60};
  // limit: checkpoints: nodes of the attempt at once that a node sends files to; closed
  static constexpr size_t kLinksMax = 16;
  // limit: checkpoints: connections to such a node that have not shown the secret yet; closed
  static constexpr size_t kStrangersMax = 32;
  // limit: checkpoints: after its last file, and the last connection, a node serves the other nodes of its attempt for so long
  static constexpr std::chrono::minutes kServesFor{5};

  // Null: no port is free, or no randomness.
  static std::unique_ptr<PeerServer> Start(PortRange ports, std::shared_ptr<ArrivingFiles> files);
  ~PeerServer();

  uint16_t port() const { return port_; }
  const std::string& secret() const { return secret_; }
  // Nothing more will arrive: it ends some minutes later.
  void FetchEnded();
  // Everything of it ends soon.
  void Stop();
  // Its thread has ended, and it keeps no file open.
  bool IsOver() const { return is_over_; }

 private:
  struct Served {
    std::thread thread;
    std::atomic<bool> is_open = false;  // it has shown the secret
    std::atomic<bool> is_over = false;
  };
  PeerServer(HeldPort held, common::UniqueFd wakes, std::string secret,
             std::shared_ptr<ArrivingFiles> files);
  void Wake();
  void Run();
  // Until a node connects or a connection ends.
  void Wait(std::chrono::milliseconds at_most);
  void Accept();
  void Join(bool all);
  void Serve(Served& served, common::UniqueFd fd);
  absl::Status Send(PeerLink& link, const std::string& sha256, std::string* buffer);

  const uint16_t port_;
  const std::string secret_;
  const std::shared_ptr<ArrivingFiles> files_;
  common::UniqueFd listener_;
  common::UniqueFd wakes_;  // an eventfd: to stop, or a connection has ended
  std::atomic<bool> stops_ = false;
  std::atomic<bool> is_over_ = false;
  std::atomic<size_t> open_ = 0;  // of served_
  bool is_short_ = false;         // of descriptors
  std::list<Served> served_;      // its own thread's
  std::thread thread_;
};

}  // namespace muster::worker
