#include "tests/sim/sim_head.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/core/state/timers.h"

namespace muster::sim {
namespace {

using coordinator::ClusterState;
using coordinator::Turn;
namespace election = coordinator::election;

// As in coordinator/heads/head.cc.
constexpr int64_t kPollMs = 150;
constexpr int64_t kTroublePauseMs = 500;
constexpr int64_t kRpcWithinMs = 3'000;
constexpr int64_t kResignWithinMs = 1'000;
constexpr int64_t kPiecesPerPage = 32;
// How late the scheduler may run what was due while the process was stopped.
constexpr int64_t kSchedulerLateMs = 20;
constexpr size_t kEventsPerSnapshot = 150;

bool MayHaveBeenDone(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

SimHead::SimHead(EventQueue& queue, SimEtcd& etcd, SharedLog& log, Ledger& ledger,
                 Callbacks callbacks, Options options)
    : queue_(queue),
      etcd_(etcd),
      log_(log),
      ledger_(ledger),
      callbacks_(std::move(callbacks)),
      options_(std::move(options)),
      mono_offset_ms_(queue.Draw(1'000'000, 9'000'000)),
      wall_skew_ms_(queue.Draw(-3'600'000, 3'600'000)),
      etcd_calls_(queue, etcd,
                  {.mono_ms = [this] { return MonoMs(); },
                   .after = [this](int64_t ms,
                                   std::function<void()> action) { After(ms, std::move(action)); },
                   .inside = [this](std::function<void()> action) -> std::function<void()> {
                     return
                         [this, life = life_, action = std::move(action)] { Wake(life, action); };
                   }}) {}

// ---------------------------------------------------------------- the process

int64_t SimHead::MonoMs() const {
  return mono_offset_ms_ +
         static_cast<int64_t>(static_cast<double>(queue_.now_ms()) * options_.rate);
}

common::Now SimHead::Now() const {
  return {MonoMs(), queue_.now_ms() + 1'700'000'000'000 + wall_skew_ms_};
}

void SimHead::After(int64_t ms, std::function<void()> action) {
  const double real_ms = std::ceil(static_cast<double>(std::max<int64_t>(ms, 0)) / options_.rate);
  queue_.After(static_cast<int64_t>(real_ms),
               [this, life = life_, action = std::move(action)] { Wake(life, action); });
}

void SimHead::Wake(uint64_t life, std::function<void()> action) {
  if (life != life_) return;
  is_paused_ ? waiting_.push_back(std::move(action)) : action();
}

void SimHead::Pause() {
  if (is_running_) is_paused_ = true;
}

void SimHead::GoOn() {
  if (!std::exchange(is_paused_, false)) return;
  for (auto& action : std::exchange(waiting_, {}))
    After(queue_.Draw(0, kSchedulerLateMs), std::move(action));
  int64_t at_ms = 0;
  for (auto& action : std::exchange(in_order_, {})) {
    at_ms = queue_.Draw(at_ms, kSchedulerLateMs);
    After(at_ms, std::move(action));
  }
}

void SimHead::Forget() {
  ++life_;
  is_running_ = false;
  is_paused_ = false;
  waiting_.clear();
  in_order_.clear();
  term_revision_.reset();
  state_.reset();
  index_.clear();
  streams_.clear();
  releases_.clear();
  pending_.clear();
  is_writing_ = false;
}

void SimHead::Start() {
  if (is_running_) return;
  Forget();
  is_running_ = true;
  is_idle_ = false;
  term_ = std::make_unique<coordinator::Term>();
  number_ = copy_.position;
  gathering_ = {};
  lease_ = {};
  instance_ = static_cast<uint64_t>(queue_.Draw(1, int64_t{1} << 50));
  GrantLease([this](const absl::Status& granted) {
    if (!granted.ok()) return StartOver("it cannot reach etcd");
    Follow();
    Keep();
  });
}

void SimHead::Kill() {
  if (!is_running_) return;
  Forget();
  callbacks_.killed(*this);
}

void SimHead::StartOver(const char* why) {
  queue_.Trace(absl::StrCat("head ", name(), " starts over: ", why));
  Kill();
  queue_.After(queue_.Draw(20, 800), [this, life = life_] {
    if (life == life_) Start();
  });
}

void SimHead::Resign() {
  if (!is_running_ || is_paused_) return;
  const int64_t lease = lease_.id;
  Kill();
  // What is left of it does only this.
  etcd_calls_.Call<bool>(
      kResignWithinMs,
      [lease](SimEtcd& etcd) -> absl::StatusOr<bool> {
        etcd.Revoke(lease);
        return true;
      },
      [](const absl::StatusOr<bool>&) {});
}

// ---------------------------------------------------------------- following

void SimHead::GrantLease(Done done) {
  const int64_t sent_ms = MonoMs();
  etcd_calls_.Call<int64_t>(
      kRpcWithinMs,
      [ttl_ms = options_.lease_ms](SimEtcd& etcd) -> absl::StatusOr<int64_t> {
        return etcd.Grant(ttl_ms);
      },
      [this, sent_ms, done = std::move(done)](const absl::StatusOr<int64_t>& id) {
        if (id.ok()) lease_ = {.id = *id, .ttl_ms = options_.lease_ms, .renewed_sent_ms = sent_ms};
        done(id.status());
      });
}

void SimHead::FollowAgain(int64_t pause_ms) {
  if (!is_idle_) return After(pause_ms, [this] { Follow(); });
  // It would look in vain until something changes.
  etcd_.OnChange([this, life = life_] {
    if (life == life_) After(queue_.Draw(0, kPollMs), [this] { Follow(); });
  });
}

void SimHead::Follow() {
  is_idle_ = false;
  ReadAll(false, [this](const absl::Status& read) {
    if (!read.ok()) return FollowAgain(kTroublePauseMs);
    LookForLeader();
  });
}

void SimHead::ReadAll(bool linearizable, Done done) {
  etcdserverpb::RangeRequest request;
  request.set_key(PieceKey(number_ + 1));
  request.set_range_end("/sim/log0");
  request.set_limit(kPiecesPerPage);
  request.set_sort_order(etcdserverpb::RangeRequest::ASCEND);
  request.set_serializable(!linearizable);
  etcd_calls_.Call<etcdserverpb::RangeResponse>(
      kRpcWithinMs, [request](SimEtcd& etcd) { return etcd.Range(request); },
      [this, linearizable,
       done = std::move(done)](const absl::StatusOr<etcdserverpb::RangeResponse>& page) {
        if (!page.ok()) return done(page.status());
        seen_revision_ = page->header().revision();
        Fits(ApplyPage(*page));
        page->more() ? ReadAll(linearizable, done) : done(absl::OkStatus());
      });
}

absl::Status SimHead::ApplyPage(const etcdserverpb::RangeResponse& page) {
  for (const etcdserverpb::KeyValue& pair : page.kvs()) {
    if (pair.key() != PieceKey(number_ + 1)) return absl::DataLossError("J11: the log has a hole");
    v1::CommitPiece piece;
    piece.ParseFromString(pair.value());
    ++number_;
    if (const std::optional<std::string> changes = gathering_.Add(piece))
      copy_.Apply(number_, Entry::Unpack(*changes));
  }
  return absl::OkStatus();
}

void SimHead::Copy::Apply(uint64_t at, Entry entry) {
  if (at <= position) throw Broken("J11: an entry was applied twice");
  position = at;
  if (entry.epoch != 0) epoch = entry.epoch;
  for (v1::Event& event : entry.events) events.push_back(std::move(event));
  for (v1::JobRecord& job : entry.finished) finished[job.id()] = std::move(job);
  notes.insert(entry.notes.begin(), entry.notes.end());
  if (!entry.snapshot.has_value()) return;
  snapshot = std::move(entry.snapshot);
  snapshot_size = events.size();
}

void SimHead::LookForLeader() {
  etcdserverpb::RangeRequest leader;
  leader.set_key(kLeaderKey);
  leader.set_serializable(true);
  etcd_calls_.Call<etcdserverpb::RangeResponse>(
      kRpcWithinMs, [leader](SimEtcd& etcd) { return etcd.Range(leader); },
      [this, lease_id = lease_.id](const absl::StatusOr<etcdserverpb::RangeResponse>& found) {
        if (!found.ok()) return FollowAgain(kTroublePauseMs);
        if (election::ShouldCampaign(*found, Self(), lease_id)) return Campaign();
        is_idle_ =
            seen_revision_ == etcd_.revision() && found->header().revision() == etcd_.revision();
        FollowAgain(kPollMs);
      });
}

v1::HeadRecord SimHead::Self() const {
  v1::HeadRecord self;
  self.set_name(name());
  self.set_instance(instance_);
  self.set_position(copy_.position);
  return self;
}

void SimHead::Campaign() {
  const v1::HeadRecord self = Self();
  const election::Lease lease = lease_;
  if (!election::MayCampaign(lease_, MonoMs())) return FollowAgain(kPollMs);
  const etcdserverpb::TxnRequest request = election::CampaignTxn(kLeaderKey, self, lease.id);
  etcd_calls_.Call<etcdserverpb::TxnResponse>(
      kRpcWithinMs, [request](SimEtcd& etcd) { return etcd.Txn(request); },
      [this, self, lease](const absl::StatusOr<etcdserverpb::TxnResponse>& done) {
        if (!done.ok()) return FollowAgain(kTroublePauseMs);
        const std::optional<int64_t> term = election::TermWon(*done, self, lease.id);
        if (!term.has_value()) return FollowAgain(kPollMs);
        term_revision_ = term;
        term_->Renewed(lease.renewed_sent_ms, lease.ttl_ms);
        CatchUp();
      });
}

void SimHead::CatchUp() {
  ReadAll(true, [this](const absl::Status& read) {
    read.ok() ? BeginToLead() : FollowAgain(kTroublePauseMs);
  });
}

void SimHead::BeginToLead() {
  queue_.Trace(absl::StrCat("head ", name(), " leads: term ", *term_revision_, ", position ",
                            copy_.position));
  ++takeovers_;
  writer_ = static_cast<uint64_t>(queue_.Draw(1, int64_t{1} << 50));
  log_.Begins(writer_, *term_revision_);
  if (!options_.plants.no_two_thirds) WatchTerm();
  // The process opens its stores.
  After(queue_.Chance(0.2) ? queue_.Draw(300, 3'000) : queue_.Draw(5, 300),
        [this] { RaiseEpoch(); });
}

// ---------------------------------------------------------------- the lease

void SimHead::Keep() {
  After(lease_.ttl_ms / 5, [this] { KeepOnce(); });
}

void SimHead::KeepOnce() {
  const bool is_leader = term_revision_.has_value();
  const int64_t sent_ms = MonoMs();
  etcd_calls_.Call<int64_t>(
      kRpcWithinMs,
      [lease = lease_.id](SimEtcd& etcd) -> absl::StatusOr<int64_t> {
        const int64_t ttl_ms = etcd.KeepAlive(lease);
        if (ttl_ms == 0) return absl::NotFoundError("the lease is over");
        return ttl_ms;
      },
      [this, is_leader, sent_ms](const absl::StatusOr<int64_t>& ttl_ms) {
        if (ttl_ms.ok()) return Renewed(is_leader, sent_ms, *ttl_ms);
        if (!absl::IsNotFound(ttl_ms.status())) return Keep();
        if (is_leader) return StartOver("its lease is over");
        GrantLease([this](const absl::Status&) { Keep(); });
      });
}

void SimHead::Renewed(bool is_leader, int64_t sent_ms, int64_t ttl_ms) {
  const auto note = [this, sent_ms, ttl_ms] {
    lease_.ttl_ms = ttl_ms;
    lease_.renewed_sent_ms = sent_ms;
  };
  if (!is_leader) {
    note();
    return Keep();
  }
  etcdserverpb::TxnRequest request;
  *request.add_compare() = election::IsStillLeader(kLeaderKey, *term_revision_);
  etcd_calls_.Call<etcdserverpb::TxnResponse>(
      kRpcWithinMs, [request](SimEtcd& etcd) { return etcd.Txn(request); },
      [this, note, sent_ms, ttl_ms](const absl::StatusOr<etcdserverpb::TxnResponse>& done) {
        if (!done.ok()) return Keep();
        if (!done->succeeded()) return StartOver("another one leads");
        note();
        term_->Renewed(sent_ms, ttl_ms);
        Keep();
      });
}

void SimHead::WatchTerm() {
  const int64_t left_ms = term_->SureUntilMs() - MonoMs();
  if (left_ms <= 0) return StartOver("etcd has not renewed the lease in time");
  After(left_ms, [this] { WatchTerm(); });
}

// ---------------------------------------------------------------- leading

bool SimHead::MayAct(const char* what) {
  const bool is_answer = std::string_view(what) == "answered a heartbeat";
  if (!IsSure() && !(options_.plants.no_two_thirds && is_answer)) {
    StartOver("the term is over");
    return false;
  }
  log_.Acts(*term_revision_, name(), what);
  return true;
}

void SimHead::RaiseEpoch() {
  Entry entry;
  entry.epoch = copy_.epoch + 1;
  Append(entry.Pack(), [this, entry](const absl::Status& added) {
    if (!added.ok()) return StartOver("its first entry was not added");
    copy_.Apply(number_, entry);
    epoch_ = entry.epoch;
    Recover();
  });
}

void SimHead::Recover() {
  auto state = std::make_unique<ClusterState>();
  ShortenSharing(state->settings);
  if (copy_.snapshot.has_value()) Fits(coordinator::ReplaySnapshot(*state, *copy_.snapshot, Now()));
  for (size_t i = copy_.snapshot_size; i < copy_.events.size(); ++i) {
    Fits(coordinator::ReplayEvent(*state, copy_.events[i], Now()));
    Holds(*state);
  }
  Fits(coordinator::CheckReplayed(*state));
  coordinator::TakeFinished(*state);
  if (IsSure()) {
    if (copy_.position != log_.position()) {
      throw Broken(absl::StrCat("J11: head ", name(), " leads at position ", copy_.position,
                                " of the log, which is at ", log_.position()));
    }
    ledger_.CheckRecovered(*state, Now());
    ledger_.CheckIndex(copy_.finished);
    if (copy_.notes != log_.notes())
      throw Broken(absl::StrCat("J11: head ", name(), " has other notes than the log"));
  }
  index_ = copy_.finished;
  for (const auto& [id, job] : index_) {
    coordinator::RestoreKey(*state, coordinator::OwnerKey(job), job.idempotency_key(), id,
                            job.spec_hash());
  }
  state_ = std::move(state);
  armed_ms_ = -1;
  last_appended_ = durable_turn_ = 0;
  since_snapshot_ = copy_.events.size() - copy_.snapshot_size;
  Finish(coordinator::ResumeAfterReplay(*state_, Now(), Holds), {});
  ArmTimer();
}

void SimHead::Take(coordinator::Input input, ReplySink reply) {
  if (is_paused_) {
    return in_order_.push_back(
        [this, input = std::move(input), reply = std::move(reply)] { Take(input, reply); });
  }
  if (state_ == nullptr) return;
  if (const auto* registered = std::get_if<coordinator::WorkerRegisteredInput>(&input)) {
    if (registered->message.highest_epoch() > epoch_) {
      coordinator::Reply refused;
      refused.status = absl::FailedPreconditionError("a newer coordinator has commanded this node");
      return Answer(reply, refused, "refused a node");
    }
  }
  if (const auto* gone = std::get_if<coordinator::WorkerGoneInput>(&input)) {
    const auto stream = streams_.find(gone->node);
    if (stream != streams_.end() && stream->second == gone->session) streams_.erase(stream);
  }
  std::vector<ReplySink> replies;
  replies.push_back(std::move(reply));
  const uint64_t life = life_;
  Turn turn = coordinator::TakeTurn(*state_, {&input, 1}, Now(), Holds);
  Settled(*state_, Now());
  Finish(std::move(turn), std::move(replies));
  if (life == life_) ArmTimer();
}

void SimHead::List(ListSink sink) {
  if (is_paused_) return in_order_.push_back([this, sink = std::move(sink)] { List(sink); });
  if (state_ == nullptr) return;
  std::set<uint64_t> jobs;
  for (const auto& [id, job] : state_->jobs) jobs.insert(id);
  for (const auto& [id, job] : index_) jobs.insert(id);
  releases_.push_back({last_appended_, {[this, sink = std::move(sink), jobs = std::move(jobs)] {
                         if (MayAct("answered a read")) sink(jobs);
                       }}});
  ReleaseDurable();
}

void SimHead::Note(uint64_t number, std::function<void()> noted) {
  if (is_paused_)
    return in_order_.push_back([this, number, noted = std::move(noted)] { Note(number, noted); });
  if (state_ == nullptr) return;
  Entry entry;
  entry.notes.push_back(number);
  pending_.push_back({++last_appended_, std::move(entry)});
  releases_.push_back({last_appended_, {[this, noted = std::move(noted)] {
                         if (MayAct("answered a call")) noted();
                       }}});
  Write();
}

void SimHead::Answer(const ReplySink& reply, const coordinator::Reply& text, const char* what) {
  if (reply && MayAct(what)) reply(text);
}

// As ControlLoop::Finish does: answers to heartbeats leave at once, the rest once the log has the turn.
void SimHead::Finish(Turn turn, std::vector<ReplySink> replies) {
  const uint64_t life = life_;
  Release release;
  for (size_t i = 0; i < replies.size() && i < turn.replies.size(); ++i) {
    if (!replies[i]) continue;
    release.effects.push_back(
        [this, reply = std::move(replies[i]), text = std::move(turn.replies[i])] {
          Answer(reply, text, "answered a call");
        });
  }
  std::vector<coordinator::Command> at_once;
  for (coordinator::Command& command : turn.commands) {
    if (command.message.has_heartbeat_reply()) {
      at_once.push_back(std::move(command));
    } else {
      release.effects.push_back([this, command = std::move(command)] { Send(command); });
    }
  }
  if (!turn.events.empty() || !turn.finished.empty()) {
    since_snapshot_ += turn.events.size();
    Entry entry;
    entry.events = std::move(turn.events);
    entry.finished = std::move(turn.finished);
    for (const v1::JobRecord& job : entry.finished) index_[job.id()] = job;
    if (since_snapshot_ >= kEventsPerSnapshot) {
      entry.snapshot = coordinator::MakeSnapshot(*state_);
      since_snapshot_ = 0;
    }
    pending_.push_back({++last_appended_, std::move(entry)});
  }
  release.turn = last_appended_;
  releases_.push_back(std::move(release));
  for (const coordinator::Command& command : at_once) {
    Send(command);
    if (life != life_) return;
  }
  ReleaseDurable();
  if (life == life_) Write();
}

void SimHead::Send(const coordinator::Command& command) {
  if (command.message.has_registered()) {
    const coordinator::Node* const node = coordinator::FindNode(*state_, command.node);
    if (node != nullptr) streams_[command.node] = node->session;
  }
  if (!streams_.contains(command.node)) return;
  const bool is_answer = command.message.has_heartbeat_reply();
  if (MayAct(is_answer ? "answered a heartbeat" : "sent a command"))
    callbacks_.deliver(*this, command, epoch_);
}

void SimHead::ReleaseDurable() {
  const uint64_t life = life_;
  while (!releases_.empty() && releases_.front().turn <= durable_turn_) {
    const Release release = std::move(releases_.front());
    releases_.pop_front();
    for (const auto& effect : release.effects) {
      effect();
      if (life != life_) return;
    }
  }
}

// As the journal's thread does: what is queued becomes one entry; first in the log, then in the copy.
void SimHead::Write() {
  if (is_writing_ || pending_.empty()) return;
  is_writing_ = true;
  Entry entry;
  uint64_t turn = 0;
  for (Pending& next : std::exchange(pending_, {})) {
    turn = next.turn;
    for (v1::Event& event : next.entry.events) entry.events.push_back(std::move(event));
    for (v1::JobRecord& job : next.entry.finished) entry.finished.push_back(std::move(job));
    for (const uint64_t note : next.entry.notes) entry.notes.push_back(note);
    // An earlier turn's would lack the later events.
    entry.snapshot = std::move(next.entry.snapshot);
  }
  std::string changes = entry.Pack();
  Append(std::move(changes), [this, turn, entry = std::move(entry)](const absl::Status& added) {
    if (!added.ok()) return StartOver("it cannot add to the log");
    After(queue_.Chance(0.02) ? queue_.Draw(50, 1'500) : queue_.Draw(0, 2),
          [this, turn, entry, at = number_] {
            copy_.Apply(at, entry);
            is_writing_ = false;
            durable_turn_ = turn;
            const uint64_t life = life_;
            ReleaseDurable();
            if (life == life_) Write();
          });
  });
}

void SimHead::Append(std::string changes, Done done) {
  v1::CommitPiece piece;
  piece.set_writer(writer_);
  piece.set_first(true);
  if (!queue_.Chance(0.1)) {
    piece.set_last(true);
    piece.set_changes(std::move(changes));
    return AppendPiece(piece.SerializeAsString(), std::move(done));
  }
  piece.set_changes(changes.substr(0, changes.size() / 2));
  AppendPiece(piece.SerializeAsString(),
              [this, changes, done = std::move(done)](const absl::Status& added) {
                if (!added.ok()) return done(added);
                v1::CommitPiece last;
                last.set_writer(writer_);
                last.set_last(true);
                last.set_changes(changes.substr(changes.size() / 2));
                AppendPiece(last.SerializeAsString(), done);
              });
}

void SimHead::AppendPiece(std::string value, Done done) {
  const int64_t left_ms = term_->SureUntilMs() - MonoMs();
  if (left_ms <= 0) return done(absl::DeadlineExceededError("the term is over"));
  etcdserverpb::TxnRequest request =
      election::AddPieceTxn(kLeaderKey, *term_revision_, PieceKey(number_ + 1), value);
  if (options_.plants.no_term_compare) request.mutable_compare()->DeleteSubrange(0, 1);
  etcd_calls_.Call<etcdserverpb::TxnResponse>(
      left_ms, [request](SimEtcd& etcd) { return etcd.Txn(request); },
      [this, value,
       done = std::move(done)](const absl::StatusOr<etcdserverpb::TxnResponse>& answer) {
        if (MayHaveBeenDone(answer.status())) return AppendPiece(value, done);
        if (!answer.ok()) return done(answer.status());
        if (!election::IsAdded(*answer, value))
          return done(absl::AbortedError("another one leads"));
        ++number_;
        done(absl::OkStatus());
      });
}

void SimHead::ArmTimer() {
  if (state_ == nullptr) return;
  const auto deadline = coordinator::NextDeadlineMonoMs(*state_);
  if (!deadline.has_value() || (armed_ms_ >= 0 && armed_ms_ <= *deadline)) return;
  armed_ms_ = *deadline;
  After(std::max<int64_t>(*deadline - MonoMs(), 1), [this] {
    armed_ms_ = -1;
    Take(coordinator::TickInput{});
  });
}

}  // namespace muster::sim
