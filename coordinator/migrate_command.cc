#include "coordinator/migrate_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/files/private_directory.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/data_lock.h"
#include "coordinator/base/machine_name.h"
#include "coordinator/care/commands.h"
#include "coordinator/care/kept_apart.h"
#include "coordinator/config/open_stores.h"
#include "coordinator/election/election.h"
#include "coordinator/etcd/requests.h"
#include "coordinator/heads/head.h"
#include "coordinator/heads/snapshot.h"
#include "coordinator/periodic/archive_keeper.h"
#include "coordinator/standing_by.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int64_t kLeaseMs = 600'000;
constexpr int64_t kWithinMs = 10'000;

// ---------------------------------------------------------------- into etcd

class IntoEtcd {
 public:
  IntoEtcd(etcd::Client& client, std::string data_dir, uint64_t state_bytes)
      : client_(client),
        data_dir_(std::move(data_dir)),
        stage_dir_(data_dir_ + "/migrating"),
        state_bytes_(state_bytes) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckSource());
    // First, because it may take longer than a lease.
    absl::Status moved = MakeStage();
    if (moved.ok()) moved = Reserve();
    if (moved.ok()) {
      moved = Move();
      if (!moved.ok()) Undo();
      client_.Revoke(lease_, kWithinMs).IgnoreError();
    }
    RemoveStage();
    return moved;
  }

 private:
  absl::Status CheckSource() {
    if (OpenStateCare(ConfigOf(data_dir_))->IsEmpty())
      return heads::Unusable(StrCat(data_dir_, " has no state to move"), "",
                             "name the data directory of a coordinator");
    ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica,
                     ReplicaHomeOf(ConfigOf(data_dir_))->Open());
    if (replica->Log().empty()) return absl::OkStatus();
    return heads::Unusable(StrCat(data_dir_, " is a copy of a state in etcd"),
                           "it belongs to one of several coordinators",
                           "name a data directory that was used without --state");
  }

  // Takes the name, and the lead, so that no coordinator begins meanwhile.
  absl::Status Reserve() {
    ASSIGN_OR_RETURN(const etcd::Client::Lease lease, client_.Grant(kLeaseMs, kWithinMs));
    lease_ = lease.id;
    v1::HeadRecord self;
    self.set_name("migrate");
    self.set_instance(common::Random64());
    etcdserverpb::TxnRequest request;
    for (const auto& [key, value, of_lease] :
         {std::tuple(client_.Key("cluster"), mark_.SerializeAsString(), int64_t{0}),
          std::tuple(client_.Key("leader"), self.SerializeAsString(), lease_)}) {
      *request.add_compare() = election::IsAbsent(key);
      etcd::AddPut(request, key, value, of_lease);
    }
    ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse done, client_.Txn(request, kWithinMs));
    if (!done.succeeded()) {
      return heads::Unusable(StrCat(etcd::TextOf(client_.address()), " has a state already"), "",
                             "choose another name, behind the last slash");
    }
    revision_ = done.header().revision();
    return absl::OkStatus();
  }

  // The whole state in one file, without a write-ahead log beside it.
  std::string Whole() const { return StrCat(stage_dir_, "/whole.db"); }

  absl::Status MakeStage() {
    mark_.set_id(absl::StrFormat("%016x", common::Random64()));
    mark_.set_format(heads::kLogFormat);
    RETURN_IF_ERROR(common::MakePrivateDirectory(stage_dir_));
    const Config staged = ConfigOf(stage_dir_);
    const std::string file = Paths(stage_dir_).Database();
    unlink(file.c_str());
    RETURN_IF_ERROR(ReplicaHomeOf(ConfigOf(data_dir_))->Save(file).status());
    {
      ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica, ReplicaHomeOf(staged)->Open());
      RETURN_IF_ERROR(replica->Follow(mark_.id()));
      RETURN_IF_ERROR(replica->Apply(OfACopy::kPosition, ""));
    }
    OfACopy first;
    const std::shared_ptr<SharedState> alone = ShareState(ConfigOf(data_dir_));
    const std::shared_ptr<SharedState> among =
        ShareState(staged, {.log = &first, .head = MachineName(), .archive_dir = data_dir_});
    ASSIGN_OR_RETURN(entries_, CopyNotesAndAudit(alone, among));
    ASSIGN_OR_RETURN(const std::unique_ptr<Archive> archive, OpenArchive(among));
    RETURN_IF_ERROR(MoveSurplus(*archive, state_bytes_));
    unlink(Whole().c_str());
    return ReplicaHomeOf(staged)->Save(Whole()).status();
  }

  absl::Status Move() {
    ASSIGN_OR_RETURN(snapshot_,
                     heads::WriteSnapshot(client_, revision_, Whole(), OfACopy::kPosition));
    RETURN_IF_ERROR(Verify());
    return ReplicaHomeOf(ConfigOf(data_dir_))->Replace(Whole(), mark_.id(), OfACopy::kPosition);
  }

  // Reads back what etcd has, and compares what it contains.
  absl::Status Verify() {
    const std::string back_dir = StrCat(stage_dir_, "/back");
    RETURN_IF_ERROR(common::MakePrivateDirectory(back_dir));
    RETURN_IF_ERROR(heads::ReadSnapshot(client_, snapshot_, Paths(back_dir).Database()));
    const auto contents_of = [](const std::string& dir) -> absl::StatusOr<StateContents> {
      std::string damage;
      ASSIGN_OR_RETURN(const StateCare::Checked checked,
                       OpenStateCare(ConfigOf(dir))->Check(false, [&](const Damage& found) {
                         // A mark beside the file is not part of the state.
                         if (found.path != "HIGHWATER") damage = found.what;
                       }));
      if (checked.contents.has_value() && damage.empty()) return *checked.contents;
      return absl::DataLossError(StrCat(dir, ": ", damage));
    };
    ASSIGN_OR_RETURN(const StateContents before, contents_of(data_dir_));
    ASSIGN_OR_RETURN(const StateContents after, contents_of(back_dir));
    if (before.cluster_id != after.cluster_id || before.last_event != after.last_event ||
        before.live_jobs != after.live_jobs || before.finished_jobs != after.finished_jobs) {
      return absl::DataLossError("what etcd returns is not what was written");
    }
    std::printf(
        "moved to %s: event %lu, %lu live and %lu finished jobs, %lu entries of the audit; read "
        "back and compared\n",
        etcd::TextOf(client_.address()).c_str(), after.last_event, after.live_jobs,
        after.finished_jobs, entries_);
    return absl::OkStatus();
  }

  // Leaves nothing that a coordinator would take for a state.
  void Undo() {
    etcdserverpb::TxnRequest request;
    *request.add_compare() = election::IsStillLeader(client_.Key("leader"), revision_);
    for (const std::string prefix : {"snapshot/", "log/"})
      etcd::AddRemoval(request, client_.Key(prefix), etcd::EndOfPrefix(client_.Key(prefix)));
    etcd::AddRemoval(request, client_.Key("cluster"));
    client_.Txn(request, kWithinMs).IgnoreError();
  }

  void RemoveStage() { common::RemoveTree(stage_dir_).IgnoreError(); }

  etcd::Client& client_;
  const std::string data_dir_;
  const std::string stage_dir_;
  const uint64_t state_bytes_;
  int64_t lease_ = 0;
  int64_t revision_ = 0;
  v1::CommitLogMark mark_;
  v1::SnapshotMark snapshot_;
  uint64_t entries_ = 0;
};

// ---------------------------------------------------------------- back

absl::Status TellMoved(etcd::Client& client, const std::string& log, const std::string& to) {
  v1::CommitLogMark mark;
  mark.set_id(log);
  mark.set_format(heads::kLogFormat);
  mark.set_moved(to);
  etcdserverpb::TxnRequest request;
  etcd::AddPut(request, client.Key("cluster"), mark.SerializeAsString());
  return client.Txn(request, kWithinMs).status();
}

absl::Status FromEtcd(const HeadFlags& flags, const std::string& data_dir) {
  ASSIGN_OR_RETURN(std::unique_ptr<etcd::Client> client, etcd::Client::Make(AccessOf(flags)));
  v1::HeadRecord self;
  self.set_name("migrate");
  self.set_format(heads::kLogFormat);
  std::promise<absl::Status> led;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<heads::Head> head,
      heads::Head::Open(std::move(client), ReplicaHomeOf(ConfigOf(data_dir)),
                        {.self = self,
                         .lease_ms = kLeaseMs,
                         .data_dir = data_dir,
                         .leads = [&led] { led.set_value(absl::OkStatus()); },
                         .failed = [&led](const absl::Status& why) { led.set_value(why); },
                         .lost =
                             [](const absl::Status& why) {
                               std::fprintf(stderr, "muster-coordinator migrate: %s\n",
                                            common::MessageOf(why).c_str());
                               _exit(1);
                             }}));
  RETURN_IF_ERROR(head->Join());
  for (const v1::HeadRecord& other : head->View().heads) {
    if (other.name() == self.name()) continue;
    head->Resign();
    return heads::Unusable(StrCat("the coordinator ", other.name(), " runs on ", flags.state), "",
                           "stop all of them, and wait until their leases are over");
  }
  head->Start();
  absl::Status moved = led.get_future().get();
  const std::unique_ptr<ReplicaHome> home = ReplicaHomeOf(ConfigOf(data_dir));
  if (moved.ok()) {
    OfACopy nothing;
    const std::shared_ptr<SharedState> among = ShareState(ConfigOf(data_dir), {.log = &nothing});
    ASSIGN_OR_RETURN(const std::unique_ptr<Archive> archive, OpenArchive(among));
    moved = archive->CheckAllHere();
    if (moved.ok()) moved = CopyNotesAndAudit(among, ShareState(ConfigOf(data_dir))).status();
  }
  if (moved.ok()) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica, home->Open());
    const std::string log = replica->Log();
    // First there: two places that both seem to have it would be worse than none.
    ASSIGN_OR_RETURN(const std::unique_ptr<etcd::Client> again,
                     etcd::Client::Make(AccessOf(flags)));
    moved = TellMoved(*again, log, data_dir);
    if (moved.ok()) moved = replica->Leave();
  }
  head->Resign();
  if (!moved.ok()) return moved;
  ASSIGN_OR_RETURN(const StateCare::Checked checked,
                   OpenStateCare(ConfigOf(data_dir))->Check(false, [](const Damage&) {}));
  if (!checked.contents.has_value())
    return absl::DataLossError(StrCat("what was moved to ", data_dir, " cannot be read"));
  std::printf("moved to %s: event %lu, %lu live and %lu finished jobs\n", data_dir.c_str(),
              checked.contents->last_event, checked.contents->live_jobs,
              checked.contents->finished_jobs);
  return absl::OkStatus();
}

absl::Status Migrate(const std::string& from, const std::string& to, HeadFlags flags) {
  const bool into = to.starts_with("etcd");
  if (into == from.starts_with("etcd"))
    return heads::Unusable(
        "one of --from and --to must be a data directory, the other one etcd://…", "", "");
  flags.state = into ? to : from;
  if (const std::string wrong = WhatIsWrongWithEtcd(flags); !wrong.empty())
    return absl::InvalidArgumentError(wrong);
  const std::string& data_dir = into ? from : to;
  if (into && !common::Exists(data_dir))
    return heads::Unusable(StrCat("there is no data directory ", data_dir), "", "");
  RETURN_IF_ERROR(common::MakePrivateDirectory(data_dir));
  ASSIGN_OR_RETURN(const common::UniqueFd lock,
                   LockDataDirectory(Paths(data_dir).Lock(), std::chrono::milliseconds(0)));
  if (!into) return FromEtcd(flags, data_dir);
  ASSIGN_OR_RETURN(const std::unique_ptr<etcd::Client> client, etcd::Client::Make(AccessOf(flags)));
  return IntoEtcd(*client, data_dir, flags.state_bytes).Run();
}

}  // namespace

std::optional<int> RunMigrateCommand(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "migrate") return std::nullopt;
  std::string from, to;
  HeadFlags flags;
  CLI::App app(
      "move the state of a stopped coordinator into etcd, for several that replace each other, or "
      "back",
      "muster-coordinator migrate");
  app.add_option("--from", from, "where it is: a data directory, or etcd://h1:2379,…/NAME")
      ->required();
  app.add_option("--to", to, "where it goes; the other of the two")->required();
  AddArchiveFlag(app, flags);
  AddEtcdFlags(app, flags);
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr,
                 "muster-coordinator migrate: %s\n  fix: muster-coordinator migrate --help lists "
                 "its flags\n",
                 error.what());
    return kUsageExit;
  }
  umask(0077);
  absl::Status moved = Migrate(from, to, flags);
  if (moved.ok()) return 0;
  moved = UnusableState(from.starts_with("etcd") ? from : to, moved);
  std::fprintf(stderr, "muster-coordinator migrate: %s\n",
               common::Readable(common::ProblemOf(moved)).c_str());
  return 1;
}

}  // namespace muster::coordinator
