// A job's last output arrives while the machine's clock jumps: a reader still gets all of it.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>

#include "common/base/version.h"
#include "coordinator/coordinator.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "tests/coordinator/temp_dir.h"

namespace {
std::atomic<int64_t> wall_offset_s = 0;
}  // namespace

// Every clock of this process, with a wall clock that the test can set.
extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += wall_offset_s;
  return static_cast<int>(result);
}

namespace muster::coordinator {
namespace {

constexpr int64_t kTenYearsS = 10LL * 365 * 24 * 3'600;

class ClockJumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Config config;
    config.data_dir = dir_.path() + "/data";
    config.socket = dir_.path() + "/c.sock";
    auto started =
        Coordinator::Start(config, [](const absl::Status& why) { ADD_FAILURE() << why; });
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    channel_ = grpc::CreateChannel(coordinator_->Endpoint(), grpc::InsecureChannelCredentials());
    jobs_ = v1::JobService::NewStub(channel_);
    workers_ = v1::WorkerService::NewStub(channel_);
  }
  void TearDown() override { wall_offset_s = 0; }

  // A job of one rank that has succeeded but whose output is still on its worker.
  uint64_t RunJob() {
    grpc::ClientContext context;
    auto stream = workers_->Connect(&context);
    v1::WorkerMessage hello;
    v1::NodeFacts* facts = hello.mutable_register_()->mutable_facts();
    facts->set_name("node-a");
    facts->set_incarnation(1);
    facts->set_boot_id("boot");
    facts->set_advertise("127.0.0.1");
    facts->set_protocol(common::kProtocol);
    facts->add_devices()->set_kind("cpu");
    facts->set_cores(1);
    stream->Write(hello);
    v1::WorkerMessage cleared;
    cleared.mutable_cleared();
    stream->Write(cleared);
    grpc::ClientContext submit_context;
    v1::SubmitRequest submit;
    submit.mutable_spec()->add_command("true");
    submit.mutable_spec()->set_workdir("/");
    submit.mutable_spec()->mutable_shape()->set_processes(1);
    submit.mutable_spec()->mutable_shape()->mutable_device()->set_kind("cpu");
    v1::SubmitResponse submitted;
    EXPECT_TRUE(jobs_->Submit(&submit_context, submit, &submitted).ok());
    const auto say = [&](v1::AttemptPhase phase) {
      v1::WorkerMessage message;
      v1::AttemptStatus* status = message.mutable_attempt_status();
      status->set_job(submitted.job());
      status->set_phase(phase);
      status->set_master_port(4711);
      if (phase != v1::ATTEMPT_PHASE_HOLDING) status->set_ranks_started(1);
      if (phase == v1::ATTEMPT_PHASE_ENDED) {
        status->add_exits()->set_node("node-a");
        status->set_how_ended("empty");
      }
      stream->Write(message);
    };
    v1::CoordinatorMessage message;
    while (!message.has_prepare() && stream->Read(&message)) {
    }
    say(v1::ATTEMPT_PHASE_HOLDING);
    while (!message.has_launch() && stream->Read(&message)) {
    }
    say(v1::ATTEMPT_PHASE_RUNNING);
    say(v1::ATTEMPT_PHASE_ENDED);
    while (!message.has_forget() && stream->Read(&message)) {
    }
    context.TryCancel();
    return submitted.job();
  }

  void Upload(uint64_t job) {
    grpc::ClientContext context;
    auto upload = workers_->UploadLogs(&context);
    v1::LogChunk chunk;
    chunk.set_job(job);
    chunk.set_stream(v1::LOG_STREAM_STDOUT);
    chunk.set_data("the last line\n");
    chunk.set_end(true);
    upload->Write(chunk);
    chunk.set_stream(v1::LOG_STREAM_STDERR);
    chunk.clear_data();
    upload->Write(chunk);
    v1::LogAck ack;
    EXPECT_TRUE(upload->Read(&ack));
    EXPECT_TRUE(upload->Read(&ack));
    upload->WritesDone();
    EXPECT_TRUE(upload->Finish().ok());
  }

  TempDir dir_;
  std::unique_ptr<Coordinator> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::WorkerService::Stub> workers_;
};

TEST_F(ClockJumpTest, AReadRightAfterTheEndWaitsForTheRestWhateverTheClockSays) {
  const uint64_t job = RunJob();
  wall_offset_s = kTenYearsS;
  grpc::ClientContext context;
  v1::StreamLogsRequest request;
  request.set_job(std::to_string(job));
  request.set_attempt(-1);
  auto logs = jobs_->StreamLogs(&context, request);
  // Answered after the read: by then it has seen that there is nothing yet, or has ended.
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext get_context;
    v1::JobReference reference;
    reference.set_job(std::to_string(job));
    v1::GetJobResponse response;
    EXPECT_TRUE(jobs_->GetJob(&get_context, reference, &response).ok());
  }
  Upload(job);
  std::string bytes;
  v1::LogRecord record;
  while (logs->Read(&record)) bytes += record.data();
  EXPECT_TRUE(logs->Finish().ok());
  EXPECT_EQ(bytes, "the last line\n");
}

}  // namespace
}  // namespace muster::coordinator
