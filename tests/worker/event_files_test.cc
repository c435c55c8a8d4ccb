// To whom event files belong: what existed before, what grows or appears, which process can be
// asked.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/hash/crc32c.h"
#include "worker/events/event_ledger.h"
#include "worker/events/event_tailer.h"
#include "worker/events/event_writer.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;

// One scalar "a" whose value is the step.
std::string Record(char step) {
  const std::string body =
      std::string("\x10") + step + std::string("\x2a\x0a\x0a\x08\x0a\x01\x61\x15\0\0\0\0", 12);
  const uint64_t size = body.size();
  const std::string head(reinterpret_cast<const char*>(&size), sizeof size);
  const auto sum = [](const std::string& bytes) {
    const uint32_t crc = common::MaskedCrc32c(bytes);
    return std::string(reinterpret_cast<const char*>(&crc), sizeof crc);
  };
  return head + sum(head) + body + sum(body);
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string NameOf(int64_t pid) {
  return "runs/events.out.tfevents.1700000000." + HostName() + "." + std::to_string(pid) + ".0";
}

constexpr char kMark[] = "7-0-00000000000000aa-tag";
constexpr char kOther[] = "8-0-00000000000000bb-tag";
constexpr int64_t kNobody = 4'194'303;  // the highest possible pid, almost never in use

class EventFilesTest : public ::testing::Test {
 protected:
  EventFilesTest() {
    char name[] = "/tmp/me-XXXXXX";
    directory_ = mkdtemp(name);
    fs::create_directories(directory_ + "/runs");
  }
  ~EventFilesTest() override {
    for (const pid_t child : children_) {
      kill(-child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    fs::remove_all(directory_);
  }
  std::string Path(const std::string& name) { return directory_ + "/" + name; }
  void Write(const std::string& name, const std::string& bytes, bool append = true) {
    std::ofstream(Path(name), append ? std::ios::app : std::ios::trunc) << bytes;
  }
  void Note(const char* mark = kMark) {
    ASSERT_TRUE(NoteEventFiles(Path("ledger"), mark, Roots()).ok());
  }
  // Until a file that is made now is younger than this one: times of files stand still for milliseconds.
  void AwaitTick(const std::string& path) {
    EventFile old{{}, path, "", true, 0, false}, young{{}, Path("tick"), "", true, 0, false};
    ASSERT_TRUE(muster::worker::Look(&old));
    do {
      fs::remove(young.path);
      Write("tick", "");
      ASSERT_TRUE(muster::worker::Look(&young));
    } while (young.id.born_us <= old.id.born_us);
  }
  std::vector<TailRoot> Roots() { return {{Path("runs"), "runs/", true}}; }
  // A worker starts or restarts: it knows what it has sent.
  void Begin(bool sole = true) {
    EventTailer::Callbacks callbacks;
    callbacks.known = [this](const std::string& source) {
      const auto found = sent_.find(source);
      return found == sent_.end() ? std::pair<uint64_t, int64_t>(0, -1)
                                  : std::pair<uint64_t, int64_t>(found->second, 0);
    };
    callbacks.batch = [this](uint32_t, v1::MetricBatch batch) {
      for (const v1::MetricPoint& point : batch.points()) steps_.push_back(point.step());
      EXPECT_GT(batch.seq(), sent_[batch.source()]);
      sent_[batch.source()] = batch.seq();
      return true;
    };
    callbacks.note = [this](const std::string& line) { notes_ += line + "\n"; };
    tailer_.emplace(EventTailer::Setup{{7, 0}, Roots(), Path("ledger"), 0, sole, directory_},
                    std::move(callbacks));
  }
  // The steps that arrived since the last call.
  std::vector<int64_t> Look(bool final = false) {
    for (int i = 0; tailer_->Scan(final) && i < 10; ++i) {
    }
    return std::exchange(steps_, {});
  }
  // A process with this mark (empty: none) that runs `script` in a shell.
  pid_t Start(const std::string& mark, const std::string& script) {
    const std::string variable = "MUSTER_ATTEMPT_MARK=" + mark;
    std::vector<char*> env;
    if (!mark.empty()) env.push_back(const_cast<char*>(variable.c_str()));
    env.push_back(nullptr);
    const char* argv[] = {"/bin/sh", "-c", script.c_str(), nullptr};
    // A separate process group that ends with the test, including what the shell starts.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t child = 0;
    EXPECT_EQ(
        posix_spawn(&child, argv[0], nullptr, &attributes, const_cast<char**>(argv), env.data()),
        0);
    posix_spawnattr_destroy(&attributes);
    children_.push_back(child);
    return child;
  }
  using Steps = std::vector<int64_t>;
  std::string directory_;
  std::optional<EventTailer> tailer_;
  std::map<std::string, uint64_t> sent_;
  Steps steps_;
  std::string notes_;
  std::vector<pid_t> children_;
};

TEST_F(EventFilesTest, TheNameOfAFileTellsHostAndProcess) {
  const struct {
    const char* name;
    const char* host;
    int64_t pid;
  } cases[] = {
      {"events.out.tfevents.1700000000.my.host.4711.0", "my.host", 4711},
      {"events.out.tfevents.1700000000.host.4711.12.v2", "host", 4711},
      {"events.out.tfevents.1700000000.host", "host", 0},
      {"events.out.tfevents.1700000000.10.0.0.7.4711.0", "10.0.0.7", 4711},
      {"events.out.tfevents.mine", "", 0},
      {"one.tfevents", "", 0},
      {"", "", 0},
  };
  for (const auto& item : cases) {
    const WriterName writer = WriterIn(item.name);
    EXPECT_EQ(writer.host, item.host) << item.name;
    EXPECT_EQ(writer.pid, item.pid) << item.name;
  }
  EXPECT_TRUE(IsOfHost({"node-a", 7}, "node-a"));
  EXPECT_TRUE(IsOfHost({"node-a.train", 0}, "node-a"));  // tensorboardX with a suffix
  EXPECT_FALSE(IsOfHost({"node-b", 7}, "node-a"));
}

TEST_F(EventFilesTest, WhatLayThereDoesNotCountAndWhatIsAppendedCountsFromTheNextRecord) {
  const std::string third = Record(3);
  Write("runs/a.tfevents", Record(1) + Record(2) + third.substr(0, 20));
  Write("runs/b.tfevents", Record(4));
  Note();
  Begin();
  EXPECT_EQ(Look(), Steps());
  Write("runs/a.tfevents", third.substr(20) + Record(5).substr(0, 9));
  EXPECT_EQ(Look(), Steps());
  Write("runs/a.tfevents", Record(5).substr(9));
  Write("runs/b.tfevents", Record(6));
  Write("runs/c.tfevents", Record(7));
  Steps steps = Look();  // of several files in the order of their directory
  std::sort(steps.begin(), steps.end());
  EXPECT_EQ(steps, Steps({5, 6, 7}));
  Begin();
  EXPECT_EQ(Look(), Steps());
  Write("runs/c.tfevents", Record(8));
  EXPECT_EQ(Look(), Steps({8}));
}

TEST_F(EventFilesTest, AFileThatIsReplacedOrCutBeginsAgain) {
  Write("runs/a.tfevents", Record(1) + Record(2));
  Write("runs/b.tfevents", Record(3) + Record(4));
  Note();
  Begin();
  fs::remove(Path("runs/a.tfevents"));
  Write("runs/b.tfevents", Record(5), /*append=*/false);
  Write("runs/a.tfevents", Record(6) + Record(7) + Record(8));
  Steps steps = Look();
  std::sort(steps.begin(), steps.end());
  EXPECT_EQ(steps, Steps({5, 6, 7, 8}));
  fs::rename(Path("runs/a.tfevents"), Path("runs/renamed.tfevents"));
  EXPECT_EQ(Look(), Steps());
  Write("runs/renamed.tfevents", Record(9), /*append=*/false);
  EXPECT_EQ(Look(), Steps({9}));
  Begin();
  EXPECT_EQ(Look(), Steps());
  Write("runs/renamed.tfevents", Record(10));
  EXPECT_EQ(Look(), Steps({10}));
}

TEST_F(EventFilesTest, ADeadWriterCountsWhenItWasARankOrNobodyElseCanHaveBeenIt) {
  Note();
  Begin();
  tailer_->SetPid(0, kNobody);
  tailer_->SetRivals({kNobody - 1}, /*crowded=*/true);
  Write(NameOf(kNobody), Record(1));
  Write(NameOf(kNobody - 1), Record(2));
  Write(NameOf(kNobody - 2), Record(3));
  EXPECT_EQ(Look(), Steps({1}));
  EXPECT_NE(notes_.find("event file not counted"), std::string::npos) << notes_;
  Begin();  // and it stays so, although no other attempt is left
  Write(NameOf(kNobody - 3), Record(4));
  Write("runs/events.out.tfevents.1700000000.elsewhere.7.0", Record(5));
  EXPECT_EQ(Look(), Steps({4}));
}

TEST_F(EventFilesTest, ARivalThatWasThereBetweenTwoLooksIsRemembered) {
  Note();
  Begin();
  Write(NameOf(kNobody), Record(1));
  EXPECT_TRUE(tailer_->Scan());
  tailer_->SetRivals({kNobody}, true);
  EXPECT_EQ(Look(), Steps());
}

TEST_F(EventFilesTest, OfAnAttemptOnSeveralNodesOnlyWhatIsSurelyThisNodesCounts) {
  Note();
  Begin(/*sole=*/false);
  tailer_->SetPid(0, kNobody);
  Write(NameOf(kNobody), Record(1));
  Write(NameOf(kNobody - 1), Record(2));
  Write("runs/nameless.tfevents", Record(3));
  EXPECT_EQ(Look(), Steps({1}));
}

TEST_F(EventFilesTest, ALivingWriterIsAskedForItsMark) {
  Note();
  Begin();
  // Each has a child without the mark, as with `env -i`.
  const pid_t ours = Start(kMark, "sleep 100 & wait");
  const pid_t others = Start(kOther, "sleep 100 & wait");
  const pid_t nobodys = Start("", "sleep 100 & wait");
  Write(NameOf(ours), Record(1));
  Write(NameOf(others), Record(2));
  Write(NameOf(nobodys), Record(3));
  EXPECT_EQ(Look(), Steps({1}));
}

TEST_F(EventFilesTest, ALivingProcessThatHasTheFileOpenIsAskedForItsMark) {
  Note();
  Begin();
  ASSERT_EQ(mkfifo(Path("told").c_str(), 0600), 0);
  const auto hold = [&](const char* mark, const std::string& name) {
    Start(mark, "exec 3>>" + Path(name) + "; echo >" + Path("told") + "; env -i sleep 100");
    std::ifstream(Path("told")).get();
  };
  hold(kMark, "runs/ours.tfevents");
  hold(kOther, "runs/others.tfevents");
  hold("", "runs/nobodys.tfevents");
  tailer_->SetRivals({}, /*crowded=*/true);
  Write("runs/ours.tfevents", Record(1));
  Write("runs/others.tfevents", Record(2));
  Write("runs/nobodys.tfevents", Record(3));
  EXPECT_EQ(Look(), Steps({1}));
}

TEST_F(EventFilesTest, WithoutANoteOfWhatLayThereOnlyWhatIsKnownGoesOn) {
  Write("runs/a.tfevents", Record(1) + Record(2));
  Write("runs/b.tfevents", Record(3));
  sent_["runs/a.tfevents"] = Record(1).size();  // an older worker had started it
  Begin();
  EXPECT_EQ(Look(), Steps({2}));
}

TEST_F(EventFilesTest, ABrokenLedgerHarmsNobody) {
  for (const char* text :
       {"", "\n\t\n", "muster-event-files\t1\t", "old\t1\t2\t\t-5\nwhole\n",
        "ours\t99999999999999999999\t0\t\t0\tx\n", "ours\t1\t2\t\t3\n", "whole"}) {
    Write("ledger", text, /*append=*/false);
    EventLedger ledger(Path("ledger"));
    EXPECT_EQ(ledger.decisions(), 0u) << text;
    EXPECT_EQ(ledger.OldSize({1, 2, ""}), -1) << text;
  }
}

// OUTPUT_DIR/runs of a Trainer: the job does not name the directory.
TEST_F(EventFilesTest, WhatARankHasOpenIsItsOwnWhereverItLies) {
  Note();
  fs::create_directories(Path("out/runs"));
  const std::string name = "out/" + NameOf(kNobody);
  const std::string opened = Path("opened");
  ASSERT_EQ(mkfifo(opened.c_str(), 0600), 0);
  const pid_t rank = Start(kMark, "exec 9>>" + Path(name) + "; echo >" + opened + "; sleep 60");
  std::string line;
  std::getline(std::ifstream(opened), line);  // waits for it
  Write(name, Record(1) + Record(2));
  Write("out/runs/events.out.tfevents.1700000000.host.1.0", Record(9));  // no rank has it open
  Begin();
  EXPECT_EQ(Look(), Steps()) << "no rank is known";
  tailer_->SetPid(0, rank);
  EXPECT_EQ(Look(), Steps({1, 2}));
  Write(name, Record(3));
  Begin();
  EXPECT_EQ(Look(), Steps()) << "a new worker does not know the rank yet";
  tailer_->SetPid(0, rank);
  EXPECT_EQ(Look(), Steps({3})) << "and then continues where it left the file";
}

// A run of less than a second: opened, written and closed between two looks.
TEST_F(EventFilesTest, WhatARankClosedBeforeItWasSeenIsFoundAtTheEnd) {
  fs::create_directories(Path("out/runs"));
  Write("out/" + NameOf(kNobody) + ".older", Record(8));
  AwaitTick(Path("out/" + NameOf(kNobody) + ".older"));
  Note();
  Write("out/" + NameOf(kNobody), Record(1) + Record(2));
  Write("out/" + NameOf(kNobody - 1), Record(9));
  Write("out/runs/events.out.tfevents.1700000000.elsewhere." + std::to_string(kNobody), Record(9));
  Begin();
  tailer_->SetPid(0, kNobody);
  EXPECT_EQ(Look(), Steps()) << "while it runs, only what it has open";
  EXPECT_EQ(Look(true), Steps({1, 2}));
  EXPECT_EQ(sent_.begin()->first, "out/" + NameOf(kNobody));
  EXPECT_EQ(Look(true), Steps());
}

}  // namespace
}  // namespace muster::worker
