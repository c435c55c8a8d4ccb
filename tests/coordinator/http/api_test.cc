// /api/v1: queries as messages, which calls there are, what is refused, the OpenAPI document.
#include "coordinator/http/api/api.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "common/problem.h"
#include "coordinator/http/api/api_calls.h"
#include "coordinator/http/api/collected.h"
#include "coordinator/http/api/openapi.h"
#include "coordinator/http/api/query.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator::http {
namespace {

using common::Action;
using common::Call;
using common::Calls;

absl::Status Fill(const std::string& query, google::protobuf::Message& message) {
  return FillFromQuery(ParseTarget("/?" + query)->query, message);
}

TEST(HttpQuery, NamesFieldsAsJsonOrAsTheProto) {
  v1::StreamLogsRequest request;
  const absl::Status status = Fill(
      "job=%40last&ranks=0&ranks=2&tailLines=5&since_ms=-7&follow=true&stream=LOG_STREAM_STDERR&"
      "filter.grep=loss+nan&filter.ignoreCase=true&attempt=-2",
      request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(request.job(), "@last");
  EXPECT_EQ(request.ranks_size(), 2);
  EXPECT_EQ(request.ranks(1), 2u);
  EXPECT_EQ(request.tail_lines(), 5u);
  EXPECT_EQ(request.since_ms(), -7);
  EXPECT_TRUE(request.follow());
  EXPECT_EQ(request.stream(), v1::LOG_STREAM_STDERR);
  EXPECT_EQ(request.filter().grep(), "loss nan");
  EXPECT_TRUE(request.filter().ignore_case());
  EXPECT_EQ(request.attempt(), -2);
}

TEST(HttpQuery, AWrongParameterIsNamedWithWhatItMayBe) {
  const auto refusal = [](const std::string& query) {
    v1::StreamLogsRequest request;
    const absl::Status status = Fill(query, request);
    EXPECT_EQ(common::CodeOf(status), "JC1316") << query;
    return std::string(status.message());
  };
  EXPECT_NE(refusal("jbo=1").find("did you mean job?"), std::string::npos);
  EXPECT_NE(refusal("zzzzzz=1").find("it has: job, follow, ranks"), std::string::npos);
  EXPECT_NE(refusal("ranks=-1").find("not a number of type uint32"), std::string::npos);
  EXPECT_NE(refusal("ranks=4294967296").find("uint32"), std::string::npos);
  EXPECT_NE(refusal("follow=yes").find("true or false"), std::string::npos);
  EXPECT_NE(refusal("stream=STDERR").find("LOG_STREAM_STDERR"), std::string::npos);
  EXPECT_NE(refusal("filter=x").find("POST"), std::string::npos);
  EXPECT_NE(refusal("resume.offset=1").find("POST"), std::string::npos);
  EXPECT_NE(refusal("job.x=1").find("POST"), std::string::npos);
  EXPECT_NE(refusal("job=1&job=2").find("given twice"), std::string::npos);
}

TEST(HttpApi, HasEveryCallOfTheTableButThoseThatActWhenTheirStreamEnds) {
  std::set<std::string_view> served;
  for (const ApiCall& call : ApiCalls()) served.insert(call.row->name);
  for (const Call& call : Calls()) {
    if (call.service != "JobService") continue;
    const bool is_left_out = call.name == "Attend" || call.name == "Run" ||
                             call.name == "SubmitMany" || call.name == "SignIn" ||
                             call.name == "PushObjects";
    EXPECT_EQ(served.contains(call.name), !is_left_out) << call.name;
  }
}

unsigned StatusOf(const std::string& method, const std::string& address,
                  const std::string& content_type = "application/json") {
  const RequestHead head = {
      .peer = {}, .method = method, .target = address, .fields = {{"content-type", content_type}}};
  const auto refused = CheckApiCall(head, *ParseTarget(address));
  return refused.has_value() ? refused->status : 200;
}

TEST(HttpApi, ReadsAreAskedWithGetOrPostAndWritesWithPostAlone) {
  EXPECT_EQ(StatusOf("GET", "/api/v1/ListJobs"), 200u);
  EXPECT_EQ(StatusOf("HEAD", "/api/v1/ListJobs"), 200u);
  EXPECT_EQ(StatusOf("POST", "/api/v1/ListJobs"), 200u);
  EXPECT_EQ(StatusOf("DELETE", "/api/v1/ListJobs"), 405u);
  EXPECT_EQ(StatusOf("GET", "/api/v1/CancelJobs"), 405u);
  EXPECT_EQ(StatusOf("POST", "/api/v1/CancelJobs"), 200u);
  EXPECT_EQ(StatusOf("GET", "/api/v1/Listjobs"), 404u);
  EXPECT_EQ(StatusOf("POST", "/api/v1/Run"), 404u);
}

TEST(HttpApi, ABodyThatAFormOfAnotherPageCouldSendIsRefused) {
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                           "", "application/jsonx"})
    EXPECT_EQ(StatusOf("POST", "/api/v1/CancelJobs", type), 415u) << type;
  EXPECT_EQ(StatusOf("POST", "/api/v1/CancelJobs", "application/json; charset=utf-8"), 200u);
  EXPECT_EQ(StatusOf("POST", "/api/v1/CancelJobs?a=1"), 400u);
}

TEST(HttpCollected, EndsAStreamThatSaysMoreThanFitsAndTellsSo) {
  ApiAnswer answer;
  int finished = 0;
  int gone = 0;
  std::function<void()> later;
  Collected<v1::LogRecord> sink(
      [&](const absl::Status& status, ApiAnswer said) {
        EXPECT_TRUE(status.ok());
        answer = std::move(said);
        ++finished;
      },
      [&](std::function<void()> work) { later = std::move(work); });
  sink.Observe(nullptr, [&] { ++gone; });
  v1::LogRecord record;
  record.set_data(std::string(kCollectedBytesMax / 2, 'x'));
  sink.Write(record);
  EXPECT_EQ(finished, 0);
  sink.Write(record);
  EXPECT_EQ(finished, 1);
  EXPECT_EQ(gone, 0) << "a writer may hold the lock that this takes";
  later();
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(sink.Gone());
  sink.Write(record);
  sink.Close(absl::OkStatus());
  sink.Expire();
  EXPECT_EQ(finished, 1);
  EXPECT_EQ(answer.messages.size(), 2u);
  EXPECT_TRUE(answer.more);
}

TEST(HttpCollected, TellsWhetherTheStreamWasOver) {
  for (const bool is_over : {true, false}) {
    ApiAnswer answer;
    Collected<v1::LogRecord> sink(
        [&](const absl::Status&, ApiAnswer said) { answer = std::move(said); },
        [](const std::function<void()>& work) { work(); });
    sink.Write(v1::LogRecord());
    is_over ? sink.Close(absl::OkStatus()) : sink.Expire();
    EXPECT_EQ(answer.messages.size(), 1u);
    EXPECT_EQ(answer.more, !is_over);
  }
}

TEST(HttpOpenApi, DescribesEveryServedCallAndAllItsMessages) {
  const auto document = nlohmann::json::parse(OpenApiDocument());
  EXPECT_EQ(document["openapi"], "3.0.3");
  for (const ApiCall& call : ApiCalls()) {
    const auto path = "/api/v1/" + std::string(call.row->name);
    ASSERT_TRUE(document["paths"].contains(path)) << path;
    EXPECT_EQ(document["paths"][path].contains("get"), call.row->action == Action::kRead) << path;
    EXPECT_TRUE(document["paths"][path].contains("post")) << path;
  }
  const auto& schemas = document["components"]["schemas"];
  EXPECT_EQ(schemas["JobSummary"]["properties"]["id"]["type"], "string");
  EXPECT_EQ(schemas["JobSpec"]["properties"]["env"]["additionalProperties"]["type"], "string");
  // Every reference leads somewhere.
  const std::string text = document.dump();
  const std::string marker = "#/components/schemas/";
  for (size_t at = text.find(marker); at != std::string::npos; at = text.find(marker, at + 1)) {
    const size_t from = at + marker.size();
    const std::string name = text.substr(from, text.find('"', from) - from);
    EXPECT_TRUE(schemas.contains(name)) << name;
  }
  EXPECT_TRUE(document["paths"].contains("/api/v1/CancelJobs"));
}

}  // namespace
}  // namespace muster::coordinator::http
