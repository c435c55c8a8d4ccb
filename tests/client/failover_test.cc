// The real jobctl where coordinators replace each other: what follows a job continues at the next one
// that leads, and contexts learn the addresses.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <semaphore>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "identity/credential_files.h"
#include "tests/client/fake_coordinator.h"
#include "tests/client/fake_head.h"
#include "tests/client/jobctl_process.h"

namespace muster::client {
namespace {

v1::JobRecord Record(v1::JobState state) {
  v1::JobRecord record;
  record.set_id(3);
  record.set_name("calm-otter-3");
  record.set_state(state);
  record.set_first_running_ms(1000);
  if (state >= v1::JOB_STATE_SUCCEEDED) record.set_finished_ms(42'000);
  v1::Attempt* attempt = record.add_attempts();
  attempt->set_world_size(1);
  attempt->add_parts()->set_node("node1");
  return record;
}

v1::JobUpdate Update(v1::JobState state) {
  v1::JobUpdate update;
  *update.mutable_record() = Record(state);
  return update;
}

v1::LogRecord Log(uint64_t offset, const std::string& data) {
  v1::LogRecord record;
  record.set_node("node1");
  record.set_stream(v1::LOG_STREAM_STDOUT);
  record.set_offset(offset);
  record.set_data(data);
  return record;
}

v1::EventBatch Events(uint64_t from, uint64_t to) {
  v1::EventBatch batch;
  for (uint64_t seq = from; seq <= to; ++seq) {
    v1::Event* event = batch.add_events();
    event->set_seq(seq);
    event->set_job(3);
    batch.add_texts("event " + std::to_string(seq));
  }
  return batch;
}

// Both know job 3. The first one leads until it dies; the other one leads from the third question after
// that on.
class JobctlFailoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    b_.StandBy(a_.address());
    a_.on_job = [](const v1::JobReference&, v1::GetJobResponse* response) {
      *response->mutable_record() = Record(v1::JOB_STATE_RUNNING);
      return grpc::Status::OK;
    };
    b_.on_job = [](const v1::JobReference&, v1::GetJobResponse* response) {
      *response->mutable_record() = Record(v1::JOB_STATE_SUCCEEDED);
      return grpc::Status::OK;
    };
    b_.on_watch = [](const v1::WatchJobRequest&, const FakeHead::Send<v1::JobUpdate>& send) {
      send(Update(v1::JOB_STATE_SUCCEEDED));
      return grpc::Status::OK;
    };
    a_.on_watch = [this](const v1::WatchJobRequest&, const FakeHead::Send<v1::JobUpdate>& send) {
      send(Update(v1::JOB_STATE_RUNNING));
      follows_.release();
      return a_.HoldUntilDeath();
    };
    a_.on_logs = [this](const v1::StreamLogsRequest&, const FakeHead::Send<v1::LogRecord>& send) {
      send(Log(0, "one\ntwo\nth"));
      follows_.release();
      return a_.HoldUntilDeath();
    };
    b_.on_logs = [this](const v1::StreamLogsRequest& request,
                        const FakeHead::Send<v1::LogRecord>& send) {
      resumed_ = request;
      const std::string all = "one\ntwo\nthree\nfour\n";
      const uint64_t from = request.resume().empty() ? 0 : request.resume(0).offset();
      send(Log(from, all.substr(from)));
      return grpc::Status::OK;
    };
  }
  std::string Both() const { return a_.address() + "," + b_.address(); }
  void AwaitFollower() { follows_.acquire(); }
  void FailOver() {
    a_.Die();
    b_.StandBy();
    b_.LeadFrom(b_.questions() + 3);
    b_.Lead();
  }

  FakeHead a_, b_;
  std::counting_semaphore<> follows_{0};
  v1::StreamLogsRequest resumed_;
};

v1::CoordinatorView* AddCoordinator(v1::ListCoordinatorsResponse& list, const std::string& name,
                                    uint64_t lag) {
  v1::CoordinatorView* each = list.add_coordinators();
  each->set_name(name);
  each->set_endpoint(name + ":7700");
  each->set_http(name + ":7701");
  each->set_version("0.9");
  each->set_lag(lag);
  return each;
}

TEST_F(JobctlFailoverTest, CoordinatorsAreListedByOneThatStandsByWhileNoneLeads) {
  a_.StandBy();
  b_.StandBy();
  for (FakeHead* head : {&a_, &b_}) {
    AddCoordinator(head->coordinators, "h1", 3);
    AddCoordinator(head->coordinators, "h2", 0);
    head->coordinators.set_answered_by("h1");
    head->coordinators.set_seen_ms(common::SystemClock().Read().wall_ms);
  }
  const Ended ended = Process(Both(), {"coordinator", "ls", "--columns", "name,role,lag"}).End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "NAME\tROLE\tLAG\nh1\tstands by\t3\nh2\tstands by\t0\n");
  EXPECT_EQ(ended.err.find("! none leads, as h1 knows: "), 0u) << ended.err;
}

TEST_F(JobctlFailoverTest, CoordinatorsAreListedWithTheOneThatLeads) {
  v1::CoordinatorView* leader = AddCoordinator(a_.coordinators, "h1", 0);
  leader->set_leads(true);
  leader->set_term(812);
  AddCoordinator(a_.coordinators, "h2", 4);
  a_.coordinators.set_answered_by("h1");
  a_.coordinators.set_seen_ms(common::SystemClock().Read().wall_ms - 12'345);
  const Ended people = Process(a_.address(), {"coordinator", "ls", "-o", "wide"}).End();
  EXPECT_EQ(people.out,
            "NAME\tROLE\tADDRESS\tHTTP\tVERSION\tTERM\tLAG\tSEEN\n"
            "h1\tleads\th1:7700\th1:7701\t0.9\t812\t-\t12s\n"
            "h2\tstands by\th2:7700\th2:7701\t0.9\t-\t4\t12s\n");
  EXPECT_EQ(people.err.find("! etcd has not answered h1 for 12s"), 0u) << people.err;
  const Ended programs =
      Process(a_.address(), {"coordinator", "ls", "-o", "jsonl", "--columns", "name,term,lag"})
          .End();
  EXPECT_EQ(programs.out,
            "{\"name\": \"h1\", \"term\": 812, \"lag_entries\": 0}\n"
            "{\"name\": \"h2\", \"term\": null, \"lag_entries\": 4}\n");
}

TEST_F(JobctlFailoverTest, LogsContinueWithoutAGapOrARepeat) {
  Process process(Both(), {"logs", "-f", "3"});
  ASSERT_TRUE(process.ReadOutUntil("two"));
  FailOver();
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "[node1:0] one\n[node1:0] two\n[node1:0] three\n[node1:0] four\n");
  ASSERT_EQ(resumed_.resume_size(), 1);
  EXPECT_EQ(resumed_.resume(0).offset(), 10u);
}

TEST_F(JobctlFailoverTest, ARunContinuesAtTheNextLeader) {
  a_.on_run = [this](const v1::SubmitRequest&, const FakeHead::Send<v1::JobUpdate>& send) {
    send(Update(v1::JOB_STATE_RUNNING));
    return a_.HoldUntilDeath();
  };
  std::string key;
  b_.on_run = [&](const v1::SubmitRequest& request, const FakeHead::Send<v1::JobUpdate>& send) {
    key = request.idempotency_key();
    send(Update(v1::JOB_STATE_SUCCEEDED));
    return grpc::Status::OK;
  };
  Process process(Both(), {"run", "-n", "1", "--no-sync", "--", "train"});
  ASSERT_TRUE(process.ReadOutUntil("two"));
  FailOver();
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "[node1:0] one\n[node1:0] two\n[node1:0] three\n[node1:0] four\n");
  EXPECT_FALSE(key.empty());
  EXPECT_NE(ended.err.find("lost the connection to the coordinator; reconnecting"),
            std::string::npos)
      << ended.err;
}

TEST_F(JobctlFailoverTest, AWaitContinuesAtTheNextLeader) {
  Process process(Both(), {"wait", "3"});
  AwaitFollower();
  FailOver();
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "calm-otter-3 SUCCEEDED\n");
}

TEST_F(JobctlFailoverTest, ASubmitIsMadeOnceAndItsWaitContinuesAtTheNextLeader) {
  a_.on_submit = [](const v1::SubmitRequest&, v1::SubmitResponse* response) {
    response->set_job(3);
    response->set_name("calm-otter-3");
    return grpc::Status::OK;
  };
  Process process(Both(), {"submit", "-n", "1", "--no-sync", "--wait", "--", "train"});
  AwaitFollower();
  FailOver();
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "calm-otter-3 submitted\n");
}

TEST_F(JobctlFailoverTest, EventsContinueAfterTheLastOneThatWasPrinted) {
  a_.on_events = [this](const v1::ListEventsRequest&, const FakeHead::Send<v1::EventBatch>& send) {
    send(Events(1, 2));
    return a_.HoldUntilDeath();
  };
  b_.on_events = [](const v1::ListEventsRequest& request,
                    const FakeHead::Send<v1::EventBatch>& send) {
    send(Events(request.after_seq() + 1, 4));
    return grpc::Status::OK;
  };
  Process process(Both(), {"events", "-w", "-o", "csv", "--columns", "event"});
  ASSERT_TRUE(process.ReadOutUntil("event 2"));
  FailOver();
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "event\nevent 1\nevent 2\nevent 3\nevent 4\n");
}

TEST_F(JobctlFailoverTest, AFollowerOfOneAddressLearnsTheOthers) {
  a_.NameHeads({a_.address(), b_.address()});
  Process process(a_.address(), {"logs", "-f", "3"});
  ASSERT_TRUE(process.ReadOutUntil("two"));
  FailOver();
  const Ended ended = process.End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(ended.out.ends_with("four\n")) << ended.out;
}

TEST_F(JobctlFailoverTest, ALiveListContinuesAtTheNextLeader) {
  const auto list = [](const std::string& name, FakeHead& head) {
    head.on_list = [name](const v1::ListJobsRequest&, v1::ListJobsResponse* response) {
      v1::JobSummary* job = response->add_jobs();
      job->set_id(3);
      job->set_name(name);
      return grpc::Status::OK;
    };
  };
  list("calm-otter-3", a_);
  list("bold-heron-4", b_);
  Process process(Both(), {"ls", "-w", "-o", "name"});
  ASSERT_TRUE(process.ReadOutUntil("calm-otter-3"));
  FailOver();
  EXPECT_TRUE(process.ReadOutUntil("bold-heron-4"));
}

TEST_F(JobctlFailoverTest, ASocketIsNotLeftForAnotherHost) {
  FakeCoordinator socket;
  socket.stands_by = true;
  socket.leader = a_.address();
  const Ended ended = Jobctl(socket, {"ls"});
  EXPECT_EQ(ended.code, 5);
  EXPECT_EQ(ended.err, "error: the coordinator at " + socket.endpoint() +
                           " stands by: " + a_.address() + " leads [JC1630]\nfix:   jobctl -s " +
                           a_.address() + "\n");
  EXPECT_EQ(a_.questions(), 0);
}

// A context and where it is kept.
class ContextHeadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/heads.XXXXXX";
    directory_ = mkdtemp(path);
    a_.NameHeads({a_.address(), b_.address()});
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string File() const { return directory_ + "/config.yaml"; }
  void Write(const std::string& text) const { std::ofstream(File()) << text; }
  std::string Read() const {
    std::ifstream file(File());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Ended List(std::vector<std::string> words = {}, const std::string& server = "") const {
    words.insert(words.begin(), "ls");
    return Process(Surroundings{.server = server, .config = File()}, words).End();
  }
  std::string Both() const { return a_.address() + "," + b_.address(); }

  FakeHead a_, b_;
  std::string directory_;
};

TEST_F(ContextHeadsTest, AContextLearnsTheAddressesAndTheFileKeepsItsComments) {
  Write("current: lab  # ours\ncontexts:\n  lab: {server: " + a_.address() +
        ", env_pass: [A]}   # the old one\n");
  const Ended ended = List();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Read(), "current: lab  # ours\ncontexts:\n  lab: {server: \"" + Both() +
                        "\", env_pass: [A]}   # the old one\n");
  // Nothing changes any more, so nothing is written, whichever of them leads.
  struct stat before {
  }, after{};
  ASSERT_EQ(stat(File().c_str(), &before), 0);
  a_.NameHeads({b_.address(), a_.address()});
  EXPECT_EQ(List().code, 0);
  ASSERT_EQ(stat(File().c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(ContextHeadsTest, AContextForgetsAddressesThatAreGone) {
  Write("current: lab\ncontexts:\n  lab:\n    server: '" + a_.address() + ",127.0.0.1:1'\n");
  EXPECT_EQ(List().code, 0);
  EXPECT_EQ(Read(), "current: lab\ncontexts:\n  lab:\n    server: \"" + Both() + "\"\n");
}

TEST_F(ContextHeadsTest, TheCredentialsOfAContextLearnTheAddressesAndKeepThatOfTheSignIn) {
  const FakeAuthority authority;
  FakeHead secured(authority.Head(authority.pem()));
  secured.NameHeads({secured.address(), "127.0.0.1:1"});
  identity::Credentials credentials = authority.Person();
  credentials.endpoint = secured.address();
  credentials.http = "127.0.0.1:2";
  const std::string path = directory_ + "/credentials/lab";
  ASSERT_TRUE(identity::SaveCredentials(path, credentials).ok());
  Write("current: lab\ncontexts:\n  lab: {server: \"" + secured.address() + "\"}\n");
  const Ended ended = List();
  EXPECT_EQ(ended.code, 0) << ended.err;
  const auto learned = identity::LoadCredentials(path);
  ASSERT_TRUE(learned.ok()) << learned.status();
  EXPECT_EQ(learned->endpoint, secured.address() + ",127.0.0.1:1");
  EXPECT_EQ(learned->http, "127.0.0.1:2");
  EXPECT_EQ(learned->key_pem, credentials.key_pem);
  // A single address of the context still has its credentials.
  EXPECT_EQ(List({"-s", secured.address()}).code, 0);
}

TEST_F(ContextHeadsTest, AnAddressThatWasGivenIsNotKept) {
  const std::string text = "current: lab\ncontexts:\n  lab: {server: \"" + a_.address() + "\"}\n";
  Write(text);
  EXPECT_EQ(List({"-s", a_.address()}).code, 0);
  EXPECT_EQ(List({}, a_.address()).code, 0);
  EXPECT_EQ(Read(), text);
}

TEST_F(ContextHeadsTest, AFileThatCannotBeWrittenIsNoError) {
  // Root may write everywhere; but no file beside this one has a longer name.
  const std::string file = directory_ + "/" + std::string(NAME_MAX, 'c');
  const std::string text = "current: lab\ncontexts:\n  lab: {server: \"" + a_.address() + "\"}\n";
  std::ofstream(file) << text;
  const Ended ended = Process(Surroundings{.server = "", .config = file}, {"ls"}).End();
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
  std::ifstream kept(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), text);
}

TEST_F(ContextHeadsTest, AContextMayBeAddedWithSeveralAddresses) {
  const Surroundings around{.server = "", .config = File()};
  Ended ended = Process(around, {"context", "add", "lab", "a:7700,b:7700"}).End();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "✓ context lab is a:7700,b:7700\n");
  ended = Process(around, {"context", "add", "bad", "a:7700,b"}).End();
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("\"b\" is neither HOST:PORT nor unix:/PATH"), std::string::npos);
  ended = Process(around, {"context", "add", "bad", "a:7700,unix:/run/c.sock"}).End();
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("only HOST:PORT can be one of several"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace muster::client
