#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <iterator>

#include "common/hash/sha256.h"
#include "tests/worker/daemon_fixture.h"
#include "worker/checkpoints/arriving_files.h"
#include "worker/checkpoints/peer_server.h"

namespace muster::worker {
namespace {

// Writes `count` numbered lines, with a short pause after every tenth.
std::string NumberedLines(int count) {
  return "i=0; while [ $i -lt " + std::to_string(count) +
         " ]; do echo \"rank $RANK line $i\"; i=$((i+1)); "
         "[ $((i % 10)) = 0 ] && sleep 0.01; done; exit 0";
}
std::string FirstMachineId() {
  std::ifstream file("/etc/machine-id");
  std::string line;
  std::getline(file, line);
  return line;
}
std::string ExpectedLines(int rank, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "rank " + std::to_string(rank) + " line " + std::to_string(i) + "\n";
  }
  return text;
}

TEST_F(DaemonTest, OutputAndExitCodesOfEveryRankArriveExactly) {
  StartWorker();
  Launch(ShellLaunch(7, 0, "printf 'out %s\\0x' $RANK; echo err >&2; exit $((RANK*7))", 2));
  ASSERT_TRUE(WaitPhase(7, 0, v1::ATTEMPT_PHASE_ENDED)) << WorkerLog();
  ASSERT_TRUE(WaitDrained(7, 0)) << WorkerLog();
  EXPECT_EQ(Stdout(7, 0, 0), std::string("out 0\0x", 7));
  EXPECT_EQ(Stdout(7, 0, 1), std::string("out 1\0x", 7));
  const auto status = Status(7, 0);
  ASSERT_EQ(status.exits_size(), 2);
  for (const auto& exit : status.exits()) {
    EXPECT_EQ(exit.exit_code(), static_cast<int>(exit.rank()) * 7);
    EXPECT_EQ(exit.last_lines(), exit.rank() == 1 ? "err\n" : "");
  }
  EXPECT_EQ(status.how_ended(), "empty");
  for (const auto& [key, log] : coordinator_.logs) EXPECT_TRUE(log.ended);
  EXPECT_TRUE(coordinator_.complaints.empty());

  v1::CoordinatorMessage forget;
  forget.mutable_forget()->set_job(7);
  coordinator_.Send(forget);
  const uint64_t beats = coordinator_.heartbeats;
  coordinator_.Wait(
      [&] { return coordinator_.heartbeats > beats + 1 && !fs::exists(AttemptDir(7, 0)); });
  EXPECT_FALSE(fs::exists(AttemptDir(7, 0)));
}

TEST_F(DaemonTest, AWorkerWithoutItsStateRegistersOnlyWhenNothingOlderIsAlive) {
  StartWorker();
  const std::string pids = directory_ + "/pids";
  Launch(ShellLaunch(7, 0, "trap '' TERM; echo $$ >> " + pids + "; while :; do sleep 1; done", 2));
  ASSERT_TRUE(WaitPhase(7, 0, v1::ATTEMPT_PHASE_RUNNING)) << WorkerLog();
  std::vector<pid_t> ranks;
  ASSERT_TRUE(coordinator_.Wait([&] {
    std::istringstream lines(ReadAll(pids));
    ranks.assign(std::istream_iterator<pid_t>(lines), {});
    return ranks.size() == 2;
  }));
  KillWorker(SIGKILL);
  fs::remove_all(StateDir());
  StartWorker();
  // They are killed once it is accepted, before it reports that the host is clear.
  ASSERT_TRUE(coordinator_.Wait([&] { return coordinator_.cleared == 2; })) << WorkerLog();
  for (const pid_t rank : ranks) EXPECT_FALSE(Alive(rank)) << rank;
  coordinator_.statuses.clear();  // its end will not be reported
}

TEST_F(DaemonTest, AnAttemptThatItsWorkerDidNotGetToStartMayBeTriedAgain) {
  fs::create_directories(AttemptDir(7, 0));
  std::ofstream(AttemptDir(7, 0) + "/launch.pb", std::ios::binary)
      << ShellLaunch(7, 0, "exit 0", 1).SerializeAsString();
  std::ofstream(StateDir() + "/identity")
      << "incarnation=1\nepoch=0\nboot_id=" << ReadAll("/proc/sys/kernel/random/boot_id")
      << "machine_id=" << FirstMachineId() << "\n";
  StartWorker();
  ASSERT_EQ(coordinator_.registrations.back().attempts_size(), 1);
  ASSERT_TRUE(WaitPhase(7, 0, v1::ATTEMPT_PHASE_ENDED)) << WorkerLog();
  const v1::AttemptStatus status = Status(7, 0);
  EXPECT_EQ(status.failure_cause(), v1::STOP_CAUSE_LAUNCH_INTERRUPTED) << status.failure();
}

TEST_F(DaemonTest, PortsThatAnOlderCoordinatorDidNotAskForAreLeasedAtTheLaunch) {
  StartWorker();
  auto launch = ShellLaunch(7, 0, "echo $HCCL_IF_BASE_PORT", 1);
  launch.mutable_part()->set_device_kind("npu");
  Launch(launch);
  ASSERT_TRUE(WaitDrained(7, 0)) << WorkerLog();
  const int port = std::atoi(Stdout(7, 0, 0).c_str());
  EXPECT_TRUE(port >= 60'000 && port <= 65'504 && port % 32 == 0) << Stdout(7, 0, 0);
}

TEST_F(DaemonTest, MissingCommandIsExitCode127WithASentence) {
  StartWorker();
  auto launch = ShellLaunch(7, 0, "", 2);
  launch.mutable_spec()->clear_command();
  launch.mutable_spec()->add_command("no-such-program");
  Launch(launch);
  ASSERT_TRUE(WaitPhase(7, 0, v1::ATTEMPT_PHASE_ENDED)) << WorkerLog();
  const auto status = Status(7, 0);
  EXPECT_EQ(status.failure_cause(), v1::STOP_CAUSE_LAUNCH_FAILED);
  ASSERT_GE(status.exits_size(), 1);
  EXPECT_EQ(status.exits(0).exit_code(), 127);
  EXPECT_NE(status.failure().find("no-such-program"), std::string::npos);
  EXPECT_TRUE(WaitDrained(7, 0));
}

TEST_F(DaemonTest, KilledWorkerAdoptsItsRanksAndNoByteIsLost) {
  StartWorker();
  Launch(ShellLaunch(7, 0, NumberedLines(1'000), 2));
  ASSERT_TRUE(coordinator_.Wait([&] { return Stdout(7, 0, 1).size() > 4'000; })) << WorkerLog();
  KillWorker(SIGKILL);
  StartWorker();
  const auto registration = coordinator_.registrations.back();
  ASSERT_EQ(registration.attempts_size(), 1);
  EXPECT_NE(registration.attempts(0).phase(), v1::ATTEMPT_PHASE_ENDED);
  EXPECT_EQ(registration.facts().incarnation(),
            coordinator_.registrations.front().facts().incarnation());
  ASSERT_TRUE(WaitDrained(7, 0)) << WorkerLog();
  for (int rank : {0, 1}) EXPECT_EQ(Stdout(7, 0, rank), ExpectedLines(rank, 1'000));
  EXPECT_EQ(Status(7, 0).exits_size(), 2);
  EXPECT_TRUE(coordinator_.complaints.empty());
}

TEST_F(DaemonTest, RanksThatEndedWithoutAWorkerAreReportedWhenItReturns) {
  StartWorker();
  Launch(ShellLaunch(7, 0, "echo begin; sleep 0.5; echo end; exit 5", 1));
  ASSERT_TRUE(WaitPhase(7, 0, v1::ATTEMPT_PHASE_RUNNING)) << WorkerLog();
  KillWorker(SIGKILL);
  // The shim holds this lock exactly while it is alive.
  const int launch_file = open((AttemptDir(7, 0) + "/shim.launch").c_str(), O_RDONLY);
  flock(launch_file, LOCK_SH);
  close(launch_file);
  StartWorker();
  ASSERT_TRUE(WaitDrained(7, 0)) << WorkerLog();
  EXPECT_EQ(Status(7, 0).phase(), v1::ATTEMPT_PHASE_ENDED);
  ASSERT_EQ(Status(7, 0).exits_size(), 1);
  EXPECT_EQ(Status(7, 0).exits(0).exit_code(), 5);
  EXPECT_EQ(Stdout(7, 0, 0), "begin\nend\n");
}

TEST_F(DaemonTest, CoordinatorRestartLosesAndRepeatsNothing) {
  StartWorker();
  Launch(ShellLaunch(7, 0, NumberedLines(1'000), 1));
  ASSERT_TRUE(coordinator_.Wait([&] { return Stdout(7, 0, 0).size() > 4'000; })) << WorkerLog();
  coordinator_.Stop();
  coordinator_.epoch = 2;
  coordinator_.Start();
  ASSERT_TRUE(WaitDrained(7, 0)) << WorkerLog();
  EXPECT_EQ(Stdout(7, 0, 0), ExpectedLines(0, 1'000));
  EXPECT_EQ(coordinator_.registrations.back().highest_epoch(), 1u);
}

TEST_F(DaemonTest, StopKillsWhatIgnoresSigtermAndWhatLeftTheSession) {
  StartWorker();
  Launch(
      ShellLaunch(7, 0, "trap '' TERM; setsid sleep 987 & echo $!; while :; do sleep 1; done", 1));
  ASSERT_TRUE(coordinator_.Wait([&] { return !Stdout(7, 0, 0).empty(); })) << WorkerLog();
  const pid_t escaped = atoi(Stdout(7, 0, 0).c_str());
  Stop(7, 0, 200);
  ASSERT_TRUE(WaitPhase(7, 0, v1::ATTEMPT_PHASE_ENDED)) << WorkerLog();
  EXPECT_EQ(Status(7, 0).exits(0).signal(), SIGKILL);
  EXPECT_TRUE(Status(7, 0).exits(0).stopped_by_us());
  EXPECT_FALSE(Alive(escaped));
}

TEST_F(DaemonTest, KilledShimEndsTheAttemptAsSupervisorLost) {
  StartWorker();
  Launch(ShellLaunch(7, 0, "echo $PPID $$; sleep 987", 1));
  ASSERT_TRUE(coordinator_.Wait([&] { return !Stdout(7, 0, 0).empty(); })) << WorkerLog();
  int shim = 0, rank = 0;
  ASSERT_EQ(sscanf(Stdout(7, 0, 0).c_str(), "%d %d", &shim, &rank), 2);
  kill(shim, SIGKILL);
  ASSERT_TRUE(WaitPhase(7, 0, v1::ATTEMPT_PHASE_ENDED)) << WorkerLog();
  EXPECT_EQ(Status(7, 0).failure_cause(), v1::STOP_CAUSE_SUPERVISOR_LOST);
  EXPECT_FALSE(Alive(rank));
  EXPECT_TRUE(WaitDrained(7, 0)) << WorkerLog();
}

TEST_F(DaemonTest, CheckpointIsUploadedAndGivenToTheNextAttempt) {
  StartWorker();
  Launch(ShellLaunch(7, 0,
                     "cd $MUSTER_CHECKPOINT_DIR; mkdir -p step-3.tmp/sub; "
                     "head -c 3000000 /dev/zero > step-3.tmp/model; echo hi > step-3.tmp/sub/a; "
                     "mv step-3.tmp step-3",
                     1));
  ASSERT_TRUE(coordinator_.Wait([&] { return coordinator_.parts.size() == 1; })) << WorkerLog();
  const auto part = coordinator_.parts[0];
  ASSERT_EQ(part.files_size(), 2);
  EXPECT_EQ(part.step(), 3);
  EXPECT_EQ(part.files(0).path(), "model");
  EXPECT_EQ(part.files(1).path(), "sub/a");
  EXPECT_EQ(part.files(1).sha256(), common::Sha256Hex("hi\n"));
  ASSERT_TRUE(coordinator_.Wait([&] {
    return Status(7, 0).phase() == v1::ATTEMPT_PHASE_ENDED && !Status(7, 0).checkpoints_pending();
  })) << WorkerLog();

  // Another job, so nothing local is tried first; the rank itself then compares the bytes.
  auto next =
      ShellLaunch(8, 1, "cat $MUSTER_RESUME_FROM/sub/a; wc -c < $MUSTER_RESUME_FROM/model", 1);
  next.set_resume_step(3);
  *next.mutable_resume_files() = part.files();
  fs::remove_all(AttemptDir(7, 0) + "/checkpoints");
  Launch(next);
  ASSERT_TRUE(WaitDrained(8, 1)) << WorkerLog();
  EXPECT_EQ(Stdout(8, 1, 0), "hi\n3000000\n");
}

// Another node of the attempt, which the test plays, has the checkpoint's file, or sends other bytes, or none.
TEST_F(DaemonTest, AFileComesFromAnotherNodeOrInSpiteOfIt) {
  StartWorker();
  const std::string bytes = std::string(2 << 20, 'a') + "end";
  const std::string hash = common::Sha256Hex(bytes);
  const auto resume = [&](uint64_t job, const std::string& has, bool is_there) {
    const auto arriving = std::make_shared<ArrivingFiles>(10);
    auto server = PeerServer::Start(PortRange{}, arriving);
    const common::UniqueFd file(memfd_create("file", MFD_CLOEXEC));
    EXPECT_TRUE(common::WriteAll(file.get(), has).ok());
    arriving->Begin(hash, bytes.size(), file.get());
    arriving->Advance(hash, has.size());
    arriving->End();
    v1::CheckpointFiles list;
    v1::CheckpointFile* only = list.add_files();
    only->set_path("model");
    only->set_size(bytes.size());
    only->set_sha256(hash);
    list.mutable_from()->set_address("127.0.0.1");
    list.mutable_from()->set_port(server->port());
    list.mutable_from()->set_secret(server->secret());
    if (!is_there) server = nullptr;
    coordinator_.Wait([&] {  // with its lock
      coordinator_.resume_files = list;
      return true;
    });
    auto launch = ShellLaunch(job, 1, "sha256sum < $MUSTER_RESUME_FROM/model", 1);
    launch.set_resume_step(3);
    launch.set_resume_file_count(1);
    launch.set_gang_spans_nodes(true);
    launch.mutable_part()->set_group_rank(5);
    Launch(launch);
    EXPECT_TRUE(WaitDrained(job, 1)) << WorkerLog();
    EXPECT_EQ(Stdout(job, 1, 0).substr(0, 64), hash) << WorkerLog();
    EXPECT_EQ(coordinator_.listed.group_rank(), 5u);
    EXPECT_GT(coordinator_.listed.serves_port(), 0u);
    EXPECT_EQ(coordinator_.listed.serves_secret().size(), 32u);
    fs::remove_all(AttemptDir(job, 1) + "/resume");  // the next one is not to find it here
  };
  resume(8, bytes, true);  // the coordinator has none
  coordinator_.Wait([&] {
    coordinator_.blobs[hash] = bytes;
    return true;
  });
  resume(9, bytes.substr(0, 1'500'000), true);
  std::string changed = bytes;
  changed.back() = 'x';
  resume(10, changed, true);
  resume(11, bytes, false);
}

TEST_F(DaemonTest, SymbolicLinkInACheckpointIsRefusedAndTheJobGoesOn) {
  StartWorker();
  Launch(ShellLaunch(7, 0,
                     "cd $MUSTER_CHECKPOINT_DIR; mkdir s; ln -s /etc/passwd s/x; mv s step-1; "
                     "sleep 0.8; echo alive",
                     1));
  ASSERT_TRUE(coordinator_.Wait([&] { return !Status(7, 0).checkpoint_error().empty(); }))
      << WorkerLog();
  EXPECT_NE(Status(7, 0).checkpoint_error().find("x is a symbolic link"), std::string::npos);
  ASSERT_TRUE(WaitDrained(7, 0));
  EXPECT_EQ(Stdout(7, 0, 0), "alive\n");
  EXPECT_TRUE(coordinator_.blobs.empty());
}

TEST_F(DaemonTest, TrainerSocketMetricsArriveOnceAndGarbageIsAnswered) {
  StartWorker();
  const std::string program = R"(
import json, os, socket
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["MUSTER_SOCKET"]); f = s.makefile("rw")
def say(line): f.write(line + "\n"); f.flush(); return f.readline().strip()
print(say("garbage"))
print(say(json.dumps({"type": "hello", "version": 1, "job": 7, "attempt": 0, "rank": 0, "pid": 1})))
points = [{"name": "loss", "step": 1, "value": 0.5, "time_ms": 1}, {"name": "x", "step": 1, "value": "NaN"}]
batch = json.dumps({"type": "metrics", "seq": 1, "points": points})
print(say(batch)); print(say(batch))
f.write(json.dumps({"type": "metrics", "seq": 2, "points": points[:1]}) + "\n"); f.flush()
)";
  auto launch = ShellLaunch(7, 0, "", 1);
  launch.mutable_spec()->clear_command();
  for (const std::string& word : {std::string("python3"), std::string("-c"), program}) {
    launch.mutable_spec()->add_command(word);
  }
  Launch(launch);
  ASSERT_TRUE(WaitDrained(7, 0)) << WorkerLog();
  EXPECT_EQ(Stdout(7, 0, 0),
            "{\"message\":\"this line is not JSON\",\"type\":\"error\"}\n"
            "{\"metrics_seq\":0,\"type\":\"welcome\",\"version\":1}\n"
            "{\"metrics_seq\":1,\"type\":\"ack\"}\n"
            "{\"metrics_seq\":1,\"type\":\"ack\"}\n");
  ASSERT_EQ(coordinator_.points.size(), 3u);
  EXPECT_EQ(coordinator_.points[0].name(), "loss");
  EXPECT_EQ(coordinator_.points[0].value(), 0.5);
}

TEST_F(DaemonTest, SecondWorkerOnTheSameStateDirectoryIsRefused) {
  StartWorker();
  pid_t second = -1;
  ASSERT_EQ(SpawnWorker(&second, directory_ + "/second.log"), 0);
  int status = 0;
  waitpid(second, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_NE(ReadAll(directory_ + "/second.log").find("locked by another process"),
            std::string::npos);
}

TEST_F(DaemonTest, ALogThatMayNotGrowStopsNoWorker) {
  const std::string log = directory_ + "/worker.log";
  const std::string old_lines(128 << 10, 'x');
  std::ofstream(log) << old_lines;
  rlimit unlimited{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  const rlimit tight{.rlim_cur = 64 << 10, .rlim_max = unlimited.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);  // as the worker inherits it
  StartWorker();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
  Launch(ShellLaunch(7, 0, "echo it runs", 1));
  ASSERT_TRUE(WaitDrained(7, 0));
  EXPECT_EQ(Stdout(7, 0, 0), "it runs\n");
  EXPECT_EQ(WorkerLog().size(), old_lines.size());
}

TEST_F(DaemonTest, SigtermLeavesTheRanksRunning) {
  StartWorker();
  Launch(ShellLaunch(7, 0, "echo $$; sleep 987", 1));
  ASSERT_TRUE(coordinator_.Wait([&] { return !Stdout(7, 0, 0).empty(); })) << WorkerLog();
  const int status = KillWorker(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WorkerLog();
  EXPECT_EQ(kill(atoi(Stdout(7, 0, 0).c_str()), 0), 0);
  StartWorker();
}

}  // namespace
}  // namespace muster::worker
