// The whole coordinator behind real gRPC over a unix socket; the test plays workers and clients.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/limits.h"
#include "common/base/version.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/status_wire.h"
#include "coordinator/code/code_uploads.h"
#include "coordinator/coordinator.h"
#include "coordinator/stores/paths.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/no_free_descriptors.h"
#include "tree/digest.h"

namespace muster::coordinator {
namespace {

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { Restart(); }

  void Restart() {
    stub_.reset();
    coordinator_.reset();
    Config config;
    config.data_dir = dir_.path() + "/data";
    config.socket = dir_.path() + "/c.sock";
    auto started =
        Coordinator::Start(config, [](const absl::Status& why) { ADD_FAILURE() << why; });
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(coordinator_->Endpoint(),
                                         grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::JobService::NewStub(channel_);
  }

  static v1::SubmitRequest Job(const std::string& key = "") {
    v1::SubmitRequest request;
    request.mutable_spec()->add_command("true");
    request.mutable_spec()->set_workdir("/");
    request.mutable_spec()->mutable_shape()->set_processes(1);
    request.mutable_spec()->mutable_shape()->mutable_device()->set_kind("cpu");
    request.set_idempotency_key(key);
    return request;
  }

  grpc::Status Submit(const v1::SubmitRequest& request, v1::SubmitResponse* response) {
    grpc::ClientContext context;
    return stub_->Submit(&context, request, response);
  }

  uint64_t SubmitOne(const std::string& key = "") {
    v1::SubmitResponse response;
    const grpc::Status status = Submit(Job(key), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job();
  }

  grpc::Status Get(const std::string& reference, v1::GetJobResponse* response) {
    grpc::ClientContext context;
    v1::JobReference request;
    request.set_job(reference);
    return stub_->GetJob(&context, request, response);
  }

  v1::ListJobsResponse List() {
    grpc::ClientContext context;
    v1::ListJobsRequest request;
    request.set_all(true);
    request.set_limit(10'000);
    v1::ListJobsResponse response;
    EXPECT_TRUE(stub_->ListJobs(&context, request, &response).ok());
    return response;
  }

  v1::BulkResult Cancel(const std::string& reference) {
    grpc::ClientContext context;
    v1::CancelJobsRequest request;
    request.add_jobs(reference);
    v1::BulkResponse response;
    const grpc::Status status = stub_->CancelJobs(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.results_size() == 1 ? response.results(0) : v1::BulkResult();
  }

  TempDir dir_;
  std::unique_ptr<Coordinator> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

// A worker with two cpu slots, played by the test.
class FakeWorker {
 public:
  using Stream = grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>;

  explicit FakeWorker(const std::shared_ptr<grpc::Channel>& channel, uint64_t incarnation = 1)
      : stub_(v1::WorkerService::NewStub(channel)), stream_(stub_->Connect(&context_)) {
    v1::WorkerMessage hello;
    v1::NodeFacts* facts = hello.mutable_register_()->mutable_facts();
    facts->set_name("node-a");
    facts->set_incarnation(incarnation);
    facts->set_boot_id("boot");
    facts->set_advertise("127.0.0.1");
    facts->set_protocol(common::kProtocol);
    for (uint32_t index = 0; index < 2; ++index) {
      v1::Device* device = facts->add_devices();
      device->set_kind("cpu");
      device->set_index(index);
    }
    facts->set_cores(2);
    stream_->Write(hello);
    v1::WorkerMessage cleared;
    cleared.mutable_cleared();
    stream_->Write(cleared);
  }
  ~FakeWorker() { context_.TryCancel(); }

  // The next message other than a heartbeat reply.
  v1::CoordinatorMessage Read() {
    v1::CoordinatorMessage message;
    if (!stream_->Read(&message)) message.Clear();
    return message;
  }
  void SayStatus(uint64_t job, v1::AttemptPhase phase, uint32_t port, bool exited) {
    v1::WorkerMessage message;
    v1::AttemptStatus* status = message.mutable_attempt_status();
    status->set_job(job);
    status->set_phase(phase);
    status->set_master_port(port);
    if (phase == v1::ATTEMPT_PHASE_RUNNING || exited) status->set_ranks_started(1);
    if (exited) status->add_exits()->set_node("node-a");
    if (phase == v1::ATTEMPT_PHASE_ENDED) status->set_how_ended("empty");
    stream_->Write(message);
  }
  // A checkpoint with one file.
  void SayCheckpoint(uint64_t job, int64_t step, const std::string& sha256) {
    v1::WorkerMessage message;
    v1::CheckpointPartReady* part = message.mutable_checkpoint_part();
    part->set_job(job);
    part->set_step(step);
    part->set_parts(1);
    v1::CheckpointFile* file = part->add_files();
    file->set_path("model");
    file->set_size(1);
    file->set_sha256(sha256);
    stream_->Write(message);
  }
  // Plays one rank that succeeds and, where a file is named, has saved a checkpoint of it.
  void RunJob(uint64_t job, const std::string& checkpoint_file = "") {
    v1::CoordinatorMessage message = Read();
    while (!message.has_prepare()) message = Read();
    SayStatus(job, v1::ATTEMPT_PHASE_HOLDING, 4711, false);
    while (!message.has_launch()) message = Read();
    SayStatus(job, v1::ATTEMPT_PHASE_RUNNING, 4711, false);
    if (!checkpoint_file.empty()) SayCheckpoint(job, 10, checkpoint_file);
    SayStatus(job, v1::ATTEMPT_PHASE_ENDED, 4711, true);
    while (!message.has_forget()) message = Read();
  }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(ServiceTest, AnAcknowledgedJobIsListedAfterARestart) {
  const uint64_t job = SubmitOne();
  Restart();
  const v1::ListJobsResponse listed = List();
  ASSERT_EQ(listed.jobs_size(), 1);
  EXPECT_EQ(listed.jobs(0).id(), job);
  EXPECT_EQ(listed.jobs(0).owner(), "uid:" + std::to_string(getuid()));
}

TEST_F(ServiceTest, TheSameKeyIsTheSameJobAlsoAfterItIsOver) {
  const uint64_t job = SubmitOne("key");
  EXPECT_EQ(SubmitOne("key"), job);
  EXPECT_EQ(Cancel(std::to_string(job)).status_code(), 0);
  Restart();
  EXPECT_EQ(SubmitOne("key"), job);
  v1::SubmitRequest other = Job("key");
  other.mutable_spec()->add_command("another");
  v1::SubmitResponse response;
  EXPECT_EQ(Submit(other, &response).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(ServiceTest, ManyPipelinedSubmitsAreAllDurable) {
  constexpr int kJobs = 5'000;
  grpc::ClientContext context;
  auto stream = stub_->SubmitMany(&context);
  const auto began = std::chrono::steady_clock::now();
  std::thread writer([&] {
    for (int i = 0; i < kJobs; ++i) stream->Write(Job("key-" + std::to_string(i)));
    stream->WritesDone();
  });
  v1::SubmitResponse response;
  uint64_t answered = 0;
  while (stream->Read(&response)) {
    EXPECT_EQ(response.status_code(), 0) << response.status_message();
    EXPECT_EQ(response.job(), ++answered);
  }
  writer.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answered, static_cast<uint64_t>(kJobs));
  RecordProperty("submits_per_second", static_cast<int>(kJobs / took.count()));
  std::printf("%d durable submits in %.3f s: %.0f/s\n", kJobs, took.count(), kJobs / took.count());
  Restart();
  EXPECT_EQ(List().jobs_size(), kJobs);
}

TEST_F(ServiceTest, AJobIsFoundByNumberNameAndPrefixLiveOrOver) {
  const uint64_t job = SubmitOne();
  v1::GetJobResponse found;
  ASSERT_TRUE(Get(std::to_string(job), &found).ok());
  const std::string name = found.record().name();
  for (int over = 0; over < 2; ++over) {
    for (const std::string& reference : {name, name.substr(0, 3), std::string("@last")}) {
      ASSERT_TRUE(Get(reference, &found).ok()) << reference << " over " << over;
      EXPECT_EQ(found.record().id(), job);
    }
    if (over == 0) {
      EXPECT_EQ(Cancel(name).status_code(), 0);
    }
  }
  EXPECT_EQ(found.record().state(), v1::JOB_STATE_CANCELLED);
  const grpc::Status missing = Get("no-such-job", &found);
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_NE(missing.error_message().find("[JC1201]"), std::string::npos);
}

common::Problem ProblemIn(const grpc::Status& status) {
  return common::ProblemOf(
      common::FromWire({.code = static_cast<absl::StatusCode>(status.error_code()),
                        .message = status.error_message(),
                        .details = status.error_details()}));
}

TEST_F(ServiceTest, AnErrorArrivesAsAValueInACallInABulkAnswerAndInAStreamOfSubmits) {
  v1::GetJobResponse found;
  const common::Problem missing = ProblemIn(Get("no-such-job", &found));
  EXPECT_EQ(missing.code, "JC1201");
  EXPECT_EQ(missing.what, "there is no job \"no-such-job\"");
  EXPECT_EQ(missing.fix, "list all jobs with jobctl ls -a");

  v1::SubmitResponse response;
  v1::SubmitRequest wrong = Job();
  wrong.mutable_spec()->clear_command();
  EXPECT_EQ(ProblemIn(Submit(wrong, &response)).code, "JC1105");

  const v1::BulkResult result = Cancel("no-such-job");
  EXPECT_EQ(result.error().code(), "JC1201");
  EXPECT_EQ(result.error().what(), missing.what);
  EXPECT_EQ(result.message(), common::Readable(missing));

  grpc::ClientContext context;
  const auto stream = stub_->SubmitMany(&context);
  stream->Write(wrong);
  stream->WritesDone();
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error().code(), "JC1105");
  EXPECT_FALSE(response.error().fix().empty());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ServiceTest, AWorkerRunsAJobToItsEnd) {
  FakeWorker worker(channel_);
  EXPECT_TRUE(worker.Read().has_registered());
  const uint64_t job = SubmitOne();
  worker.RunJob(job);
  v1::GetJobResponse found;
  ASSERT_TRUE(Get(std::to_string(job), &found).ok());
  EXPECT_EQ(found.record().state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ServiceTest, AWorkerOfAnotherProtocolIsRefused) {
  grpc::ClientContext context;
  auto stub = v1::WorkerService::NewStub(channel_);
  auto stream = stub->Connect(&context);
  v1::WorkerMessage hello;
  hello.mutable_register_()->mutable_facts()->set_name("old");
  stream->Write(hello);
  v1::CoordinatorMessage message;
  EXPECT_FALSE(stream->Read(&message));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(status.error_message().find("protocol"), std::string::npos);
}

TEST_F(ServiceTest, APeerThatIsNewerThanTheCoordinatorIsRefused) {
  grpc::ClientContext context;
  auto stream = v1::WorkerService::NewStub(channel_)->Connect(&context);
  v1::WorkerMessage hello;
  hello.mutable_register_()->mutable_facts()->set_name("new");
  hello.mutable_register_()->mutable_facts()->set_version("9.9");
  hello.mutable_register_()->mutable_facts()->set_protocol(common::kProtocol + 1);
  stream->Write(hello);
  v1::CoordinatorMessage message;
  EXPECT_FALSE(stream->Read(&message));
  const grpc::Status worker = stream->Finish();
  EXPECT_EQ(worker.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(worker.error_message().find("upgrade the coordinator first"), std::string::npos);

  grpc::ClientContext asking;
  v1::GetServerRequest request;
  request.set_client_version("9.9");
  request.set_client_protocol(99);
  v1::GetServerResponse response;
  const grpc::Status client =
      v1::JobService::NewStub(channel_)->GetServer(&asking, request, &response);
  EXPECT_EQ(client.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(client.error_message().find("[JC1302] jobctl 9.9 speaks protocol 99"),
            std::string::npos)
      << client.error_message();
}

TEST_F(ServiceTest, ANewStreamOfANodeEndsItsOldOne) {
  FakeWorker old(channel_);
  EXPECT_TRUE(old.Read().has_registered());
  FakeWorker newer(channel_);
  EXPECT_TRUE(newer.Read().has_registered());
  EXPECT_EQ(old.Finish().error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(ServiceTest, AnAttachedJobIsCancelledWhenItsClientLeaves) {
  uint64_t job = 0;
  {
    grpc::ClientContext context;
    auto stream = stub_->Run(&context, Job());
    v1::JobUpdate update;
    ASSERT_TRUE(stream->Read(&update));
    job = update.record().id();
    EXPECT_GT(update.events_size(), 0);
    context.TryCancel();
  }
  grpc::ClientContext context;
  v1::WatchJobRequest watch;
  watch.set_job(std::to_string(job));
  auto stream = stub_->WatchJob(&context, watch);
  v1::JobUpdate last;
  while (stream->Read(&last)) {
  }
  EXPECT_EQ(last.record().state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(last.record().cause(), v1::STOP_CAUSE_CLIENT_GONE);
}

TEST_F(ServiceTest, UploadedLogsReachAFollowerAndTheFollowerEndsWithTheJob) {
  FakeWorker worker(channel_);
  EXPECT_TRUE(worker.Read().has_registered());
  const uint64_t job = SubmitOne();
  worker.RunJob(job);
  grpc::ClientContext follow_context;
  v1::StreamLogsRequest follow;
  follow.set_job(std::to_string(job));
  follow.set_follow(true);
  follow.set_attempt(-1);
  auto logs = stub_->StreamLogs(&follow_context, follow);
  auto bulk = v1::WorkerService::NewStub(channel_);
  grpc::ClientContext upload_context;
  auto upload = bulk->UploadLogs(&upload_context);
  v1::LogChunk chunk;
  chunk.set_job(job);
  chunk.set_stream(v1::LOG_STREAM_STDOUT);
  chunk.set_time_us(1);
  chunk.set_data(std::string("any bytes \0\xff\n", 13));
  chunk.set_end(true);
  upload->Write(chunk);
  chunk.set_stream(v1::LOG_STREAM_STDERR);
  chunk.clear_data();
  upload->Write(chunk);
  v1::LogAck ack;
  ASSERT_TRUE(upload->Read(&ack));
  EXPECT_FALSE(ack.refused());
  std::string bytes;
  v1::LogRecord record;
  while (logs->Read(&record)) bytes += record.data();
  EXPECT_TRUE(logs->Finish().ok());
  EXPECT_EQ(bytes, std::string("any bytes \0\xff\n", 13));
  chunk.set_attempt(9);
  upload->Write(chunk);
  while (upload->Read(&ack) && !ack.refused()) {
  }
  EXPECT_TRUE(ack.refused());
  upload->WritesDone();
}

TEST_F(ServiceTest, AnImpossibleUploadIsRefusedForItsStreamAloneAndNeverAfterARestart) {
  uint64_t job = 0;
  {
    FakeWorker worker(channel_);
    EXPECT_TRUE(worker.Read().has_registered());
    job = SubmitOne();
    worker.RunJob(job);
  }
  for (int life = 0; life < 2; ++life) {
    auto bulk = v1::WorkerService::NewStub(channel_);
    grpc::ClientContext context;
    auto upload = bulk->UploadLogs(&context);
    const auto answer_to = [&](v1::LogStream stream, uint32_t rank, uint64_t offset,
                               uint64_t dropped) {
      v1::LogChunk chunk;
      chunk.set_job(job);
      chunk.set_rank(rank);
      chunk.set_stream(stream);
      chunk.set_offset(offset);
      chunk.set_dropped(dropped);
      chunk.set_data("x");
      v1::LogAck ack;
      EXPECT_TRUE(upload->Write(chunk) && upload->Read(&ack));
      return ack;
    };
    const uint64_t huge = uint64_t{1} << 63;
    EXPECT_TRUE(answer_to(v1::LOG_STREAM_STDERR, 0, huge, huge).refused());
    EXPECT_TRUE(
        answer_to(v1::LOG_STREAM_STDERR, 0, uint64_t{1} << 50, uint64_t{1} << 50).refused());
    EXPECT_TRUE(answer_to(static_cast<v1::LogStream>(9), 0, 0, 0).refused());
    // The job has one rank.
    for (uint32_t rank = 1; rank < 20; ++rank) {
      EXPECT_TRUE(answer_to(v1::LOG_STREAM_STDOUT, rank, 0, 0).refused()) << rank;
    }
    const v1::LogAck good = answer_to(v1::LOG_STREAM_STDOUT, 0, 0, 0);
    EXPECT_FALSE(good.refused());
    EXPECT_EQ(good.durable_offset(), 1u);
    upload->WritesDone();
    Restart();
  }
}

TEST_F(ServiceTest, MetricsThatCannotBeAreRefusedAndTheirSourceGoesOn) {
  FakeWorker worker(channel_);
  EXPECT_TRUE(worker.Read().has_registered());
  const uint64_t job = SubmitOne();
  worker.RunJob(job);
  auto bulk = v1::WorkerService::NewStub(channel_);
  grpc::ClientContext context;
  auto upload = bulk->UploadMetrics(&context);
  const auto answer_to = [&](uint32_t rank, uint64_t seq) {
    v1::MetricBatch batch;
    batch.set_job(job);
    batch.set_rank(rank);
    batch.set_source("socket");
    batch.set_seq(seq);
    batch.add_points()->set_name("loss");
    v1::MetricAck ack;
    EXPECT_TRUE(upload->Write(batch) && upload->Read(&ack));
    batch.set_encoded(batch.SerializeAsString());
    v1::MetricAck again;  // as workers send it now
    v1::MetricBatch encoded;
    encoded.set_encoded(batch.encoded());
    EXPECT_TRUE(upload->Write(encoded) && upload->Read(&again));
    EXPECT_EQ(again.SerializeAsString(), ack.SerializeAsString());
    return ack;
  };
  for (std::string bytes : {std::string("garbage"), std::string("\x52\x01x", 3)}) {
    v1::MetricBatch batch;  // the second one holds another one
    batch.set_encoded(std::move(bytes));
    v1::MetricAck ack;
    EXPECT_TRUE(upload->Write(batch) && upload->Read(&ack));
    EXPECT_TRUE(ack.refused());
  }
  EXPECT_TRUE(answer_to(0, uint64_t{1} << 62).refused());
  EXPECT_TRUE(answer_to(0, uint64_t{1} << 40).refused());
  EXPECT_TRUE(answer_to(0, 0).refused());
  EXPECT_TRUE(answer_to(1, 1).refused());
  EXPECT_EQ(answer_to(0, 1).durable_seq(), 1u);
  upload->WritesDone();
}

TEST_F(ServiceTest, ADamagedCheckpointOfAFinishedJobIsFlaggedAndNoJobIsStartedFromIt) {
  FakeWorker worker(channel_);
  EXPECT_TRUE(worker.Read().has_registered());
  const uint64_t job = SubmitOne();
  const std::string sha256 = common::Sha256Hex("x");
  const Paths paths(dir_.path() + "/data");
  ASSERT_TRUE(common::MakeDirectories(paths.BlobDirectory(sha256)).ok());
  ASSERT_TRUE(common::WriteFileDurably(paths.BlobFile(sha256), "x").ok());
  worker.RunJob(job, sha256);
  ASSERT_EQ(unlink(paths.BlobFile(sha256).c_str()), 0);
  v1::CheckpointReference reference;
  reference.set_job(std::to_string(job));
  reference.set_latest(true);
  v1::VerifyCheckpointResponse verified;
  grpc::ClientContext verify_context;
  ASSERT_TRUE(stub_->VerifyCheckpoint(&verify_context, reference, &verified).ok());
  EXPECT_FALSE(verified.ok());
  v1::GetJobResponse found;
  ASSERT_TRUE(Get(std::to_string(job), &found).ok());
  ASSERT_EQ(found.record().checkpoints_size(), 1);
  EXPECT_TRUE(found.record().checkpoints(0).flagged_corrupt());
  v1::RerunJobRequest rerun;
  rerun.set_job(std::to_string(job));
  rerun.set_from_checkpoint(true);
  rerun.set_step(10);
  v1::SubmitResponse response;
  grpc::ClientContext rerun_context;
  EXPECT_EQ(stub_->RerunJob(&rerun_context, rerun, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServiceTest, ACheckpointThatCannotBeReadNowIsNotFlagged) {
  FakeWorker worker(channel_);
  EXPECT_TRUE(worker.Read().has_registered());
  const uint64_t job = SubmitOne();
  const std::string sha256 = common::Sha256Hex("x");
  const Paths paths(dir_.path() + "/data");
  ASSERT_TRUE(common::MakeDirectories(paths.BlobDirectory(sha256)).ok());
  ASSERT_TRUE(common::WriteFileDurably(paths.BlobFile(sha256), "x").ok());
  worker.RunJob(job, sha256);
  v1::CheckpointReference reference;
  reference.set_job(std::to_string(job));
  reference.set_latest(true);
  const auto said = [](const grpc::Status& status) {
    return common::FromWire({.code = static_cast<absl::StatusCode>(status.error_code()),
                             .message = status.error_message(),
                             .details = status.error_details()});
  };
  const auto verify = [&] {
    v1::VerifyCheckpointResponse verified;
    grpc::ClientContext context;
    const grpc::Status status = stub_->VerifyCheckpoint(&context, reference, &verified);
    return status.ok() && !verified.ok() ? absl::DataLossError("flagged") : said(status);
  };
  const auto pull = [&] {
    v1::PullFileRequest request;
    request.set_job(reference.job());
    request.set_step(-1);
    request.set_path("model");
    v1::BlobChunk chunk;
    grpc::ClientContext context;
    const auto file = stub_->PullFile(&context, request);
    while (file->Read(&chunk)) {
    }
    return said(file->Finish());
  };
  ASSERT_TRUE(verify().ok()) << verify();
  {
    const NoFreeDescriptors none;
    EXPECT_EQ(common::CodeOf(verify()), "JC1507") << verify();
    EXPECT_EQ(common::CodeOf(pull()), "JC1507") << pull();
  }
  EXPECT_TRUE(pull().ok()) << pull();
  EXPECT_TRUE(verify().ok()) << verify();
  v1::GetJobResponse found;
  ASSERT_TRUE(Get(std::to_string(job), &found).ok());
  EXPECT_FALSE(found.record().checkpoints(0).flagged_corrupt());
}

TEST_F(ServiceTest, EventsAreToldFromThePastAndAsTheyHappen) {
  const uint64_t job = SubmitOne();
  grpc::ClientContext context;
  v1::ListEventsRequest request;
  request.set_job(std::to_string(job));
  request.set_follow(true);
  auto stream = stub_->ListEvents(&context, request);
  v1::EventBatch batch;
  ASSERT_TRUE(stream->Read(&batch));
  EXPECT_TRUE(batch.events(0).has_job_submitted());
  uint64_t last = batch.events(batch.events_size() - 1).seq();
  Cancel(std::to_string(job));
  bool cancelled = false;
  while (!cancelled && stream->Read(&batch)) {
    for (const v1::Event& event : batch.events()) {
      EXPECT_GT(event.seq(), last);
      last = event.seq();
      cancelled = cancelled || event.job_state_changed().to() == v1::JOB_STATE_CANCELLED;
    }
  }
  EXPECT_TRUE(cancelled);
  context.TryCancel();
}

TEST_F(ServiceTest, ARemovedJobIsGoneAndItsNumberIsNotUsedAgain) {
  const uint64_t job = SubmitOne("key");
  grpc::ClientContext busy_context;
  v1::JobReferences request;
  request.add_jobs(std::to_string(job));
  v1::BulkResponse response;
  ASSERT_TRUE(stub_->RemoveJobs(&busy_context, request, &response).ok());
  EXPECT_NE(response.results(0).status_code(), 0);
  Cancel(std::to_string(job));
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->RemoveJobs(&context, request, &response).ok());
  EXPECT_EQ(response.results(0).status_code(), 0) << response.results(0).message();
  EXPECT_EQ(List().jobs_size(), 0);
  Restart();
  EXPECT_EQ(List().jobs_size(), 0);
  EXPECT_GT(SubmitOne("key"), job);
}

// PushObjects of the default project over real gRPC.
class PushTest : public ServiceTest {
 protected:
  struct Push {
    explicit Push(v1::JobService::Stub& stub) : writer(stub.PushObjects(&context, &response)) {}
    grpc::ClientContext context;
    v1::PushObjectsResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::ObjectChunk>> writer;
  };
  static v1::ObjectChunk ChunkOf(const std::string& bytes, uint64_t begin, uint64_t end) {
    const tree::Digest digest = tree::DigestOf(bytes);
    v1::ObjectChunk chunk;
    chunk.set_sha256(digest.bytes.data(), digest.bytes.size());
    chunk.set_size(bytes.size());
    chunk.set_offset(begin);
    chunk.set_data(bytes.substr(begin, end - begin));
    return chunk;
  }
  uint64_t OffsetOf(const std::string& bytes) {
    grpc::ClientContext context;
    v1::PrepareObjectsRequest request;
    *request.add_objects()->mutable_sha256() = ChunkOf(bytes, 0, 0).sha256();
    request.mutable_objects(0)->set_size(bytes.size());
    v1::PrepareObjectsResponse response;
    EXPECT_TRUE(stub_->PrepareObjects(&context, request, &response).ok());
    return response.offsets(0);
  }
};

TEST_F(PushTest, ObjectsFollowEachOtherAndABrokenStreamGoesOn) {
  constexpr size_t kPiece = common::kObjectChunkBytesMax;
  const std::string large(5 * kPiece + 7, 'x'), small = "small";
  {
    Push broken(*stub_);
    ASSERT_TRUE(broken.writer->Write(ChunkOf(small, 0, small.size())));
    for (size_t at = 0; at < 3 * kPiece; at += kPiece)
      ASSERT_TRUE(broken.writer->Write(ChunkOf(large, at, at + kPiece)));
    while (OffsetOf(large) < 3 * kPiece) {
    }
    broken.context.TryCancel();
    EXPECT_FALSE(broken.writer->Finish().ok());
  }
  EXPECT_EQ(OffsetOf(small), small.size());
  Restart();
  ASSERT_EQ(OffsetOf(large), 3 * kPiece);
  Push rest(*stub_);
  for (size_t at = 3 * kPiece; at < large.size(); at += kPiece)
    ASSERT_TRUE(rest.writer->Write(ChunkOf(large, at, at + kPiece)));
  rest.writer->WritesDone();
  const grpc::Status status = rest.writer->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(rest.response.objects(), 1u);
  EXPECT_EQ(rest.response.bytes(), 2 * kPiece + 7);
  EXPECT_EQ(OffsetOf(large), large.size());
}

TEST_F(PushTest, ARefusedStreamTellsWhy) {
  const auto expect = [&](const v1::ObjectChunk& chunk, grpc::StatusCode code, const char* why) {
    Push push(*stub_);
    push.writer->Write(chunk);
    push.writer->WritesDone();
    const grpc::Status status = push.writer->Finish();
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE(status.error_message().find(why), std::string::npos) << status.error_message();
  };
  const std::string large(4 << 20, 'x');
  expect(ChunkOf(large, 0, common::kObjectChunkBytesMax + 1), grpc::StatusCode::INVALID_ARGUMENT,
         "[JC1705] a chunk has 262145 bytes");
  expect(ChunkOf(large, 0, 3 << 20), grpc::StatusCode::INVALID_ARGUMENT, "[JC1705]");
  expect(ChunkOf(large, 0, 1'000), grpc::StatusCode::INVALID_ARGUMENT,
         "the stream ended after 1000 of the 4194304 bytes");
  v1::ObjectChunk forged = ChunkOf("honest", 0, 6);
  forged.set_data("forged");
  expect(forged, grpc::StatusCode::DATA_LOSS, "[JC1705]");
  v1::ObjectChunk elsewhere = ChunkOf("honest", 0, 6);
  elsewhere.set_project("nowhere");
  expect(elsewhere, grpc::StatusCode::NOT_FOUND, "[JC1332]");
  EXPECT_EQ(OffsetOf("honest"), 0u);
  Push empty(*stub_);
  empty.writer->WritesDone();
  EXPECT_EQ(empty.writer->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(PushTest, StreamsOfOnePersonAreBoundedAndTheirPlacesAreGivenBack) {
  std::vector<std::unique_ptr<Push>> open;
  for (size_t i = 0; i < CodeUploads::kStreamsOfOneMax; ++i) {
    const std::string bytes = "object " + std::to_string(i);
    open.push_back(std::make_unique<Push>(*stub_));
    ASSERT_TRUE(open.back()->writer->Write(ChunkOf(bytes, 0, bytes.size())));
    while (OffsetOf(bytes) < bytes.size()) {
    }
  }
  const auto push_one = [&] {
    Push push(*stub_);
    push.writer->Write(ChunkOf("one more", 0, 8));
    push.writer->WritesDone();
    return push.writer->Finish();
  };
  EXPECT_EQ(push_one().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  open.back()->context.TryCancel();
  open.front()->writer->WritesDone();
  EXPECT_TRUE(open.front()->writer->Finish().ok());
  EXPECT_TRUE(push_one().ok());
  for (const auto& push : open) push->context.TryCancel();
}

TEST_F(PushTest, TheCoordinatorStopsWhileStreamsWaitForEachOther) {
  std::vector<std::unique_ptr<Push>> open;
  for (int i = 0; i < 4; ++i) {
    open.push_back(std::make_unique<Push>(*stub_));
    ASSERT_TRUE(open.back()->writer->Write(ChunkOf("the same object", 0, 3)));
  }
  while (OffsetOf("the same object") < 3) {
  }
  const auto began = std::chrono::steady_clock::now();
  coordinator_->Shutdown();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  for (const auto& push : open) EXPECT_FALSE(push->writer->Finish().ok());
}

TEST_F(ServiceTest, ASecondCoordinatorOnTheSameDataIsToldWhoHoldsIt) {
  Config config;
  config.data_dir = dir_.path() + "/data";
  config.socket = dir_.path() + "/other.sock";
  const auto second = Coordinator::Start(config, [](const absl::Status&) {});
  ASSERT_FALSE(second.ok());
  const std::string message(second.status().message());
  EXPECT_NE(message.find("pid " + std::to_string(getpid())), std::string::npos) << message;
}

TEST_F(ServiceTest, AnOccupiedPortIsNamed) {
  Config config;
  config.data_dir = dir_.path() + "/one";
  config.listen = "127.0.0.1:0";
  auto first = Coordinator::Start(config, [](const absl::Status&) {});
  ASSERT_TRUE(first.ok()) << first.status();
  config.data_dir = dir_.path() + "/two";
  config.listen = (*first)->Endpoint();
  const auto second = Coordinator::Start(config, [](const absl::Status&) {});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(std::string(second.status().message()).find(config.listen), std::string::npos)
      << second.status();
}

}  // namespace
}  // namespace muster::coordinator
