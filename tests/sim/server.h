// What workers and clients talk to: a coordinator that is alone, or one of several.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "coordinator/core/state/input.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/turn.h"

namespace muster::sim {

class Server {
 public:
  using ReplySink = std::function<void(const coordinator::Reply&)>;
  using ListSink = std::function<void(const std::set<uint64_t>& jobs)>;
  struct Callbacks {
    std::function<void(Server&, const coordinator::Command&, uint64_t epoch)> deliver;
    std::function<void(Server&)> killed;  // its connections break
  };

  virtual ~Server() = default;
  virtual const std::string& name() const = 0;
  // There is a process that connections reach.
  virtual bool alive() const = 0;
  // It takes inputs, and has a state.
  virtual bool leads() const = 0;
  // SIGSTOP: connections reach it, and it does nothing.
  virtual bool is_paused() const { return false; }
  // It would answer now.
  virtual bool may_answer() const { return leads(); }
  virtual const coordinator::ClusterState& state() const = 0;
  virtual uint64_t epoch() const = 0;
  // Finished jobs, as a client would list them.
  virtual const std::map<uint64_t, v1::JobRecord>& finished() const = 0;
  virtual common::Now Now() const = 0;

  virtual void Start() = 0;
  virtual void Kill() = 0;
  virtual void Take(coordinator::Input input, ReplySink reply = nullptr) = 0;
  // All jobs that it knows, live or finished.
  virtual void List(ListSink sink) = 0;
};

}  // namespace muster::sim
