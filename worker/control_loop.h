// The worker's only control loop: takes inputs, calls the core, carries out its actions in order.
// Everything that happens on this node passes through here, one thing at a time. Runs on the main
// thread; never blocks on disks or the network beyond small local files, and never on a job's file.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/kernel/wake_timer.h"
#include "worker/attempts/attempt_processes.h"
#include "worker/base/job_threads.h"
#include "worker/base/mailbox.h"
#include "worker/base/task_thread.h"
#include "worker/checkpoints/transfers.h"
#include "worker/config.h"
#include "worker/confinement/isolation.h"
#include "worker/containers/container_tools.h"
#include "worker/core/decide.h"
#include "worker/exec/exec_link.h"
#include "worker/exec/exec_session.h"
#include "worker/exec/notify_commands.h"
#include "worker/links/coordinator_link.h"
#include "worker/links/route.h"
#include "worker/membership/audit_heads.h"
#include "worker/membership/identity.h"
#include "worker/membership/known_heads.h"
#include "worker/membership/membership.h"
#include "worker/output/io_thread.h"

namespace muster::worker {

class ControlLoop {
 public:
  struct Setup {
    Config config;
    LoadedIdentity identity;
    v1::NodeFacts facts;
    common::CgroupHost cgroups;
    LimitHost limits;
    Isolation isolation;
    ContainerTools containers;
    uint64_t seed = 0;
    std::shared_ptr<Membership> membership = nullptr;  // null: the node has not joined
  };
  // `stop_fd`: readable when the process should stop (a signalfd).
  ControlLoop(Setup setup, int stop_fd);

  // Runs until stopped. Ranks and shims keep running afterwards.
  void Run();

 private:
  void Feed(Input input);
  std::function<void(Input)> Later();
  void Carry(Action& action);
  void StartExec(v1::ExecOrder order);
  void Turn();
  void FlushOutbox();
  int PollTimeout(int64_t now_ms) const;
  // A private worker whose coordinator is gone for good must not run forever.
  bool Abandoned(int64_t now_ms) const;
  void MaybeSaveContact();
  Route RouteTo(const std::string& endpoint) const;
  void SetBulkRoute();
  void Registered(const RegisteredAction& action);
  void NamedHeads(const HeadsAction& action);
  void OnRenewed();

  const Setup setup_;
  const int stop_fd_;
  const Paths paths_;
  AuditHeads audit_heads_;
  KnownHeads heads_;
  Identity identity_;
  WorkerState state_;
  Mailbox mailbox_;
  common::WakeTimer deadline_timer_;  // of the core's next deadline
  std::deque<Input> inputs_;
  std::vector<v1::WorkerMessage> outbox_;  // for this turn
  bool feeding_ = false;
  bool stopping_ = false;
  int64_t contact_saved_ms_ = 0;
  std::string bulk_endpoint_;  // empty: not registered yet
  JobThreads threads_;
  IoThread io_;
  Transfers transfers_;
  TaskThread ends_;  // proves that nothing is alive, which must not wait for a checkpoint
  AttemptProcesses processes_;
  NotifyCommands commands_;
  ExecSessions execs_;
  CoordinatorLink link_;
  ExecLink exec_link_;
};

}  // namespace muster::worker
