// What a coordinator that leads among several has besides one that is alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/base/term.h"
#include "coordinator/net/listener.h"
#include "coordinator/stores/commit_log.h"
#include "muster/v1/head.pb.h"

namespace muster::coordinator {

// As far as known, a moment ago.
struct HeadsView {
  v1::HeadRecord leader;  // without a name: none
  int64_t term = 0;       // the create revision of the leader's key; 0: none leads
  std::vector<v1::HeadRecord> heads;
  int64_t seen_ms = 0;  // when etcd was last asked, and answered: common::MonotonicMs
};

struct Leading {
  const Term& term;
  CommitLog& log;
  std::string name;  // of this coordinator
  std::string http;  // HOST:PORT by which browsers reach it; empty: they cannot
  // Its TCP address, on which it listened already while it stood by: who connects meanwhile waits for its turn.
  std::shared_ptr<TcpPort> port;
  std::function<HeadsView()> view;    // any thread
  std::function<uint64_t()> changes;  // of the addresses in the view, so far; any thread
  // The term is over: this process must do nothing any more. Does not return.
  std::function<void(const absl::Status&)> step_down;

  // Before anything leaves this coordinator. Returns only in its term.
  void MustLead() const {
    if (!term.IsSure()) step_down(absl::DeadlineExceededError("the term is over"));
  }
};

}  // namespace muster::coordinator
