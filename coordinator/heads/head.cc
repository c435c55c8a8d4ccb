#include "coordinator/heads/head.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/election/election.h"
#include "coordinator/etcd/requests.h"
#include "coordinator/heads/snapshot.h"

namespace muster::coordinator::heads {
namespace {

using common::StrCat;

// A standby reads the log instead of watching it: etcd 3.4.23 is known to lose events of watches.
constexpr int64_t kPollMs = 150;
constexpr int64_t kTroublePauseMs = 500;
constexpr int64_t kRpcWithinMs = 3'000;
constexpr int64_t kResignWithinMs = 1'000;
constexpr int64_t kSnapshotLookedAtMs = 1'000;
// Of the log's pieces, before it is cut off.
constexpr uint64_t kPiecesMost = 50'000;
// Of the heads' keys in one answer.
constexpr int64_t kHeadsMost = 64;
constexpr size_t kHeadBytesMost = 2'048;

// Answers to clients and workers name it, so it is no longer than a name and addresses are.
std::optional<v1::HeadRecord> ReadHead(const etcdserverpb::KeyValue& pair) {
  v1::HeadRecord head;
  if (pair.value().size() > kHeadBytesMost || !head.ParseFromString(pair.value()) ||
      !common::IsCleanUtf8(head.name()) || !common::IsCleanUtf8(head.endpoint()) ||
      !common::IsCleanUtf8(head.http()) || !common::IsCleanUtf8(head.version())) {
    return std::nullopt;
  }
  return head;
}

Head::Options OfThisRun(Head::Options options) {
  options.self.set_instance(common::Random64());
  return options;
}

}  // namespace

absl::Status Unusable(std::string what, std::string why, std::string fix) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1631", .what = std::move(what), .why = std::move(why), .fix = std::move(fix)});
}

Head::Head(std::unique_ptr<etcd::Client> client, std::unique_ptr<ReplicaHome> home, Options options)
    : client_(std::move(client)), home_(std::move(home)), options_(OfThisRun(std::move(options))) {}

Head::~Head() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread* thread : {&follower_, &keeper_, &watcher_, &shortener_}) {
    if (thread->joinable()) thread->join();
  }
}

absl::StatusOr<std::unique_ptr<Head>> Head::Open(std::unique_ptr<etcd::Client> client,
                                                 std::unique_ptr<ReplicaHome> home,
                                                 Options options) {
  std::unique_ptr<Head> head(new Head(std::move(client), std::move(home), std::move(options)));
  ASSIGN_OR_RETURN(head->replica_, head->home_->Open());
  return head;
}

absl::Status Head::Join() {
  RETURN_IF_ERROR(CheckLog());
  reader_ = PieceReader(replica_->Position());
  {
    std::lock_guard lock(mutex_);
    position_ = replica_->Position();
  }
  RETURN_IF_ERROR(LoadIfBehindSnapshot());
  RETURN_IF_ERROR(TakeName());
  RETURN_IF_ERROR(GrantLease());
  // Who raised the log's format meanwhile did not see this one.
  RETURN_IF_ERROR(CheckLog());
  RETURN_IF_ERROR(Look().status());
  has_joined_ = true;
  return absl::OkStatus();
}

absl::StatusOr<v1::CommitLogMark> Head::ReadOrMakeMark() {
  const std::string key = client_->Key("cluster");
  v1::CommitLogMark made;
  made.set_id(absl::StrFormat("%016x", common::Random64()));
  made.set_format(kLogFormat);
  etcdserverpb::TxnRequest request;
  *request.add_compare() = election::IsAbsent(key);
  etcd::AddPut(request, key, made.SerializeAsString());
  request.add_failure()->mutable_request_range()->set_key(key);
  ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse done, client_->Txn(request, kRpcWithinMs));
  if (done.succeeded()) return made;
  v1::CommitLogMark mark;
  if (done.responses_size() == 1 && done.responses(0).response_range().kvs_size() == 1 &&
      mark.ParseFromString(done.responses(0).response_range().kvs(0).value()) &&
      !mark.id().empty()) {
    return mark;
  }
  return absl::DataLossError(StrCat("the key ", key, " in etcd cannot be read"));
}

absl::Status Head::CheckLog() {
  ASSIGN_OR_RETURN(const v1::CommitLogMark mark, ReadOrMakeMark());
  const std::string state = etcd::TextOf(client_->address());
  if (!mark.moved().empty()) {
    return Unusable(StrCat("the state is no longer at ", state),
                    StrCat("muster-coordinator migrate has moved it to ", mark.moved()),
                    "start the coordinator there, without --state");
  }
  if (mark.format() > kLogFormat) {
    return Unusable(
        StrCat(state, " was written by a newer muster-coordinator"),
        StrCat("its log has format ", mark.format(), ", this one knows up to ", kLogFormat),
        "install the newer version");
  }
  if (replica_->Log() == mark.id()) return absl::OkStatus();
  if (!replica_->Log().empty()) {
    return Unusable(StrCat("the data directory ", options_.data_dir,
                           " belongs to another cluster than ", state),
                    StrCat("it follows the log ", replica_->Log(), ", and that one is ", mark.id()),
                    "name the --state that it was made for, or an empty --data-dir");
  }
  if (!replica_->IsEmpty()) {
    return Unusable(
        StrCat("the data directory ", options_.data_dir, " has jobs or identities of its own"),
        StrCat("it was used without --state, so it is not a copy of ", state),
        "name an empty --data-dir");
  }
  return replica_->Follow(mark.id());
}

// Names tell where checkpoints are, so two coordinators with one name would each count as having the other's.
absl::Status Head::TakeName() {
  etcdserverpb::RangeRequest request;
  request.set_key(client_->Key(StrCat("heads/", options_.self.name())));
  ASSIGN_OR_RETURN(const etcdserverpb::RangeResponse found, client_->Range(request, kRpcWithinMs));
  if (found.kvs_size() == 0) return absl::OkStatus();
  // Of an earlier try to join, which failed after it.
  const std::optional<v1::HeadRecord> there = ReadHead(found.kvs(0));
  if (there.has_value() && there->instance() == options_.self.instance()) return absl::OkStatus();
  return absl::UnavailableError(StrCat(
      "a coordinator is registered as ", options_.self.name(),
      ": if it is an earlier run of this one, its lease will be over in a moment; if not, give "
      "this one another --head"));
}

absl::Status Head::GrantLease() {
  const int64_t sent_ms = common::MonotonicMs();
  ASSIGN_OR_RETURN(const etcd::Client::Lease lease,
                   client_->Grant(options_.lease_ms, kRpcWithinMs));
  {
    std::lock_guard lock(mutex_);
    lease_ = lease.id;
    ttl_ms_ = lease.ttl_ms;
    renewed_sent_ms_ = sent_ms;
  }
  return Register();
}

v1::HeadRecord Head::Self() const {
  v1::HeadRecord self = options_.self;
  std::lock_guard lock(mutex_);
  self.set_position(log_ == nullptr ? position_ : log_->Number());
  return self;
}

absl::Status Head::Register() {
  const v1::HeadRecord self = Self();
  int64_t lease = 0;
  {
    std::lock_guard lock(mutex_);
    lease = lease_;
  }
  etcdserverpb::TxnRequest request;
  etcd::AddPut(request, client_->Key(StrCat("heads/", self.name())), self.SerializeAsString(),
               lease);
  return client_->Txn(request, kRpcWithinMs).status();
}

void Head::Start() {
  follower_ = std::thread([this] {
    if (!KeepJoining()) return;
    keeper_ = std::thread([this] { Keep(); });
    Follow();
  });
}

bool Head::KeepJoining() {
  while (!has_joined_) {
    const absl::Status joined = Join();
    if (joined.ok()) break;
    if (!absl::IsUnavailable(joined) && !absl::IsDeadlineExceeded(joined)) {
      options_.failed(joined);
      return false;
    }
    if (last_trouble_ != joined.message())
      common::LogWarning(StrCat("waiting to register: ", joined.message()));
    last_trouble_ = std::string(joined.message());
    if (!Sleep(kTroublePauseMs)) return false;
  }
  last_trouble_.clear();
  common::LogInfo(StrCat("registered head=", options_.self.name(), " log=", replica_->Log(),
                         " position=", replica_->Position()));
  return true;
}

HeadsView Head::View() const {
  std::lock_guard lock(mutex_);
  return view_;
}

bool Head::Sleep(int64_t ms) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopping_; });
  return !stopping_;
}

// ---------------------------------------------------------------- following

void Head::Follow() {
  do {
    const absl::StatusOr<bool> leads = FollowOnce();
    if (leads.ok() && *leads) return BeginToLead();
    const std::string trouble(leads.status().message());
    if (trouble != std::exchange(last_trouble_, trouble)) {
      trouble.empty() ? common::LogInfo("following the log again")
                      : common::LogWarning(StrCat("not following the log: ", trouble));
    }
    if (absl::IsDataLoss(leads.status()) || absl::IsOutOfRange(leads.status()))
      return options_.failed(leads.status());
  } while (Sleep(last_trouble_.empty() ? kPollMs : kTroublePauseMs));
}

absl::StatusOr<bool> Head::FollowOnce() {
  int64_t lease = 0;
  {
    std::lock_guard lock(mutex_);
    lease = lease_;
  }
  while (true) {
    ASSIGN_OR_RETURN(const bool more, ApplyPage(/*linearizable=*/false));
    if (!more) break;
  }
  etcdserverpb::RangeRequest leader;
  leader.set_key(client_->Key("leader"));
  leader.set_serializable(true);
  ASSIGN_OR_RETURN(const etcdserverpb::RangeResponse found, client_->Range(leader, kRpcWithinMs));
  if (!election::ShouldCampaign(found, options_.self, lease)) return false;
  ASSIGN_OR_RETURN(const bool won, Campaign());
  if (!won) return false;
  RETURN_IF_ERROR(CatchUp());
  return true;
}

absl::StatusOr<bool> Head::ApplyPage(bool linearizable) {
  absl::StatusOr<PieceReader::Page> read = reader_.Read(*client_, linearizable, kRpcWithinMs);
  if (absl::IsOutOfRange(read.status())) {
    ASSIGN_OR_RETURN(const std::optional<v1::SnapshotMark> mark, ReadSnapshotMark(*client_));
    RETURN_IF_ERROR(Load(mark));
    return true;
  }
  RETURN_IF_ERROR(read.status());
  const PieceReader::Page& page = *read;
  for (const PieceReader::Entry& entry : page.entries) {
    if (const absl::Status applied = replica_->Apply(entry.position, entry.changes);
        !applied.ok()) {
      // Otherwise the entry would count as read.
      reader_ = PieceReader(replica_->Position());
      return applied;
    }
    std::lock_guard lock(mutex_);
    position_ = entry.position;
  }
  return page.more;
}

absl::Status Head::Load(const std::optional<v1::SnapshotMark>& mark) {
  if (!mark.has_value() || mark->position() <= replica_->Position()) {
    return absl::DataLossError(StrCat("the log in etcd lacks the entries after ", reader_.number(),
                                      ", and no snapshot has them"));
  }
  ASSIGN_OR_RETURN(const std::string stage, home_->Stage());
  RETURN_IF_ERROR(ReadSnapshot(*client_, *mark, stage));
  const std::string log = replica_->Log();
  replica_.reset();
  const absl::Status replaced = home_->Replace(stage, log, mark->position());
  ASSIGN_OR_RETURN(replica_, home_->Open());
  RETURN_IF_ERROR(replaced);
  reader_ = PieceReader(replica_->Position());
  common::LogInfo(
      StrCat("loaded a snapshot position=", mark->position(), " bytes=", mark->bytes()));
  std::lock_guard lock(mutex_);
  position_ = replica_->Position();
  return absl::OkStatus();
}

absl::StatusOr<bool> Head::Campaign() {
  const std::string key = client_->Key("leader");
  const v1::HeadRecord self = Self();
  election::Lease lease;
  {
    std::lock_guard lock(mutex_);
    lease = {.id = lease_, .ttl_ms = ttl_ms_, .renewed_sent_ms = renewed_sent_ms_};
  }
  if (!election::MayCampaign(lease, common::MonotonicMs())) return false;
  ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse done,
                   client_->Txn(election::CampaignTxn(key, self, lease.id), kRpcWithinMs));
  const std::optional<int64_t> term = election::TermWon(done, self, lease.id);
  if (!term.has_value()) return false;
  std::lock_guard lock(mutex_);
  term_revision_ = term;
  // Not those of a later lease, which the key does not go with.
  term_.Renewed(lease.renewed_sent_ms, lease.ttl_ms);
  return true;
}

// Nothing is added from now on: every leader before compares its own key, which is gone.
absl::Status Head::CatchUp() {
  RETURN_IF_ERROR(LoadIfBehindSnapshot());
  while (true) {
    ASSIGN_OR_RETURN(const bool more, ApplyPage(/*linearizable=*/true));
    if (!more) break;
  }
  ASSIGN_OR_RETURN(const uint64_t end, EndOfLog(*client_, kRpcWithinMs));
  if (end == reader_.number()) return absl::OkStatus();
  return absl::DataLossError(StrCat("the log in etcd ends at ", end, ", and this copy of it at ",
                                    reader_.number(), ": was etcd restored from an older backup?"));
}

// Also of a log without entries: they may all be in the snapshot.
absl::Status Head::LoadIfBehindSnapshot() {
  ASSIGN_OR_RETURN(const std::optional<v1::SnapshotMark> mark, ReadSnapshotMark(*client_));
  if (!mark.has_value() || mark->position() <= reader_.number()) return absl::OkStatus();
  return Load(mark);
}

void Head::BeginToLead() {
  const uint64_t position = replica_->Position();
  const int64_t revision = TermRevision();
  auto log = std::make_unique<EtcdLog>(
      *client_, EtcdLog::Options{.term_revision = revision,
                                 .last_number = reader_.number(),
                                 .term = &term_,
                                 .lost = [this](const absl::Status& why) { Lost(why); }});
  const v1::HeadRecord self = Self();
  {
    std::lock_guard lock(mutex_);
    log_ = std::move(log);
    // The next look would tell, in a moment; who asks meanwhile should not hear that none leads.
    view_.leader = self;
    view_.term = revision;
  }
  leading_ = std::make_unique<Leading>(
      Leading{.term = term_,
              .log = *log_,
              .name = options_.self.name(),
              .http = options_.self.http(),
              .view = [this] { return View(); },
              .changes = [this] { return changes_.load(); },
              .step_down = [this](const absl::Status& why) { Lost(why); }});
  replica_.reset();
  common::LogInfo(
      StrCat("leading head=", options_.self.name(), " position=", position, " term=", revision));
  watcher_ = std::thread([this] { WatchTerm(); });
  shortener_ = std::thread([this] { KeepLogShort(); });
  options_.leads();
}

// ---------------------------------------------------------------- snapshots

void Head::KeepLogShort() {
  while (Sleep(kSnapshotLookedAtMs)) {
    const absl::Status kept = WriteSnapshotIfDue();
    if (!kept.ok()) common::LogWarning(StrCat("no snapshot was written: ", kept.message()));
  }
}

// The cost of a snapshot grows with the state, so the log grows with it before the next one.
absl::Status Head::WriteSnapshotIfDue() {
  if (!snapshot_.has_value()) {
    ASSIGN_OR_RETURN(const std::optional<v1::SnapshotMark> mark, ReadSnapshotMark(*client_));
    snapshot_ = mark.value_or(v1::SnapshotMark());
  }
  const uint64_t grown = log_->Bytes() - bytes_at_snapshot_;
  if (grown < std::max(options_.snapshot_bytes_least, snapshot_->bytes()) &&
      log_->Number() - snapshot_->position() < kPiecesMost) {
    return absl::OkStatus();
  }
  const int64_t revision = TermRevision();
  const uint64_t bytes = log_->Bytes();
  ASSIGN_OR_RETURN(const std::string stage, home_->Stage());
  ASSIGN_OR_RETURN(const uint64_t position, home_->Save(stage));
  const absl::StatusOr<v1::SnapshotMark> written =
      WriteSnapshot(*client_, revision, stage, position);
  home_->Stage().IgnoreError();
  RETURN_IF_ERROR(written.status());
  snapshot_ = *written;
  bytes_at_snapshot_ = bytes;
  common::LogInfo(StrCat("wrote a snapshot position=", position, " bytes=", snapshot_->bytes()));
  return Trim(*client_, revision, *snapshot_, MayBeTrimmedTo(position));
}

// A coordinator that is only a little behind reads on, and needs no snapshot.
uint64_t Head::MayBeTrimmedTo(uint64_t position) const {
  uint64_t number = position;
  for (const v1::HeadRecord& head : View().heads) {
    if (head.name() == options_.self.name()) continue;
    if (head.position() + kPiecesMost >= position) number = std::min(number, head.position());
  }
  return number;
}

int64_t Head::TermRevision() const {
  std::lock_guard lock(mutex_);
  return term_revision_.value_or(0);
}

// ---------------------------------------------------------------- the lease

void Head::Keep() {
  std::string last;
  while (true) {
    int64_t pause = 0;
    {
      std::lock_guard lock(mutex_);
      pause = ttl_ms_ / 5;
    }
    if (!Sleep(pause)) return;
    const absl::Status kept = KeepOnce();
    const std::string trouble(kept.message());
    if (!trouble.empty() && trouble != last) common::LogWarning(StrCat("etcd: ", trouble));
    last = trouble;
  }
}

absl::Status Head::KeepOnce() {
  int64_t lease = 0;
  bool is_leader = false;
  {
    std::lock_guard lock(mutex_);
    lease = lease_;
    is_leader = term_revision_.has_value();
  }
  const int64_t sent_ms = common::MonotonicMs();
  const absl::StatusOr<int64_t> ttl_ms = client_->KeepAlive(lease, kRpcWithinMs);
  if (absl::IsNotFound(ttl_ms.status())) {
    if (is_leader) FoundOver(ttl_ms.status());
    return is_leader ? ttl_ms.status() : GrantLease();
  }
  RETURN_IF_ERROR(ttl_ms.status());
  // etcd before 3.4.38 may renew a lease that was revoked: only the key proves the term.
  ASSIGN_OR_RETURN(const int64_t term, Look());
  if (is_leader && term != TermRevision()) {
    const absl::Status why = absl::AbortedError("another coordinator leads the cluster now");
    FoundOver(why);
    return why;
  }
  {
    std::lock_guard lock(mutex_);
    ttl_ms_ = *ttl_ms;
    renewed_sent_ms_ = sent_ms;
    if (is_leader) term_.Renewed(sent_ms, *ttl_ms);
  }
  // An idle cluster writes nothing.
  return IsRegisteredAsItIs() ? absl::OkStatus() : Register();
}

bool Head::IsRegisteredAsItIs() const {
  const v1::HeadRecord self = Self();
  const HeadsView view = View();
  return std::any_of(view.heads.begin(), view.heads.end(), [&](const v1::HeadRecord& head) {
    return head.instance() == self.instance() && head.position() == self.position();
  });
}

absl::StatusOr<int64_t> Head::Look() {
  etcdserverpb::TxnRequest request;
  request.add_success()->mutable_request_range()->set_key(client_->Key("leader"));
  etcdserverpb::RangeRequest& heads = *request.add_success()->mutable_request_range();
  heads.set_key(client_->Key("heads/"));
  heads.set_range_end(etcd::EndOfPrefix(client_->Key("heads/")));
  heads.set_limit(kHeadsMost);
  ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse done, client_->Txn(request, kRpcWithinMs));
  HeadsView view{.leader = {}, .heads = {}, .seen_ms = common::MonotonicMs()};
  int64_t term = 0;
  for (const etcdserverpb::KeyValue& pair : done.responses(0).response_range().kvs()) {
    term = pair.create_revision();
    if (std::optional<v1::HeadRecord> head = ReadHead(pair)) view.leader = *std::move(head);
  }
  for (const etcdserverpb::KeyValue& pair : done.responses(1).response_range().kvs()) {
    if (std::optional<v1::HeadRecord> head = ReadHead(pair)) view.heads.push_back(*std::move(head));
  }
  view.term = term;
  See(std::move(view));
  return term;
}

void Head::See(HeadsView view) {
  const auto has_same_addresses = [](const v1::HeadRecord& one, const v1::HeadRecord& other) {
    return one.endpoint() == other.endpoint() && one.http() == other.http();
  };
  std::lock_guard lock(mutex_);
  const bool is_same = std::equal(view.heads.begin(), view.heads.end(), view_.heads.begin(),
                                  view_.heads.end(), has_same_addresses);
  if (!is_same) ++changes_;
  view_ = std::move(view);
}

void Head::WatchTerm() {
  while (true) {
    const int64_t left_ms = term_.SureUntilMs() - common::MonotonicMs();
    if (left_ms <= 0)
      return FoundOver(absl::DeadlineExceededError("etcd has not renewed the lease in time"));
    if (!Sleep(left_ms)) return;
  }
}

void Head::FoundOver(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
  Lost(why);
}

void Head::Lost(const absl::Status& why) {
  term_.End();
  options_.lost(why);
}

void Head::Resign() {
  int64_t lease = 0;
  {
    std::lock_guard lock(mutex_);
    lease = lease_;
    stopping_ = true;
  }
  wake_.notify_all();
  term_.End();
  client_->Revoke(lease, kResignWithinMs).IgnoreError();
}

}  // namespace muster::coordinator::heads
