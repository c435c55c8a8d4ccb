// What a removal left that was cut off goes later, and nothing else does.
#include "coordinator/periodic/stray_output.h"

#include <gtest/gtest.h>

#include <future>

#include "common/files/files.h"
#include "coordinator/calls/handlers.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/coordinator/workers_daemon.h"

namespace muster::coordinator {
namespace {

class StrayOutputTest : public testing::Test {
 protected:
  template <typename Call, typename Response, typename Request>
  Response Ask(const Request& request) {
    std::promise<absl::StatusOr<Response>> told;
    Call::Handle(coordinator_.daemon(), caller_, request,
                 [&told](absl::StatusOr<Response> answer) { told.set_value(std::move(answer)); });
    const absl::StatusOr<Response> answer = told.get_future().get();
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(Response());
  }
  // No node takes it: it stays alive. `is_over`: until it is canceled.
  uint64_t MakeJob(bool is_over) {
    v1::SubmitRequest request;
    request.set_queue_anyway(true);
    request.mutable_spec()->add_command("true");
    request.mutable_spec()->set_workdir("/");
    request.mutable_spec()->mutable_shape()->set_processes(1);
    request.mutable_spec()->mutable_shape()->mutable_device()->set_kind("cpu");
    const uint64_t job = Ask<call::Submit, v1::SubmitResponse>(request).job();
    if (!is_over) return job;
    v1::CancelJobsRequest cancel;
    cancel.add_jobs(std::to_string(job));
    Ask<call::CancelJobs, v1::BulkResponse>(cancel);
    return job;
  }
  void RemoveJob(uint64_t job) {
    v1::JobReferences request;
    request.add_jobs(std::to_string(job));
    const auto removed = Ask<call::RemoveJobs, v1::BulkResponse>(request);
    EXPECT_EQ(removed.results(0).status_code(), 0);
  }
  std::vector<std::string> DirectoriesOf(uint64_t job) {
    const Paths& paths = coordinator_.daemon().process.paths;
    return {paths.LogDirectory(job), paths.MetricDirectory(job)};
  }
  void Leave(uint64_t job) {
    for (const std::string& directory : DirectoriesOf(job)) {
      ASSERT_TRUE(common::MakeDirectories(directory + "/0").ok());
      ASSERT_TRUE(common::WriteFileDurably(directory + "/0/something", "left").ok());
    }
  }
  bool Has(uint64_t job) {
    const std::vector<std::string> directories = DirectoriesOf(job);
    EXPECT_EQ(common::Exists(directories[0]), common::Exists(directories[1]));
    return common::Exists(directories[0]);
  }
  void Sweep() {
    std::promise<void> done;
    SweepStrayOutput(coordinator_.daemon().jobs, coordinator_.daemon().stores,
                     coordinator_.daemon().process, [&done] { done.set_value(); });
    done.get_future().wait();
  }

 private:
  const TempDir temp_;
  WorkersDaemon coordinator_{temp_.path()};
  const Caller caller_{.principal = "user:alice", .role = v1::ROLE_ADMIN};
};

TEST_F(StrayOutputTest, OnlyWhatJobsLeftThatAreGoneIsRemoved) {
  const uint64_t live = MakeJob(false), over = MakeJob(true), gone = MakeJob(true);
  const uint64_t later = gone + 1;  // of a state that is newer than this one
  RemoveJob(gone);
  for (const uint64_t job : {live, over, gone, later}) Leave(job);
  Sweep();
  EXPECT_TRUE(Has(live));
  EXPECT_TRUE(Has(over));
  EXPECT_FALSE(Has(gone));
  EXPECT_TRUE(Has(later));
}

}  // namespace
}  // namespace muster::coordinator
