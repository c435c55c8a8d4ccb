// control_loop: poll, inputs, actions.
#include "worker/control_loop.h"

#include <poll.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/overloaded.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "identity/certificate.h"
#include "worker/base/json_lines.h"
#include "worker/confinement/secret_files.h"
#include "worker/launch/prepared_place.h"
#include "worker/preparation/setup_step.h"

namespace muster::worker {
namespace {

constexpr int64_t kContactSaveMs = 5'000;
constexpr int64_t kAbandonedMs = 60'000;
constexpr std::chrono::milliseconds kLeaveMs{2'000};

using Task = std::function<void()>;

common::Now ReadClock() { return common::SystemClock().Read(); }

std::set<std::string> DeviceKindsOf(const v1::NodeFacts& facts) {
  std::set<std::string> kinds;
  for (const v1::Device& device : facts.devices()) kinds.insert(device.kind());
  return kinds;
}

// Empty: this node has not joined a cluster.
std::string AuthorityOf(const Membership* membership) {
  if (membership == nullptr) return "";
  return identity::Fingerprint(membership->Now()->authority_pem).value_or("");
}

}  // namespace

ControlLoop::ControlLoop(Setup setup, int stop_fd)
    : setup_(std::move(setup)),
      stop_fd_(stop_fd),
      paths_(setup_.config.state_dir, setup_.config.runtime_dir),
      audit_heads_(paths_.AuditHeads(), common::LogWarning),
      heads_(paths_.Coordinators(),
             {.configured = setup_.config.coordinators,
              .authority = AuthorityOf(setup_.membership.get())},
             common::LogWarning),
      identity_(setup_.identity.identity),
      io_(paths_, {.node = setup_.config.name, .incarnation = identity_.incarnation}, &threads_,
          {.input = Later(),
           .trim =
               [this](const AttemptKey& key, uint32_t rank, common::Stream stream, uint64_t offset,
                      uint64_t records) {
                 mailbox_.Post([this, key, rank, stream, offset, records] {
                   processes_.Trim(key, rank, stream, offset, records);
                 });
               },
           .note = common::LogWarning},
          setup_.seed),
      transfers_(paths_, setup_.config.ports, &threads_, Later()),
      processes_({.paths = paths_,
                  .node = setup_.config.name,
                  .advertise = setup_.config.advertise,
                  .shim_binary = setup_.config.shim_binary,
                  .rendezvous_binary = setup_.config.rendezvous_binary,
                  .cores = setup_.facts.cores(),
                  .device_kinds = DeviceKindsOf(setup_.facts),
                  .cgroups = setup_.cgroups,
                  .limits = setup_.limits,
                  .ports = setup_.config.ports,
                  .port_seed = setup_.seed,
                  .coordinators = setup_.config.coordinators,
                  .run_as = setup_.config.run_as,
                  .isolation = setup_.isolation,
                  .containers = setup_.containers,
                  .code_cache_bytes = setup_.config.code_cache_bytes,
                  .fetch_object = transfers_.ObjectFetcher()},
                 &io_, &threads_,
                 {.input = [this](Input input) { Feed(std::move(input)); },
                  .in_background = [this](Task task) { ends_.Post(std::move(task)); },
                  .in_loop = [this](Task task) { mailbox_.Post(std::move(task)); },
                  .note = common::LogInfo}),
      commands_({.node = setup_.config.name,
                 .device_kinds = DeviceKindsOf(setup_.facts),
                 .run_as = setup_.config.run_as,
                 .isolation = setup_.isolation,
                 .paths = paths_,
                 .shim_binary = setup_.config.shim_binary},
                [this](v1::NotifyEnded ended) {
                  mailbox_.Post([this, ended = std::move(ended)]() mutable {
                    commands_.Ended(ended);
                    Feed(NotifyEndedInput{std::move(ended)});
                  });
                }),
      execs_(
          {.node = setup_.config.name, .paths = paths_, .shim_binary = setup_.config.shim_binary}),
      link_({.heads = [this] { return heads_.All(); },
             .route = [this](const std::string& address) { return RouteTo(address); }},
            &mailbox_,
            {.up = [this] { Feed(LinkUpInput{}); },
             .message =
                 [this](v1::CoordinatorMessage message) {
                   if (message.heartbeat_reply().has_audit()) {
                     audit_heads_.Saw(message.heartbeat_reply().audit(), ReadClock().wall_ms);
                   }
                   if (message.has_launch()) UseAttemptCode(paths_, message.mutable_launch());
                   Feed(CommandInput{std::move(message)});
                 },
             .down = [this] { Feed(LinkDownInput{}); },
             .note = common::LogWarning},
            setup_.seed + 2),
      exec_link_(
          setup_.config.name, [this] { return RouteTo(link_.Address()); }, &mailbox_,
          {.order = [this](v1::ExecOrder order) { StartExec(std::move(order)); },
           .note = common::LogWarning},
          setup_.seed + 3) {
  state_.facts = setup_.facts;
  state_.highest_epoch = identity_.highest_epoch;
  // After a restart the self-fence counts from the last contact of the previous process.
  const int64_t saved = setup_.identity.new_boot ? 0 : LoadContact(paths_);
  const int64_t now = ReadClock().mono_ms;
  state_.contact.lease_mono_ms = saved > 0 ? std::min(saved, now) : now;
  state_.contact.last_heard_mono_ms = now;
}

void ControlLoop::Run() {
  processes_.Restore(setup_.identity);
  execs_.KillOlder();
  KillOlderSetups(paths_);
  if (setup_.membership != nullptr) setup_.membership->Begin([this] { OnRenewed(); });
  while (!stopping_) Turn();
  if (setup_.membership != nullptr) setup_.membership->Stop();
  link_.Shutdown();
  exec_link_.Shutdown();
  const bool no_exec_hangs = execs_.Shutdown(kLeaveMs);
  ends_.Stop();
  transfers_.Shutdown();
  processes_.StopPreparations();
  const bool no_command_hangs = commands_.Shutdown(kLeaveMs);
  const bool nothing_hangs = threads_.Shutdown(kLeaveMs) && no_command_hangs && no_exec_hangs;
  io_.Shutdown();
  SaveContact(paths_, state_.contact.lease_mono_ms);
  if (nothing_hangs) return;
  // A thread hangs on some job's file, so the objects that it may still use must not be destroyed.
  common::LogInfo("worker exits although a file system does not answer; its ranks keep running");
  _exit(0);
}

int ControlLoop::PollTimeout(int64_t now_ms) const {
  std::optional<int64_t> wake = NextDeadlineMonoMs(state_);
  for (const std::optional<int64_t> other :
       {link_.NextDialMs(), exec_link_.NextDialMs(), processes_.NextDeadlineMs()}) {
    if (other && (!wake || *other < *wake)) wake = other;
  }
  return wake ? static_cast<int>(std::clamp<int64_t>(*wake - now_ms, 0, 10'000)) : 10'000;
}

void ControlLoop::Turn() {
  int64_t now = ReadClock().mono_ms;
  link_.MaybeDial(now);
  exec_link_.Follow(state_.contact.link == LinkStage::kUp, now);
  FlushOutbox();  // the registration must not wait for the poll
  const std::optional<int64_t> due_ms = NextDeadlineMonoMs(state_);
  deadline_timer_.Set(due_ms ? *due_ms * 1000 : common::WakeTimer::kNever);
  std::vector<pollfd> fds{
      {mailbox_.fd(), POLLIN, 0}, {stop_fd_, POLLIN, 0}, {deadline_timer_.fd(), POLLIN, 0}};
  const size_t first_shim = fds.size();
  processes_.AppendPollFds(&fds);
  if (poll(fds.data(), fds.size(), PollTimeout(now)) < 0) return;
  if (fds[1].revents != 0) stopping_ = true;
  for (size_t i = first_shim; i < fds.size(); ++i) {
    if (fds[i].revents != 0) processes_.OnReady(fds[i].fd);
  }
  if (fds[0].revents != 0) mailbox_.RunWaiting();
  now = ReadClock().mono_ms;
  processes_.OnTime(now);
  if (const auto due = NextDeadlineMonoMs(state_); due && now >= *due) {
    struct statvfs disk {};
    if (statvfs(setup_.config.state_dir.c_str(), &disk) != 0) disk = {};
    Feed(TickInput{.spool_bytes = io_.spool_bytes(),
                   .disk_bytes = uint64_t{disk.f_blocks} * disk.f_frsize,
                   .disk_free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize});
  }
  FlushOutbox();
  MaybeSaveContact();
  if (Abandoned(now)) {
    common::LogInfo("leaving: nothing runs here and the private coordinator is gone");
    stopping_ = true;
  }
}

// If one turn has several statuses of an attempt, only the last is sent: each includes the earlier ones, and a
// gang of thousands of ranks that fail at once would send millions of exits.
void ControlLoop::FlushOutbox() {
  std::set<AttemptKey> said;
  std::vector<v1::WorkerMessage> last;
  for (auto message = outbox_.rbegin(); message != outbox_.rend(); ++message) {
    if (message->has_attempt_status() &&
        !said.insert({message->attempt_status().job(), message->attempt_status().attempt()})
             .second) {
      continue;
    }
    last.push_back(std::move(*message));
  }
  outbox_.clear();
  for (auto message = last.rbegin(); message != last.rend(); ++message) {
    link_.Send(std::move(*message));
  }
}

bool ControlLoop::Abandoned(int64_t now_ms) const {
  return setup_.config.is_private && state_.attempts.empty() &&
         state_.contact.link != LinkStage::kUp &&
         now_ms - state_.contact.last_heard_mono_ms > kAbandonedMs;
}

void ControlLoop::MaybeSaveContact() {
  if (state_.contact.lease_mono_ms - contact_saved_ms_ < kContactSaveMs) return;
  contact_saved_ms_ = state_.contact.lease_mono_ms;
  SaveContact(paths_, contact_saved_ms_);
}

// Returns a function that feeds an input in a turn of this loop; callable on any thread.
std::function<void(Input)> ControlLoop::Later() {
  return [this](Input input) {
    mailbox_.Post([this, input = std::move(input)]() mutable { Feed(std::move(input)); });
  };
}

void ControlLoop::Feed(Input input) {
  inputs_.push_back(std::move(input));
  if (feeding_) return;  // the result of an action: comes after the actions before it
  feeding_ = true;
  while (!inputs_.empty()) {
    const Input next = std::move(inputs_.front());
    inputs_.pop_front();
    // Before the attempt's end is reported, because its devices are free after that.
    if (const auto* end = std::get_if<AttemptEndedInput>(&next)) execs_.EndAttempt(end->key);
    Actions actions = Decide(state_, next, ReadClock());
    for (Action& action : actions) Carry(action);
  }
  feeding_ = false;
}

Route ControlLoop::RouteTo(const std::string& endpoint) const {
  // Over a local socket the kernel reports who we are.
  const bool is_local = endpoint.starts_with("unix:");
  if (setup_.membership == nullptr || is_local)
    return {.endpoint = endpoint, .credentials = nullptr};
  return {.endpoint = endpoint, .credentials = setup_.membership->Now()};
}

void ControlLoop::SetBulkRoute() {
  const Route route = RouteTo(bulk_endpoint_);
  io_.SetBulkRoute(route);
  transfers_.SetRoute(route);
}

void ControlLoop::Registered(const RegisteredAction& action) {
  link_.Confirm();
  // Bulk data goes where this worker is registered: only the coordinator that leads stores it.
  bulk_endpoint_ = action.bulk_endpoint.empty() ? link_.Address() : action.bulk_endpoint;
  SetBulkRoute();
  processes_.SetCluster(action.cluster_id);
  heads_.Learned(action.cluster_id, action.heads);
  if (setup_.membership != nullptr) setup_.membership->Learned(action.https);
  common::LogInfo(
      common::StrCat("registered coordinator=", link_.Address(), " epoch=", state_.highest_epoch));
}

void ControlLoop::NamedHeads(const HeadsAction& action) {
  heads_.AlsoLearned(action.heads);
  if (setup_.membership != nullptr) setup_.membership->Learned(action.https);
}

// The coordinator closes a connection when the certificate that it began with ends, so everything
// reconnects now, while both certificates are valid. Registering again disturbs no attempt. Commands
// of `jobctl exec` keep the connection that they have.
void ControlLoop::OnRenewed() {
  mailbox_.Post([this] {
    if (!bulk_endpoint_.empty()) SetBulkRoute();
    link_.Renew();
    exec_link_.Renew();
  });
}

void ControlLoop::StartExec(v1::ExecOrder order) {
  const AttemptKey key{order.job(), order.attempt()};
  const auto attempt = state_.attempts.find(key);
  const bool runs = attempt != state_.attempts.end() && attempt->second.stage == Stage::kRunning;
  const std::string session = order.session();
  execs_.Start(std::move(order), [this, session](ExecStream::Callbacks callbacks) {
    return exec_link_.Serve(session, std::move(callbacks));
  });
  if (!runs) execs_.EndAttempt(key);
}

void ControlLoop::Carry(Action& action) {
  std::visit(
      common::Overloaded{
          [&](SendAction& a) { outbox_.push_back(std::move(a.message)); },
          [&](ResetLinkAction& a) {
            FlushOutbox();
            link_.Reset(a.reason);
          },
          [&](RegisteredAction& a) { Registered(a); },
          [&](HeadsAction& a) { NamedHeads(a); },
          [&](ClearHostAction& a) { processes_.ClearHost(a); },
          [&](AbandonClearingAction&) { processes_.AbandonClearing(); },
          [&](PersistEpochAction& a) {
            identity_.highest_epoch = a.epoch;
            if (absl::Status saved = SaveIdentity(paths_, identity_); !saved.ok()) {
              common::LogError(
                  common::StrCat("epoch not kept reason=\"", std::string(saved.message()), "\""));
            }
          },
          [&](PrepareAttemptAction& a) { processes_.PrepareAttempt(a); },
          [&](CancelPreparationAction& a) { processes_.CancelPreparation(a.key); },
          [&](ReleaseRendezvousAction& a) { processes_.ReleaseRendezvous(a.key); },
          [&](RecordLaunchAction& a) { processes_.RecordLaunch(a); },
          [&](FetchAction& a) { transfers_.Fetch(a.key, state_.attempts[a.key].launch); },
          [&](CancelFetchAction& a) { transfers_.CancelFetch(a.key); },
          [&](SpawnAction& a) {
            processes_.Spawn(a.key, state_.attempts[a.key].launch, a.fence_mono_ms);
          },
          [&](MoveFenceAction& a) { processes_.MoveFence(a.key, a.fence_mono_ms); },
          [&](StopShimAction& a) { processes_.Stop(a.key, a.grace_ms); },
          [&](KillRanksAction& a) { processes_.KillRanks(a.key); },
          [&](SignalShimAction& a) { processes_.Signal(a.key, a.signal); },
          [&](NotifyStopAction& a) { io_.Broadcast(a.key, StopLine(a.reason, a.grace_ms)); },
          [&](RequestSaveAction& a) { io_.Broadcast(a.key, CheckpointRequestLine()); },
          [&](DiagnoseAction& a) { io_.Diagnose(a.key, a.number, a.reason); },
          [&](RunNotifyAction& a) {
            if (const auto ended = commands_.Run(std::move(a.order)))
              Feed(NotifyEndedInput{*ended});
          },
          [&](NotifyCommittedAction& a) { io_.Broadcast(a.key, CommittedLine(a.step)); },
          [&](NotifyErrorAction& a) { io_.Broadcast(a.key, ErrorLine(a.message)); },
          [&](UploadAction& a) { transfers_.Upload(a); },
          [&](DeleteStepAction& a) {
            transfers_.DeleteTree(
                a.key, common::StrCat(paths_.CheckpointsDir(a.key), "/", StepName(a.step)));
          },
          [&](FinalScanAction& a) { io_.Ended(a.key); },
          [&](DeleteAttemptAction& a) {
            io_.Remove(a.key);
            RemoveSecrets(paths_, a.key);
            processes_.RemoveSockets(a.key);
            transfers_.DeleteTree(a.key, paths_.AttemptDir(a.key), processes_.RemovalLane(a.key));
          },
          [&](NoteAction& a) { common::LogInfo(a.line); },
      },
      action);
}

}  // namespace muster::worker
