// The streams of commands in ranks: one that waits for orders while the worker is registered, and one
// for each order. Control loop's thread, except for the streams of sessions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "muster/v1/exec.pb.h"
#include "worker/base/mailbox.h"
#include "worker/exec/exec_session.h"
#include "worker/links/route.h"

namespace muster::worker {

class ExecLink {
 public:
  struct Callbacks {
    std::function<void(v1::ExecOrder)> order;
    std::function<void(const std::string& line)> note;  // for the log; a repeated reason only once
  };
  ExecLink(std::string node, std::function<Route()> route, Mailbox* loop, Callbacks callbacks,
           uint64_t jitter_seed);
  ~ExecLink();

  // Dials if it is due and the worker is registered; hangs up if it is not.
  void Follow(bool is_registered, int64_t now_ms);
  // Waits for orders on a new connection, because the route has changed. Sessions keep their
  // connections.
  void Renew();
  // When to call Follow, if the worker is registered.
  std::optional<int64_t> NextDialMs() const;
  // The stream of one session.
  std::shared_ptr<ExecStream> Serve(const std::string& session, ExecStream::Callbacks callbacks);
  // Blocks until the waiting stream is gone.
  void Shutdown();

 private:
  struct Parts;  // keeps gRPC out of this header

  void Dial();
  void OnDone(bool is_unknown, const std::string& reason);

  const std::string node_;
  const std::function<Route()> route_;
  Mailbox* const loop_;
  const Callbacks callbacks_;
  std::mt19937_64 jitter_;
  std::unique_ptr<Parts> parts_;
  int failures_ = 0;
  int64_t next_dial_ms_ = 0;
  bool is_registered_ = false;
  bool is_older_ = false;  // the coordinator, which knows no such calls
  bool is_closing_ = false;
  bool is_renewing_ = false;
  std::string last_note_;
};

}  // namespace muster::worker
