// The table of calls lists exactly the calls of the services.
#include "common/calls.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "muster/v1/exec.pb.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {
namespace {

using common::Action;
using common::Call;
using common::Calls;
using common::FindCall;
using common::Object;

const google::protobuf::ServiceDescriptor& ServiceOf(const std::string& name) {
  const std::map<std::string, const google::protobuf::FileDescriptor*> files = {
      {"JobService", v1::GetJobResponse::descriptor()->file()},
      {"WorkerService", v1::WorkerMessage::descriptor()->file()},
      {"ExecService", v1::ExecStart::descriptor()->file()}};
  return *files.at(name)->FindServiceByName(name);
}

TEST(CallsTest, EveryCallHasOneRowAndEveryRowIsACall) {
  std::set<std::pair<std::string, std::string>> rows;
  for (const Call& call : Calls()) {
    EXPECT_TRUE(rows.emplace(call.service, call.name).second) << call.name << " twice";
  }
  std::set<std::pair<std::string, std::string>> calls;
  for (const char* name : {"JobService", "WorkerService", "ExecService"}) {
    const auto& service = ServiceOf(name);
    for (int i = 0; i < service.method_count(); ++i) {
      calls.emplace(name, service.method(i)->name());
    }
  }
  EXPECT_EQ(rows, calls);
}

TEST(CallsTest, TheRowsOfJobServiceHaveTheShapesOfItsCalls) {
  struct Shape {
    std::string request, answer;
    bool streams_in, streams_out;
    bool operator==(const Shape&) const = default;
  };
  std::map<std::string, Shape> rows;
#define MUSTER_ONE(name, Request, Answer, action, object, cost) \
  rows[#name] = {"muster.v1." #Request, "muster.v1." #Answer, false, false};
#define MUSTER_STREAM(name, Request, Answer, action, object, cost) \
  rows[#name] = {"muster.v1." #Request, "muster.v1." #Answer, false, true};
#define MUSTER_INTAKE(name, Request, Answer, action, object, cost) \
  rows[#name] = {"muster.v1." #Request, "muster.v1." #Answer, true, false};
#define MUSTER_DUPLEX(name, Request, Answer, action, object, cost) \
  rows[#name] = {"muster.v1." #Request, "muster.v1." #Answer, true, true};
  MUSTER_JOB_CALLS(MUSTER_ONE, MUSTER_STREAM, MUSTER_INTAKE, MUSTER_DUPLEX)
#undef MUSTER_ONE
#undef MUSTER_STREAM
#undef MUSTER_INTAKE
#undef MUSTER_DUPLEX
  const auto& service = ServiceOf("JobService");
  for (int i = 0; i < service.method_count(); ++i) {
    const auto& method = *service.method(i);
    const Shape real = {method.input_type()->full_name(), method.output_type()->full_name(),
                        method.client_streaming(), method.server_streaming()};
    EXPECT_TRUE(rows[method.name()] == real) << method.name();
  }
}

TEST(CallsTest, OnlyWorkersServe) {
  for (const Call& call : Calls()) {
    const bool is_workers =
        call.service == "WorkerService" || (call.service == "ExecService" && call.name != "Exec");
    EXPECT_EQ(call.action == Action::kServe, is_workers) << call.name;
  }
  EXPECT_EQ(FindCall("JobService", "GetJob")->action, Action::kRead);
  EXPECT_EQ(FindCall("WorkerService", "Connect")->object, Object::kNode);
  EXPECT_EQ(FindCall("JobService", "Connect"), nullptr);
}

}  // namespace
}  // namespace muster::coordinator
