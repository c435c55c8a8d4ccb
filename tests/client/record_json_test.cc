// One thing for programs: the exact text that scripts read.
#include "client/terminal/record_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/text/job_text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

RecordFields Reason() {
  RecordFields fields;
  fields.Add("state", "QUEUED").Add("text", "needs 4 gpu\u202E");
  fields.AddTexts("details", {"node1: 2 of 4", "a\nb"}).AddNumbers("ranks", {});
  RecordFields inner;
  inner.Add("count", int64_t{1}).Add("ok", true);
  return fields.Add("none", Value()).AddObject("first", inner).AddList("all", {inner, inner});
}

TEST(RecordJsonTest, JsonStartsWithVersionAndKindAndKeepsTheOrder) {
  EXPECT_EQ(*RecordText("JobReason", Reason(), "json"),
            "{\n"
            " \"version\": 1,\n"
            " \"kind\": \"JobReason\",\n"
            " \"state\": \"QUEUED\",\n"
            " \"text\": \"needs 4 gpu\\u202e\",\n"
            " \"details\": [\n"
            "  \"node1: 2 of 4\",\n"
            "  \"a\\nb\"\n"
            " ],\n"
            " \"ranks\": [],\n"
            " \"none\": null,\n"
            " \"first\": {\n  \"count\": 1,\n  \"ok\": true\n },\n"
            " \"all\": [\n"
            "  {\n   \"count\": 1,\n   \"ok\": true\n  },\n"
            "  {\n   \"count\": 1,\n   \"ok\": true\n  }\n"
            " ]\n"
            "}\n");
}

TEST(RecordJsonTest, YamlIsTheSame) {
  EXPECT_EQ(*RecordText("JobReason", Reason(), "yaml"),
            "version: 1\n"
            "kind: JobReason\n"
            "state: QUEUED\n"
            "text: \"needs 4 gpu\\u202e\"\n"
            "details:\n"
            "  - \"node1: 2 of 4\"\n"
            "  - \"a\\nb\"\n"
            "ranks: []\n"
            "none: null\n"
            "first:\n  count: 1\n  ok: true\n"
            "all:\n  - count: 1\n    ok: true\n  - count: 1\n    ok: true\n");
}

TEST(RecordJsonTest, BytesThatAreNoTextAreReplaced) {
  RecordFields fields;
  fields.Add("text", "a\xff");
  EXPECT_EQ(*RecordText("K", fields, "json"),
            "{\n \"version\": 1,\n \"kind\": \"K\",\n \"text\": \"a\uFFFD\"\n}\n");
}

TEST(RecordJsonTest, AMessageHasItsOwnFieldsBehind) {
  v1::WatchJobRequest message;
  message.set_job("7");
  EXPECT_EQ(*MessageText("Watch", message, "json"),
            "{\n \"version\": 1,\n \"kind\": \"Watch\",\n \"job\": \"7\",\n"
            " \"past_end\": false\n}\n");
}

TEST(RecordJsonTest, AJobIsARecordToo) {
  v1::JobRecord record;
  record.set_id(7);
  v1::Assessment assessment;
  EXPECT_TRUE(RecordJson(record, assessment)
                  ->starts_with("{\n \"version\": 1,\n \"kind\": \"Job\",\n \"id\": \"7\","));
  assessment.set_job(7);
  const auto json = nlohmann::json::parse(*RecordJson(record, assessment));
  EXPECT_EQ(json["kind"], "Job");
  EXPECT_EQ(json["assessment"]["job"], "7");
}

}  // namespace
}  // namespace muster::client
