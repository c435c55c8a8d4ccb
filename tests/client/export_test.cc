// The pure parts of jobctl export: HTTP, MLflow's messages, traces, points as text, event records.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "client/export/mlflow.h"
#include "client/export/mlflow_messages.h"
#include "client/export/point_text.h"
#include "client/export/trace.h"
#include "common/tensorboard/event_file.h"
#include "common/tensorboard/event_record.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

std::string UrlText(std::string_view url) {
  const auto parsed = ParseTrackingUrl(url);
  if (!parsed.ok()) return "error";
  return common::StrCat(parsed->is_https ? "tls|" : "", parsed->host, "|", parsed->port, "|",
                        parsed->target);
}

TEST(HttpTest, UrlsOfATrackingServer) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"http://a", "a|80|"},
      {"http://a:5000/", "a|5000|"},
      {"http://a.b:5000/x/y//", "a.b|5000|/x/y"},
      {"http://[::1]:5000/x", "::1|5000|/x"},
      {"http://[::1]", "::1|80|"},
      {"https://a", "tls|a|443|"},
      {"https://a:5000/x/", "tls|a|5000|/x"},
      {"http://", "error"},
      {"http://:80", "error"},
      {"http://a:0", "error"},
      {"http://a:65536", "error"},
      {"http://a:x", "error"},
      {"http://user@a", "error"},
      {"http://a/?q", "error"},
      {"http://a/\r\nX: y", "error"},
      {"http://[::1", "error"},
      {"a:5000", "error"}};
  for (const auto& [url, parts] : cases) EXPECT_EQ(UrlText(url), parts) << url;
}

std::string ResponseText(std::string_view bytes, bool ended) {
  const auto response = common::ParseHttpResponse(bytes, ended);
  if (!response.ok()) return "error";
  if (!response->has_value()) return "more";
  return common::StrCat((*response)->status, " ", (*response)->body);
}

TEST(HttpTest, ResponsesOfEachKindOfLength) {
  const std::string sized = "HTTP/1.1 200 OK\r\nContent-length:  5\r\n\r\nhello";
  const std::string chunked =
      "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  for (const std::string& whole : {sized, chunked}) {
    for (size_t size = 0; size + 3 < whole.size(); ++size) {
      EXPECT_EQ(ResponseText(std::string_view(whole).substr(0, size), false), "more") << size;
    }
  }
  EXPECT_EQ(ResponseText(sized, false), "200 hello");
  EXPECT_EQ(ResponseText(chunked, false), "503 abcde");
  EXPECT_EQ(ResponseText("HTTP/1.0 200 OK\r\n\r\nall", false), "more");
  EXPECT_EQ(ResponseText("HTTP/1.0 200 OK\r\n\r\nall", true), "200 all");
  EXPECT_EQ(ResponseText("HTTP/1.1 204 None\r\n\r\n", false), "204 ");
  std::string patient;
  for (int i = 0; i < 100'000; ++i) patient += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(ResponseText(patient + sized, false), "200 hello");
}

TEST(HttpTest, WhatIsNotHttpIsAnError) {
  for (const char* bytes : {"", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 abc\r\n\r\n",
                            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
                            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
                            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    EXPECT_EQ(ResponseText(bytes, true), "error") << bytes;
  }
  EXPECT_EQ(ResponseText(std::string(common::kHttpResponseMax + 1, 'x'), false), "error");
  const std::string long_head =
      "HTTP/1.1 200 OK\r\nX: " + std::string(common::kHttpHeadMax, 'x') + "\r\nContent-Length: 0";
  EXPECT_EQ(ResponseText(long_head, false), "error");
  EXPECT_EQ(ResponseText(long_head + "\r\n\r\n", false), "error");
}

TEST(MlflowTest, NamesBecomeOnesThatItTakes) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"train/loss", "train/loss"},
                                                                  {"a b-c_d.e", "a b-c_d.e"},
                                                                  {"loss:é", "loss___"},
                                                                  {"../../etc", "_/_/etc"},
                                                                  {"/abs", "_/abs"},
                                                                  {"a//b/", "a/_/b/_"},
                                                                  {"", "_"},
                                                                  {".", "_"},
                                                                  {"a\nb", "a_b"}};
  for (const auto& [name, clean] : cases) EXPECT_EQ(MlflowName(name), clean) << name;
  EXPECT_LE(MlflowName(std::string(999, 'x')).size(), kMlflowNameBytesMax);
}

TEST(MlflowTest, ABatchIsFullAtEitherLimit) {
  for (const size_t name_bytes : {size_t{1}, size_t{250}}) {
    MlflowBatch batch("run");
    const std::string name(name_bytes, 'x');
    size_t points = 0;
    for (; !batch.full(); ++points) {
      batch.Add(
          {.rank = 1, .step = INT64_MIN, .time_ms = INT64_MIN, .name = name, .value = -1e-300}, 0);
    }
    EXPECT_LE(points, kMlflowMetricsMax);
    const std::string body = batch.Take();
    EXPECT_LE(body.size(), kMlflowBytesMax);
    EXPECT_EQ(nlohmann::json::parse(body)["metrics"].size(), points);
    EXPECT_TRUE(batch.empty());
  }
}

TEST(MlflowTest, ParamsAreCutToItsLimits) {
  std::vector<std::pair<std::string, std::string>> params(
      150, {"name", std::string(kMlflowParamBytesMax - 1, 'x') + "é\"\n"});
  const auto body = nlohmann::json::parse(ParamsBody("r", params));
  EXPECT_EQ(body["params"].size(), kMlflowParamsMax);
  EXPECT_EQ(body["params"][0]["value"], std::string(kMlflowParamBytesMax - 1, 'x'));
}

TEST(PointTextTest, HostileNamesKeepTheirPlace) {
  const ExportedPoint point{.job = "a,b",
                            .attempt = 1,
                            .rank = 2,
                            .step = -3,
                            .time_ms = 4,
                            .name = "=\"x\"\ny",
                            .value = std::nan("")};
  std::string csv, json;
  AppendCsvPoint(point, &csv);
  AppendJsonPoint(point, &json);
  EXPECT_EQ(csv, "\"a,b\",1,2,-3,4,\"=\"\"x\"\"\ny\",NaN\n");
  EXPECT_EQ(json,
            "{\"job\": \"a,b\", \"attempt\": 1, \"rank\": 2, \"step\": -3, \"time_ms\": 4, "
            "\"name\": \"=\\\"x\\\"\\ny\", \"value\": \"NaN\"}\n");
}

TEST(EventRecordTest, WhatIsWrittenReadsBack) {
  std::string file;
  common::AppendFileVersion(12.5, &file);
  const std::string tag(300, 't');  // a length of two bytes
  common::AppendScalarEvent({.tag = tag, .step = -7, .value = 0.5, .wall_time = 3.25}, &file);
  common::AppendScalarEvent({.tag = "n", .step = INT64_MAX, .value = std::nan("")}, &file);
  std::vector<common::EventRecord> events;
  for (std::string_view rest = file; !rest.empty();) {
    const auto record = common::ReadEventRecord(rest);
    ASSERT_TRUE(record.ok() && record->has_value());
    events.push_back((*record)->event);
    rest.remove_prefix((*record)->bytes);
  }
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].wall_time, 12.5);
  EXPECT_TRUE(events[0].scalars.empty());
  EXPECT_EQ(events[1].step, -7);
  EXPECT_EQ(events[1].wall_time, 3.25);
  EXPECT_EQ(events[1].scalars[0].tag, tag);
  EXPECT_EQ(events[1].scalars[0].value, 0.5);
  EXPECT_EQ(events[2].step, INT64_MAX);
  EXPECT_TRUE(std::isnan(events[2].scalars[0].value));
}

TEST(TraceTest, ShowsStatesAttemptsRanksAndCheckpoints) {
  TracedJob job;
  v1::JobRecord& record = job.record;
  record.set_name("a\"b\n");
  record.set_submitted_ms(1'000);
  record.set_finished_ms(9'000);
  record.set_state(v1::JOB_STATE_FAILED);
  v1::Attempt* attempt = record.add_attempts();
  attempt->set_started_ms(2'000);
  attempt->set_running_ms(3'000);
  attempt->set_ended_ms(8'000);
  v1::NodePart* part = attempt->add_parts();
  part->set_node("n1");
  part->set_first_rank(4);
  part->set_local_world_size(2);
  v1::RankExit* exit = part->add_exits();
  exit->set_rank(5);
  exit->set_signal(9);
  exit->set_ended_ms(7'000);
  v1::Event event;
  event.set_at_ms(3'000);
  event.mutable_job_state_changed()->set_to(v1::JOB_STATE_RUNNING);
  job.events.push_back(event);
  job.texts.push_back("STARTING → RUNNING");
  v1::Checkpoint* checkpoint = record.add_checkpoints();
  checkpoint->set_step(40);
  checkpoint->set_committed_ms(5'000);
  const auto trace = nlohmann::json::parse(TraceOf({job}, 10'000))["traceEvents"];
  std::string text;
  for (const auto& each : trace) {
    if (each["ph"] == "M") continue;
    common::StrAppend(&text, each["pid"].dump(), "/", each["tid"].dump(), " ",
                      each["name"].get<std::string>(), " ", each["ts"].dump(), "+",
                      each.contains("dur") ? each["dur"].dump() : std::string("i"), "\n");
  }
  EXPECT_EQ(text,
            "1/1 QUEUED 0+2000000\n"
            "1/1 FAILED 8000000+i\n"
            "1/2 attempt 0 1000000+6000000\n"
            "2/5 attempt 0 2000000+5000000\n"
            "2/6 attempt 0 2000000+4000000\n"
            "1/3 step 40 4000000+i\n"
            "1/4 STARTING → RUNNING 2000000+i\n");
}

}  // namespace
}  // namespace muster::client
