// What an enrolled worker gets that reaches for what is not its own: node2 has a certificate, and the
// job runs on node1. Each attack is printed with its answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/base/version.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/status_wire.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/diagnoses.h"
#include "coordinator/gates/code_gate.h"
#include "coordinator/gates/job_gate.h"
#include "coordinator/gates/resume_gate.h"
#include "coordinator/gates/sample_gate.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/coordinator/workers_daemon.h"
#include "tests/stores/put_blob.h"
#include "tree/manifest.h"
#include "tree/placement.h"

namespace muster::coordinator {
namespace {

constexpr char kBytes[] = "the weights of a model";

std::string AnswerText(const grpc::Status& status) {
  const absl::Status said =
      common::FromWire({.code = static_cast<absl::StatusCode>(status.error_code()),
                        .message = status.error_message(),
                        .details = status.error_details()});
  return status.ok() ? "OK" : absl::StatusCodeToString(said.code()) + " " + common::CodeOf(said);
}

// One worker, played by the test, with the certificate `as`; empty: with none, on plain TCP.
class Node {
 public:
  using Control = grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>;

  Node(const std::shared_ptr<grpc::Channel>& channel, std::string as)
      : as_(std::move(as)), stub_(v1::WorkerService::NewStub(channel)) {
    Name(control_context_);
  }
  ~Node() { control_context_.TryCancel(); }

  v1::WorkerService::Stub& stub() { return *stub_; }
  void Name(grpc::ClientContext& context) const {
    if (!as_.empty()) context.AddMetadata("as", as_);
  }

  void Register(const std::string& name, uint64_t incarnation, uint32_t slots = 1) {
    control_ = stub_->Connect(&control_context_);
    v1::WorkerMessage hello;
    v1::NodeFacts* facts = hello.mutable_register_()->mutable_facts();
    facts->set_name(name);
    facts->set_incarnation(incarnation);
    facts->set_boot_id("boot");
    facts->set_process(17);
    facts->set_advertise("127.0.0.1");
    facts->set_protocol(common::kProtocol);
    for (uint32_t index = 0; index < slots; ++index) {
      v1::Device* device = facts->add_devices();
      device->set_kind("cpu");
      device->set_index(index);
    }
    facts->set_cores(std::max(1u, slots));
    Say(hello);
    v1::WorkerMessage cleared;
    cleared.mutable_cleared();
    Say(cleared);
  }
  void Say(const v1::WorkerMessage& message) { control_->Write(message); }
  // Up to the first message of that kind.
  template <typename Is>
  v1::CoordinatorMessage Await(Is is) {
    v1::CoordinatorMessage message;
    while (control_->Read(&message)) {
      if (is(message)) return message;
    }
    ADD_FAILURE() << "the stream ended: " << AnswerText(control_->Finish());
    return {};
  }
  // After everything that was said before: the coordinator takes it in order.
  void AwaitHeartbeat() {
    v1::WorkerMessage heartbeat;
    heartbeat.mutable_heartbeat()->set_number(++heartbeats_);
    Say(heartbeat);
    Await([&](const auto& message) {
      return message.has_heartbeat_reply() && message.heartbeat_reply().number() == heartbeats_;
    });
  }
  grpc::Status EndOfControl() {
    v1::CoordinatorMessage message;
    while (control_->Read(&message)) {
    }
    return control_->Finish();
  }

  // With ENDED: its rank exited with `exit_code`.
  void SayStatus(uint64_t job, uint32_t attempt, v1::AttemptPhase phase, int exit_code = 0) {
    v1::WorkerMessage message;
    v1::AttemptStatus* status = message.mutable_attempt_status();
    status->set_job(job);
    status->set_attempt(attempt);
    status->set_phase(phase);
    status->set_master_port(4711);
    status->set_ranks_started(1);
    if (phase == v1::ATTEMPT_PHASE_ENDED) {
      status->add_exits()->set_exit_code(exit_code);
      status->set_how_ended("empty");
    }
    Say(message);
  }
  v1::CheckpointAck SayCheckpoint(uint64_t job, int64_t step, const std::string& sha256) {
    v1::WorkerMessage message;
    v1::CheckpointPartReady* part = message.mutable_checkpoint_part();
    part->set_job(job);
    part->set_step(step);
    part->set_parts(1);
    v1::CheckpointFile* file = part->add_files();
    file->set_path("model");
    file->set_size(sizeof kBytes - 1);
    file->set_sha256(sha256);
    Say(message);
    return Await([](const auto& each) { return each.has_checkpoint_ack(); }).checkpoint_ack();
  }

  v1::LogAck SendLog(uint64_t job, uint32_t rank, const std::string& node, uint64_t incarnation) {
    grpc::ClientContext context;
    Name(context);
    auto upload = stub_->UploadLogs(&context);
    v1::LogChunk chunk;
    chunk.set_job(job);
    chunk.set_rank(rank);
    chunk.set_stream(v1::LOG_STREAM_STDOUT);
    chunk.set_data("line\n");
    chunk.set_node(node);
    chunk.set_incarnation(incarnation);
    v1::LogAck ack;
    EXPECT_TRUE(upload->Write(chunk) && upload->Read(&ack));
    context.TryCancel();
    return ack;
  }
  v1::MetricAck SendMetric(uint64_t job, uint32_t rank) {
    grpc::ClientContext context;
    Name(context);
    auto upload = stub_->UploadMetrics(&context);
    v1::MetricBatch batch;
    batch.set_job(job);
    batch.set_rank(rank);
    batch.set_source("socket");
    batch.set_seq(1);
    batch.add_points()->set_name("loss");
    v1::MetricAck ack;
    EXPECT_TRUE(upload->Write(batch) && upload->Read(&ack));
    context.TryCancel();
    return ack;
  }
  // The batch was taken, or refused: samples are not acknowledged.
  void SendSample(uint64_t job, const std::string& node) {
    grpc::ClientContext context;
    Name(context);
    auto upload = stub_->UploadSamples(&context);
    v1::SampleBatch batch;
    batch.set_job(job);
    batch.set_node(node);
    batch.set_time_ms(1);
    EXPECT_TRUE(upload->Write(batch));
    upload->WritesDone();
    EXPECT_TRUE(upload->Finish().ok());
  }
  grpc::Status Upload(uint64_t job, const std::string& bytes, std::string sha256 = "") {
    if (sha256.empty()) sha256 = common::Sha256Hex(bytes);
    grpc::ClientContext context;
    Name(context);
    v1::UploadBlobResponse response;
    auto upload = stub_->UploadBlob(&context, &response);
    v1::BlobChunk chunk;
    chunk.set_sha256(sha256);
    chunk.set_size(bytes.size());
    chunk.set_data(bytes);
    chunk.set_job(job);
    upload->Write(chunk);
    upload->WritesDone();
    return upload->Finish();
  }
  grpc::Status BeginUpload(uint64_t job, const std::string& sha256,
                           v1::BeginUploadResponse* response = nullptr, uint32_t attempt = 0) {
    grpc::ClientContext context;
    Name(context);
    v1::BeginUploadRequest request;
    request.set_sha256(sha256);
    request.set_size(sizeof kBytes - 1);
    request.set_job(job);
    request.set_attempt(attempt);
    v1::BeginUploadResponse unread;
    return stub_->BeginUpload(&context, request, response == nullptr ? &unread : response);
  }
  // Until so much of the file has arrived.
  void AwaitArrived(uint64_t job, const std::string& sha256, uint64_t bytes) {
    v1::BeginUploadResponse response;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (BeginUpload(job, sha256, &response).ok() && response.offset() < bytes &&
           std::chrono::steady_clock::now() < until) {
    }
    EXPECT_EQ(response.offset(), bytes);
  }
  grpc::Status Download(uint64_t job, uint32_t attempt, const std::string& sha256,
                        std::string* bytes = nullptr) {
    grpc::ClientContext context;
    Name(context);
    v1::DownloadBlobRequest request;
    request.set_sha256(sha256);
    request.set_job(job);
    request.set_attempt(attempt);
    auto download = stub_->DownloadBlob(&context, request);
    v1::BlobChunk chunk;
    while (download->Read(&chunk)) {
      if (bytes != nullptr) *bytes += chunk.data();
    }
    return download->Finish();
  }
  grpc::Status ListResumeFiles(uint64_t job, uint32_t for_attempt, int64_t step) {
    grpc::ClientContext context;
    Name(context);
    v1::ListResumeFilesRequest request;
    request.set_job(job);
    request.set_step(step);
    request.set_for_attempt(for_attempt);
    auto list = stub_->ListResumeFiles(&context, request);
    v1::CheckpointFiles files;
    while (list->Read(&files)) {
    }
    return list->Finish();
  }

 private:
  const std::string as_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext control_context_;
  std::unique_ptr<Control> control_;
  uint64_t heartbeats_ = 0;
};

// A stream that uploads pieces of a file as kBytes.
class PieceStream {
 public:
  PieceStream(Node& node, uint64_t job) : job_(job) {
    node.Name(context_);
    stream_ = node.stub().UploadBlob(&context_, &response_);
  }
  void Send(uint64_t offset, const std::string& data) {
    v1::BlobChunk chunk;
    chunk.set_sha256(common::Sha256Hex(kBytes));
    chunk.set_size(sizeof kBytes - 1);
    chunk.set_job(job_);
    chunk.set_offset(offset);
    chunk.set_data(data);
    stream_->Write(chunk);
  }
  grpc::Status End() {
    stream_->WritesDone();
    return stream_->Finish();
  }
  bool IsComplete() const { return response_.complete(); }

 private:
  const uint64_t job_;
  grpc::ClientContext context_;
  v1::UploadBlobResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::BlobChunk>> stream_;
};

class ReachTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kIncarnation = 7;

  void SetUp() override {
    node1_.Register("node1", kIncarnation);
    node1_.Await([](const auto& message) { return message.has_registered(); });
  }

  uint64_t Submit(const std::function<void(v1::JobSpec&)>& change = nullptr) {
    v1::SubmitRequest request;
    v1::JobSpec& spec = *request.mutable_spec();
    spec.add_command("true");
    spec.set_workdir("/");
    spec.mutable_shape()->set_processes(1);
    spec.mutable_shape()->mutable_device()->set_kind("cpu");
    if (change) change(spec);
    auto answer = std::make_shared<std::promise<absl::StatusOr<v1::SubmitResponse>>>();
    call::Submit::Handle(daemon(), Caller{.principal = "uid:1000"}, request,
                         [answer](auto response) { answer->set_value(std::move(response)); });
    const auto response = answer->get_future().get();
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->job() : 0;
  }
  // Its only rank runs on node1.
  uint64_t RunOnNode1(const std::function<void(v1::JobSpec&)>& change = nullptr) {
    const uint64_t job = Submit(change);
    Start(job);
    return job;
  }
  void Start(uint64_t job, uint32_t attempt = 0) { StartOn(node1_, job, attempt); }
  static void StartOn(Node& node, uint64_t job, uint32_t attempt = 0) {
    node.Await([](const auto& message) { return message.has_prepare(); });
    node.SayStatus(job, attempt, v1::ATTEMPT_PHASE_HOLDING);
    node.Await([](const auto& message) { return message.has_launch(); });
    node.SayStatus(job, attempt, v1::ATTEMPT_PHASE_RUNNING);
    node.AwaitHeartbeat();
  }
  void RegisterNode2(uint32_t slots = 0) {
    node2_.Register("node2", kIncarnation, slots);
    node2_.Await([](const auto& message) { return message.has_registered(); });
  }
  v1::JobRecord RecordOf(uint64_t job) {
    auto answer = std::make_shared<std::promise<v1::JobRecord>>();
    daemon().jobs.loop.Ask([answer, job](const LoopView& view) -> std::function<void()> {
      return [answer, record = view.state.jobs.at(job)] { answer->set_value(record); };
    });
    return answer->get_future().get();
  }
  uint64_t Counted(Denied what) { return daemon().traffic.denied.Of(what); }
  Daemon& daemon() { return coordinator_.daemon(); }

  // A line of the table.
  static void Tell(const char* attack, const std::string& answer) {
    std::printf("| %-62s | %s\n", attack, answer.c_str());
  }
  static void ExpectDenied(const char* attack, const grpc::Status& status, const char* code) {
    Tell(attack, AnswerText(status));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << attack;
    EXPECT_NE(status.error_message().find(code), std::string::npos) << status.error_message();
  }
  template <typename Ack>
  static void ExpectRefused(const char* attack, const Ack& ack) {
    Tell(attack, ack.refused() ? "refused" : "TAKEN");
    EXPECT_TRUE(ack.refused()) << attack;
  }

  TempDir dir_;
  WorkersDaemon coordinator_{dir_.path()};
  Node node1_{coordinator_.channel(), "worker:node1"};
  Node node2_{coordinator_.channel(), "worker:node2"};
};

TEST_F(ReachTest, AWorkerRegistersOnlyUnderTheNameOfItsCertificate) {
  Node impostor(coordinator_.channel(), "worker:node2");
  impostor.Register("node1", kIncarnation);
  ExpectDenied("registers with all facts of node1", impostor.EndOfControl(), "JC1342");
  EXPECT_EQ(Counted(Denied::kRegistration), 1u);
  // The honest one keeps its stream.
  node1_.AwaitHeartbeat();
}

TEST_F(ReachTest, ACertificateThatIsNotAWorkersReachesNothing) {
  const uint64_t job = RunOnNode1();
  Node person(coordinator_.channel(), "user:alice");
  ExpectRefused("sends output with a person's certificate",
                person.SendLog(job, 0, "node1", kIncarnation));
  person.Register("node1", kIncarnation);
  ExpectDenied("registers with a person's certificate", person.EndOfControl(), "JC1342");
}

TEST_F(ReachTest, OutputMetricsAndSamplesOfAnotherNodesRankAreRefusedAndTheHonestOnesTaken) {
  const uint64_t job = RunOnNode1();
  RegisterNode2();
  ExpectRefused("sends output of node1's rank as node2",
                node2_.SendLog(job, 0, "node2", kIncarnation));
  ExpectRefused("sends output of node1's rank and claims node1",
                node2_.SendLog(job, 0, "node1", kIncarnation));
  EXPECT_EQ(Counted(Denied::kLogs), 2u);
  ExpectRefused("sends metrics of node1's rank", node2_.SendMetric(job, 0));
  EXPECT_EQ(Counted(Denied::kMetrics), 1u);
  node2_.SendSample(job, "node1");
  node2_.SendSample(job, "node2");
  EXPECT_EQ(Counted(Denied::kSamples), 2u);
  EXPECT_TRUE(daemon().stores.samples.Newest(job).empty());
  Tell("sends samples of node1's part", "dropped");

  EXPECT_EQ(node1_.SendLog(job, 0, "node1", kIncarnation).durable_offset(), 5u);
  EXPECT_EQ(node1_.SendMetric(job, 0).durable_seq(), 1u);
  node1_.SendSample(job, "node1");
  EXPECT_EQ(daemon().stores.samples.Newest(job).size(), 1u);
  EXPECT_EQ(Counted(Denied::kLogs), 2u);
}

TEST_F(ReachTest, OutputOfAnotherIncarnationIsRefusedAlsoWithoutCertificates) {
  const uint64_t job = RunOnNode1();
  ExpectRefused("sends output as a later incarnation of node1",
                node1_.SendLog(job, 0, "node1", kIncarnation + 1));
  Node plain(coordinator_.channel(), "");
  ExpectRefused("plaintext: sends output of node1's rank as node2",
                plain.SendLog(job, 0, "node2", kIncarnation));
  EXPECT_FALSE(plain.SendLog(job, 0, "node1", kIncarnation).refused());
}

TEST_F(ReachTest, OutputOfAnEndedJobIsTakenLateAndFromItsOwnNodeOnly) {
  const uint64_t job = RunOnNode1();
  node1_.SayStatus(job, 0, v1::ATTEMPT_PHASE_ENDED);
  node1_.Await([](const auto& message) { return message.has_forget(); });
  daemon().gates.jobs.Forget(job);  // as after a restart: the record comes from the index
  ExpectRefused("sends output of an ended job", node2_.SendLog(job, 0, "node2", kIncarnation));
  EXPECT_FALSE(node1_.SendLog(job, 0, "node1", kIncarnation).refused());
}

TEST_F(ReachTest, OutputOfAnAttemptThatTheRecordNoLongerHasIsStillBoundToItsNode) {
  const uint64_t job = RunOnNode1([](v1::JobSpec& spec) { spec.set_restarts(100); });
  for (uint32_t attempt = 0; attempt < common::kAttemptsKept; ++attempt) {
    node1_.SayStatus(job, attempt, v1::ATTEMPT_PHASE_ENDED, 1);
    Start(job, attempt + 1);
  }
  ASSERT_EQ(RecordOf(job).attempts(0).number(), 1u);
  ExpectRefused("sends output of an attempt of long ago",
                node2_.SendLog(job, 0, "node2", kIncarnation));
  EXPECT_FALSE(node1_.SendLog(job, 0, "node1", kIncarnation).refused());
  EXPECT_TRUE(node1_.SendLog(job, 1, "node1", kIncarnation).refused());
}

TEST_F(ReachTest, ARanksRecordIsTakenFromItsOwnNodeOnly) {
  const uint64_t job = RunOnNode1();
  RegisterNode2();
  struct Updates final : Sink<v1::DiagnoseJobUpdate> {
    void Write(v1::DiagnoseJobUpdate update) override { updates.push_back(std::move(update)); }
    void Close(const absl::Status&) override { closed.set_value(); }
    size_t QueuedBytes() const override { return 0; }
    bool Gone() const override { return false; }
    void Observe(std::function<void()>, std::function<void()>) override {}
    std::vector<v1::DiagnoseJobUpdate> updates;
    std::promise<void> closed;
  };
  auto sink = std::make_shared<Updates>();
  v1::DiagnoseJobRequest request;
  request.set_job(std::to_string(job));
  call::DiagnoseJob::Handle(daemon(), Caller{.principal = "uid:1000"}, request, sink);
  const auto asked = node1_.Await([](const auto& message) { return message.has_diagnose(); });
  v1::WorkerMessage record;
  record.mutable_diagnosis()->set_job(job);
  record.mutable_diagnosis()->set_number(asked.diagnose().number());
  record.mutable_diagnosis()->set_record("{\"forged\":true}");
  node2_.Say(record);
  node2_.AwaitHeartbeat();
  EXPECT_EQ(Counted(Denied::kDiagnosis), 1u);
  Tell("answers a diagnosis for node1's rank", "refused");
  record.mutable_diagnosis()->set_record("{}");
  node1_.Say(record);
  sink->closed.get_future().wait();
  ASSERT_EQ(sink->updates.size(), 2u);
  EXPECT_EQ(sink->updates[1].diagnosis().record(), "{}");
  EXPECT_EQ(sink->updates[1].diagnosis().node(), "node1");
}

TEST_F(ReachTest, TheEndOfACommandIsTakenOnlyFromANodeThatMayHaveRunIt) {
  const uint64_t job =
      RunOnNode1([](v1::JobSpec& spec) { spec.add_notify()->add_command("tell"); });
  RegisterNode2();
  node1_.SayStatus(job, 0, v1::ATTEMPT_PHASE_ENDED);
  const auto asked = node1_.Await([](const auto& message) { return message.has_run_notify(); });
  v1::WorkerMessage ended;
  ended.mutable_notify_ended()->set_job(job);
  ended.mutable_notify_ended()->set_delivery(asked.run_notify().delivery());
  node2_.Say(ended);
  node2_.AwaitHeartbeat();
  // The second one is told after the first was judged: by one thread, in order.
  node1_.Say(ended);
  std::string outcome;
  while (outcome.empty()) {
    node1_.AwaitHeartbeat();
    const auto events = daemon().jobs.index.Events({.job = job, .until = 1'000, .newest = 1'000});
    ASSERT_TRUE(events.ok());
    for (const v1::Event& event : *events) outcome += event.notified().outcome();
  }
  EXPECT_EQ(outcome, "the command on node1 exited with 0");
  EXPECT_EQ(Counted(Denied::kNotify), 1u);
  Tell("reports the end of a notify command that node1 was asked to run", "ignored");
}

TEST_F(ReachTest, AnEndReportedByAnotherNodeChangesNothing) {
  const uint64_t job = RunOnNode1();
  RegisterNode2();
  node2_.SayStatus(job, 0, v1::ATTEMPT_PHASE_ENDED);
  node2_.AwaitHeartbeat();
  EXPECT_EQ(RecordOf(job).state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(RecordOf(job).attempts(0).parts(0).exits_size(), 0);
  EXPECT_EQ(Counted(Denied::kStatus), 1u);
  Tell("reports that node1's ranks have succeeded", "ignored");
}

TEST_F(ReachTest, ACheckpointCountsOnlyFromItsNodeAndOnlyOnceItsBytesAreHere) {
  const uint64_t job = RunOnNode1();
  RegisterNode2();
  const std::string sha256 = common::Sha256Hex(kBytes);
  ExpectRefused("announces a checkpoint of node1's attempt", node2_.SayCheckpoint(job, 10, sha256));
  const v1::CheckpointAck missing = node1_.SayCheckpoint(job, 10, sha256);
  ExpectRefused("node1 announces a checkpoint whose bytes no node has sent", missing);
  EXPECT_NE(missing.reason().find("[JC1508] file model"), std::string::npos) << missing.reason();
  EXPECT_EQ(Counted(Denied::kCheckpoint), 2u);
  EXPECT_EQ(RecordOf(job).checkpoints_size(), 0);
  const std::string told = RecordOf(job).attempts(0).parts(0).checkpoint_error();
  EXPECT_EQ(told, "checkpoint step-10: " + missing.reason());

  const grpc::Status forged = node1_.Upload(job, std::string(sizeof kBytes - 1, 'x'), sha256);
  EXPECT_EQ(forged.error_code(), grpc::StatusCode::DATA_LOSS);
  Tell("node1 uploads other bytes under that hash", AnswerText(forged));
  ExpectRefused("… and announces the checkpoint again", node1_.SayCheckpoint(job, 10, sha256));

  EXPECT_TRUE(node1_.Upload(job, kBytes).ok());
  EXPECT_FALSE(node1_.SayCheckpoint(job, 10, sha256).refused());
  node1_.AwaitHeartbeat();
  ASSERT_EQ(RecordOf(job).checkpoints_size(), 1);
  EXPECT_EQ(RecordOf(job).checkpoints(0).state(), v1::CHECKPOINT_STATE_COMMITTED);
}

TEST_F(ReachTest, ANodeThatAnnouncesThousandsOfPartsWithoutBytesFillsNoHistory) {
  const uint64_t job = RunOnNode1();
  for (int64_t step = 1; step <= 130; ++step)
    EXPECT_TRUE(node1_.SayCheckpoint(job, step, common::Sha256Hex("never sent")).refused());
  node1_.AwaitHeartbeat();
  const auto events = daemon().jobs.index.Events({.job = job, .until = 10'000, .newest = 10'000});
  ASSERT_TRUE(events.ok());
  EXPECT_EQ(std::count_if(events->begin(), events->end(),
                          [](const v1::Event& event) { return event.has_checkpoint_failed(); }),
            100);
}

TEST_F(ReachTest, APartThatIsBeingLookedUpIsTakenBeforeTheEndThatFollowsIt) {
  const uint64_t job = RunOnNode1();
  EXPECT_TRUE(node1_.Upload(job, kBytes).ok());
  v1::WorkerMessage message;
  v1::CheckpointPartReady* part = message.mutable_checkpoint_part();
  part->set_job(job);
  part->set_step(20);
  part->set_parts(1);
  for (int number = 0; number < 2'000; ++number) {
    v1::CheckpointFile* file = part->add_files();
    file->set_path("shard-" + std::to_string(number));
    file->set_size(sizeof kBytes - 1);
    file->set_sha256(common::Sha256Hex(kBytes));
  }
  node1_.Say(message);
  node1_.SayStatus(job, 0, v1::ATTEMPT_PHASE_ENDED);
  node1_.Await([](const auto& each) { return each.has_forget(); });
  const auto finished = daemon().jobs.index.Find(job);
  ASSERT_TRUE(finished.ok() && finished->has_value());
  ASSERT_EQ((*finished)->checkpoints_size(), 1);
  EXPECT_EQ((*finished)->checkpoints(0).state(), v1::CHECKPOINT_STATE_COMMITTED);
}

TEST_F(ReachTest, CheckpointFilesAreTransferredOnlyForAttemptsOfTheNode) {
  const uint64_t job = RunOnNode1([](v1::JobSpec& spec) { spec.set_restarts(2); });
  RegisterNode2();
  const std::string sha256 = common::Sha256Hex(kBytes);
  EXPECT_TRUE(node1_.Upload(job, kBytes).ok());
  EXPECT_FALSE(node1_.SayCheckpoint(job, 10, sha256).refused());
  // Attempt 0 does not resume from what it saved itself.
  ExpectDenied("downloads a file of node1's job", node2_.Download(job, 0, sha256), "JC1341");
  ExpectDenied("downloads a file by its hash alone", node2_.Download(0, 0, sha256), "JC1341");
  ExpectDenied("lists the files of node1's job", node2_.ListResumeFiles(job, 0, 10), "JC1341");
  ExpectDenied("asks whether a file of node1's job is there", node2_.BeginUpload(job, sha256),
               "JC1341");
  ExpectDenied("uploads a file for node1's job", node2_.Upload(job, "poison"), "JC1341");
  ExpectDenied("uploads a file for no job", node2_.Upload(0, "poison"), "JC1341");
  ExpectDenied("node1 downloads what its attempt does not resume from",
               node1_.Download(job, 0, sha256), "JC1341");
  ExpectDenied("node1 lists files that its attempt does not resume from",
               node1_.ListResumeFiles(job, 0, 10), "JC1341");
  EXPECT_EQ(Counted(Denied::kBlob), 8u);
  EXPECT_FALSE(daemon().stores.blobs.Size(common::Sha256Hex("poison")).ok());
}

TEST_F(ReachTest, WhatOneNodeUploadsAsAFileChangesNothingOfWhatAnotherUploadsAsTheSame) {
  const std::string bytes = kBytes;
  const std::string sha256 = common::Sha256Hex(bytes);
  const uint64_t job1 = RunOnNode1();
  RegisterNode2(1);
  const uint64_t job2 = Submit();
  StartOn(node2_, job2);
  PieceStream honest(node1_, job1);
  honest.Send(0, bytes.substr(0, 9));
  node1_.AwaitArrived(job1, sha256, 9);
  node2_.AwaitArrived(job2, sha256, 0);
  PieceStream other(node2_, job2);
  other.Send(0, "THE W");
  node2_.AwaitArrived(job2, sha256, 5);
  node1_.AwaitArrived(job1, sha256, 9);
  honest.Send(9, bytes.substr(9));
  EXPECT_TRUE(honest.End().ok());
  EXPECT_TRUE(honest.IsComplete());
  EXPECT_TRUE(daemon().stores.blobs.Verify(sha256).ok());
  // What is behind the hash now can no longer change what is in place.
  other.Send(5, "EIGHTS OF A MODEL");
  EXPECT_EQ(other.End().error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_TRUE(daemon().stores.blobs.Verify(sha256).ok());
}

// Every user who sees a job sees its files' hashes; no one gets the bytes by knowing a hash.
TEST_F(ReachTest, AHashIsNoProofThatANodeHasTheBytes) {
  const std::string sha256 = common::Sha256Hex(kBytes);
  const uint64_t job1 = RunOnNode1();
  RegisterNode2(1);
  const uint64_t job2 = Submit();
  StartOn(node2_, job2);
  ASSERT_TRUE(node1_.Upload(job1, kBytes).ok());
  ASSERT_FALSE(node1_.SayCheckpoint(job1, 10, sha256).refused());
  v1::BeginUploadResponse begun;
  EXPECT_TRUE(node1_.BeginUpload(job1, sha256, &begun).ok() && begun.have()) << "its own, again";
  EXPECT_TRUE(node2_.BeginUpload(job2, sha256, &begun).ok());
  EXPECT_FALSE(begun.have()) << "who asks does not learn what others have";
  const v1::CheckpointAck stolen = node2_.SayCheckpoint(job2, 10, sha256);
  ExpectRefused("node2 announces node1's file as its checkpoint", stolen);
  EXPECT_NE(stolen.reason().find("[JC1508]"), std::string::npos) << stolen.reason();
  const grpc::Status guessed = node2_.Upload(job2, std::string(sizeof kBytes - 1, 'x'), sha256);
  EXPECT_EQ(guessed.error_code(), grpc::StatusCode::DATA_LOSS);
  ExpectRefused("… after it sent other bytes as that file", node2_.SayCheckpoint(job2, 10, sha256));
  EXPECT_TRUE(daemon().stores.blobs.Verify(sha256).ok());
  EXPECT_EQ(RecordOf(job2).checkpoints_size(), 0);

  ASSERT_TRUE(node2_.Upload(job2, kBytes).ok()) << "equal files of two jobs";
  EXPECT_TRUE(node2_.BeginUpload(job2, sha256, &begun).ok() && begun.have());
  EXPECT_FALSE(node2_.SayCheckpoint(job2, 10, sha256).refused());
}

TEST_F(ReachTest, ANodesUploadHasOneWriterAndIsResumedWhenThatHasEnded) {
  const std::string bytes = kBytes;
  const std::string sha256 = common::Sha256Hex(bytes);
  const uint64_t job = RunOnNode1();
  PieceStream first(node1_, job);
  first.Send(0, bytes.substr(0, 9));
  node1_.AwaitArrived(job, sha256, 9);
  PieceStream second(node1_, job);
  second.Send(9, bytes.substr(9));
  EXPECT_EQ(second.End().error_code(), grpc::StatusCode::ABORTED) << "the worker tries it again";
  EXPECT_TRUE(first.End().ok());
  EXPECT_FALSE(first.IsComplete());
  PieceStream gap(node1_, job);
  gap.Send(12, bytes.substr(12));
  EXPECT_EQ(gap.End().error_code(), grpc::StatusCode::ABORTED) << "less has arrived: it asks again";
  PieceStream rest(node1_, job);
  rest.Send(9, bytes.substr(9));
  EXPECT_TRUE(rest.End().ok());
  EXPECT_TRUE(rest.IsComplete());
  EXPECT_TRUE(daemon().stores.blobs.Verify(sha256).ok());
}

TEST_F(ReachTest, AnAttemptGetsTheFilesThatItResumesFromAndNoOthers) {
  const uint64_t job = RunOnNode1([](v1::JobSpec& spec) { spec.set_restarts(1); });
  RegisterNode2();
  const std::string sha256 = common::Sha256Hex(kBytes);
  EXPECT_TRUE(node1_.Upload(job, kBytes).ok());
  EXPECT_TRUE(node1_.Upload(job, "another file").ok());
  EXPECT_FALSE(node1_.SayCheckpoint(job, 10, sha256).refused());
  node1_.SayStatus(job, 0, v1::ATTEMPT_PHASE_ENDED, 1);
  Start(job, 1);
  ASSERT_EQ(RecordOf(job).attempts(1).resume_step(), 10);

  std::string bytes;
  EXPECT_TRUE(node1_.Download(job, 1, sha256, &bytes).ok());
  EXPECT_EQ(bytes, kBytes);
  EXPECT_TRUE(node1_.ListResumeFiles(job, 1, 10).ok());
  v1::BeginUploadResponse begun;
  EXPECT_TRUE(node1_.BeginUpload(job, sha256, &begun, 1).ok());
  EXPECT_TRUE(begun.have()) << "it may download it: nothing is sent again";
  EXPECT_TRUE(node1_.BeginUpload(job, common::Sha256Hex("another file"), &begun, 1).ok());
  EXPECT_FALSE(begun.have());
  ExpectDenied("node1 downloads a file that is not of that checkpoint",
               node1_.Download(job, 1, common::Sha256Hex("another file")), "JC1341");
  ExpectDenied("downloads what node1's attempt resumes from", node2_.Download(job, 1, sha256),
               "JC1341");
  ExpectDenied("lists what node1's attempt resumes from", node2_.ListResumeFiles(job, 1, 10),
               "JC1341");
}

TEST_F(ReachTest, AnAttemptGetsTheCodeOfItsJobAndNoOther) {
  const auto add = [&](const std::string& bytes) {
    const CodeObject object{common::Sha256Hex(bytes), bytes.size()};
    EXPECT_TRUE(PutBlob(daemon().stores.blobs, bytes).ok());
    EXPECT_TRUE(daemon().job_code.store.Add("default", object, "uid:0", 0).ok());
    return object.sha256;
  };
  tree::Manifest tree;
  tree.entries = {{.path = "train.py",
                   .kind = tree::Kind::kFile,
                   .size = sizeof kBytes - 1,
                   .content = tree::DigestOf(kBytes)}};
  const std::string manifest = tree::Encode(tree);
  const std::string placement = tree::EncodePlacement(
      tree, tree::IdentityOf(manifest),
      {.objects = {{tree::DigestOf(kBytes), sizeof kBytes - 1}}, .places = {{0, 0}}});
  const std::vector<std::string> objects = {add(manifest), add(placement), add(kBytes)};
  const std::string foreign = add("code of another job");
  const auto with_code = [&](v1::JobSpec& spec) {
    spec.clear_workdir();
    spec.mutable_code()->set_tree(objects[0]);
    spec.mutable_code()->set_manifest_bytes(manifest.size());
    spec.mutable_code()->set_placement(objects[1]);
    spec.mutable_code()->set_placement_bytes(placement.size());
  };
  const uint64_t job = RunOnNode1(with_code);
  RegisterNode2();
  for (const std::string& object : objects) {
    std::string bytes;
    EXPECT_TRUE(node1_.Download(job, 0, object, &bytes).ok());
    EXPECT_EQ(common::Sha256Hex(bytes), object);
    ExpectDenied("downloads the code of node1's job", node2_.Download(job, 0, object), "JC1341");
  }
  ExpectDenied("node1 downloads code of another job", node1_.Download(job, 0, foreign), "JC1341");
  ExpectDenied("node1 downloads code for an attempt to come", node1_.Download(job, 1, objects[2]),
               "JC1341");
  const uint64_t without = Submit();
  ExpectDenied("node1 downloads code for a job without", node1_.Download(without, 0, objects[2]),
               "JC1341");
  daemon().gates.code.Forget(job);  // as after a restart
  EXPECT_TRUE(node1_.Download(job, 0, objects[2]).ok());
}

TEST_F(ReachTest, OlderWorkersMayTransferWithoutNamingAJobWhereNobodyHasACertificate) {
  Node plain(coordinator_.channel(), "");
  EXPECT_TRUE(plain.Upload(0, kBytes).ok());
  std::string bytes;
  EXPECT_TRUE(plain.Download(0, 0, common::Sha256Hex(kBytes), &bytes).ok());
  EXPECT_EQ(bytes, kBytes);
}

}  // namespace
}  // namespace muster::coordinator
