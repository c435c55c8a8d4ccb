// Webhooks and commands: which may be called, what they are told, and when each is tried again.
#include <arpa/inet.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <map>
#include <string>

#include "common/text/url.h"
#include "coordinator/notify/address.h"
#include "coordinator/notify/delivery.h"
#include "coordinator/notify/message.h"

namespace muster::coordinator {
namespace {

bool MayCallText(const std::string& text, const std::vector<Network>& allowed = {}) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1)
    return MayCall(reinterpret_cast<sockaddr*>(&v4), allowed);
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr), 1) << text;
  return MayCall(reinterpret_cast<sockaddr*>(&v6), allowed);
}

TEST(NotifyTest, OnlyPublicAddressesMayBeCalled) {
  for (const char* text : {"8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8",
                           "64:ff9b::808:808"}) {
    EXPECT_TRUE(MayCallText(text)) << text;
  }
  for (const char* text : {"127.0.0.1",
                           "127.8.8.8",
                           "0.0.0.0",
                           "10.1.2.3",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.1.1",
                           "169.254.169.254",
                           "100.64.0.1",
                           "224.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "fe80::1",
                           "fd00::1",
                           "ff02::1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::127.0.0.1",
                           "64:ff9b::7f00:1",
                           "2002:7f00:1::",
                           "2002:a9fe:a9fe::1"}) {
    EXPECT_FALSE(MayCallText(text)) << text;
  }
}

TEST(NotifyTest, TheOperatorMayAllowMore) {
  const std::vector<Network> allowed = {*ParseNetwork("127.0.0.0/30"), *ParseNetwork("fd00::/8"),
                                        *ParseNetwork("10.0.0.7")};
  for (const char* text : {"127.0.0.3", "::ffff:127.0.0.1", "fd12::1", "10.0.0.7"})
    EXPECT_TRUE(MayCallText(text, allowed)) << text;
  for (const char* text : {"127.0.0.4", "10.0.0.8", "fc00::1"})
    EXPECT_FALSE(MayCallText(text, allowed)) << text;
  for (const char* text : {"", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "lan", "/8"})
    EXPECT_FALSE(ParseNetwork(text).ok()) << text;
}

v1::JobRecord FailedJob() {
  v1::JobRecord job;
  job.set_id(7);
  job.set_name("bert-7");
  job.set_state(v1::JOB_STATE_FAILED);
  job.set_reason("rank 1 said \"no\"\n");
  job.set_exit_code(3);
  (*job.mutable_spec()->mutable_env())["HOOK_SECRET"] = "It's a Secret to Everybody";
  return job;
}

TEST(NotifyTest, ARequestIsSignedAndCarriesTheNameOfItsDelivery) {
  v1::JobRecord job = FailedJob();
  v1::Notify& notify = *job.mutable_spec()->add_notify();
  notify.set_webhook("http://hooks.example:8080/a?b=c");
  notify.set_secret_env("HOOK_SECRET");
  const Delivery end{.job = 7};
  const auto request = MakePost(job, end, "c1-7-0");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->url.host, "hooks.example");
  EXPECT_EQ(request->url.target, "/a?b=c");
  EXPECT_NE(request->body.find("\"state\":\"FAILED\""), std::string::npos) << request->body;
  EXPECT_NE(request->body.find("\"reason\":\"rank 1 said \\\"no\\\"\\n\""), std::string::npos)
      << request->body;
  EXPECT_EQ(request->body.find("Secret"), std::string::npos);
  // A repetition has the same signature.
  EXPECT_EQ(MakePost(job, end, "c1-7-0")->body, request->body);
  std::map<std::string, std::string> headers(request->headers.begin(), request->headers.end());
  EXPECT_EQ(headers["X-Muster-Delivery"], "c1-7-0");
  EXPECT_EQ(headers["X-Hub-Signature-256"],
            SignatureOf(request->body, "It's a Secret to Everybody"));
  // GitHub's own example of a signature, "Validating webhook deliveries".
  EXPECT_EQ(SignatureOf("Hello, World!", "It's a Secret to Everybody"),
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
}

TEST(NotifyTest, AnEntryIsToldWhatItAsksFor) {
  v1::Notify any, failure;
  failure.add_on(v1::NOTIFY_ON_FAILURE);
  EXPECT_TRUE(Wants(any, v1::JOB_STATE_SUCCEEDED));
  EXPECT_TRUE(Wants(any, v1::JOB_STATE_CANCELLED));
  EXPECT_FALSE(Wants(any, v1::JOB_STATE_RUNNING));
  EXPECT_TRUE(Wants(failure, v1::JOB_STATE_FAILED));
  EXPECT_FALSE(Wants(failure, v1::JOB_STATE_SUCCEEDED));
  v1::Notify finding;
  finding.add_on(v1::NOTIFY_ON_FINDING);
  EXPECT_FALSE(Wants(finding, v1::JOB_STATE_FAILED));
}

v1::JobRecord JobWithAFinding() {
  v1::JobRecord job = FailedJob();
  job.set_state(v1::JOB_STATE_RUNNING);
  job.mutable_spec()->set_workdir("/work");
  job.mutable_spec()->add_notify()->set_webhook("https://hooks.example/");
  job.mutable_spec()->add_notify()->add_command("mail");
  v1::Finding& finding = *job.add_noticed();
  finding.set_code("idle-devices");
  finding.set_attempt(2);
  finding.set_severity(v1::FINDING_SEVERITY_WARNING);
  finding.set_sentence("1 of 2 devices is busy");
  finding.set_fix("jobctl run -n 2");
  for (const char* node : {"node2", "node1"}) {
    if (job.attempts().empty()) job.add_attempts()->set_number(2);
    job.mutable_attempts(0)->add_parts()->set_node(node);
  }
  return job;
}

const Delivery kFinding{.job = 7, .entry = 1, .finding = "idle-devices", .attempt = 2};

TEST(NotifyTest, AFindingIsToldWithTheSameBytesWhateverBecameOfTheJob) {
  v1::JobRecord job = JobWithAFinding();
  const Delivery delivery{.job = 7, .finding = "idle-devices", .attempt = 2};
  const auto request = MakePost(job, delivery, "c1-7-0-2-idle-devices");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->body,
            "{\"version\":1,\"event\":\"finding\",\"delivery\":\"c1-7-0-2-idle-devices\","
            "\"job\":7,\"name\":\"bert-7\",\"owner\":\"\",\"attempt\":2,"
            "\"finding\":\"idle-devices\",\"severity\":\"warning\","
            "\"reason\":\"1 of 2 devices is busy\",\"cause\":\"\",\"fix\":\"jobctl run -n 2\"}");
  EXPECT_EQ(request->headers[0].second, "finding");
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(MakePost(job, delivery, "c1-7-0-2-idle-devices")->body, request->body);
  EXPECT_TRUE(absl::IsNotFound(MakePost(job, {.job = 7, .finding = "throttled"}, "n").status()));
}

TEST(NotifyTest, ACommandIsToldInItsEnvironmentAndRunsWhereTheNewestAttemptWas) {
  const auto run = MakeRun(JobWithAFinding(), kFinding, "c1-7-1-2-idle-devices");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->command(0), "mail");
  EXPECT_EQ(run->workdir(), "/work");
  EXPECT_EQ(run->env().at("HOOK_SECRET"), "It's a Secret to Everybody") << "the job's own";
  EXPECT_EQ(run->told().at("MUSTER_JOB"), "7");
  EXPECT_EQ(run->told().at("MUSTER_NAME"), "bert-7");
  EXPECT_EQ(run->told().at("MUSTER_EVENT"), "finding");
  EXPECT_EQ(run->told().at("MUSTER_STATE"), "RUNNING");
  EXPECT_EQ(run->told().at("MUSTER_REASON"), "1 of 2 devices is busy");
  EXPECT_EQ(run->told().at("MUSTER_DELIVERY"), "c1-7-1-2-idle-devices");
  EXPECT_EQ(NodesToRunOn(JobWithAFinding()), (std::vector<std::string>{"node2", "node1"}));
  EXPECT_TRUE(NodesToRunOn(v1::JobRecord()).empty());
}

TEST(NotifyTest, WhatIsToldOfALiveJobIsEnoughForEveryMessage) {
  const v1::JobRecord job = JobWithAFinding();
  const v1::JobRecord facts = FactsToTell(job);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*MakeRun(facts, kFinding, "n"),
                                                                 *MakeRun(job, kFinding, "n")));
  EXPECT_EQ(MakePost(facts, {.job = 7}, "n")->body, MakePost(job, {.job = 7}, "n")->body);
  EXPECT_EQ(NodesToRunOn(facts), NodesToRunOn(job));
}

TEST(NotifyTest, ADeliveryIsReadBackFromItsLine) {
  for (const Delivery& delivery : {kFinding, Delivery{.job = 7}}) {
    const auto read = ParseLine(LineOf(delivery, 12));
    ASSERT_TRUE(read.has_value()) << LineOf(delivery, 12);
    EXPECT_EQ(read->first, delivery);
    EXPECT_EQ(read->second, 12);
  }
  EXPECT_EQ(LineOf({.job = 7, .entry = 1}, 12), "7 1 12") << "as before there were findings";
  EXPECT_NE(NameOf("c1", kFinding), NameOf("c1", {.job = 7, .entry = 1}));
  for (const char* line :
       {"", "7 1", "7 1 x", "7 1 12 2", "7 1 12 2 ", "7 1 12 x idle", "a b c d e"})
    EXPECT_FALSE(ParseLine(line).has_value()) << line;
}

TEST(NotifyTest, ACommandIsGivenUpWhenItsNodesStayAwayNotWhenTheCoordinatorWas) {
  EXPECT_FALSE(IsCommandGivenUp(kCommandGivenUpAfterMs + 1, 1)) << "it was down for that long";
  EXPECT_FALSE(IsCommandGivenUp(kCommandGivenUpAfterMs, 50));
  EXPECT_TRUE(IsCommandGivenUp(kCommandGivenUpAfterMs + 1, kCommandTriesMin));
}

TEST(NotifyTest, PausesDoubleUpToFiveMinutesAndRefusalsEndThem) {
  EXPECT_EQ(PauseMs(1, 1'000), 1'000);
  EXPECT_EQ(PauseMs(3, 1'000), 4'000);
  EXPECT_EQ(PauseMs(50, 1'000), 300'000);
  EXPECT_TRUE(IsDelivered(204));
  for (const int status : {301, 302, 400, 404, 410}) EXPECT_TRUE(IsRefused(status)) << status;
  for (const int status : {200, 408, 429, 500, 503}) EXPECT_FALSE(IsRefused(status)) << status;
}

TEST(NotifyTest, UrlsThatAreAmbiguousOrCarrySecretsAreRefused) {
  for (const char* text : {"https://hooks.example", "http://a:1/x?y", "http://[::1]:80/"})
    EXPECT_TRUE(common::ParseHttpUrl(text).ok()) << text;
  EXPECT_EQ(common::ParseHttpUrl("http://[::1]:81/")->Authority(), "[::1]:81");
  for (const char* text :
       {"", "ftp://a/", "//a/", "http://", "http://:80/", "http://u:p@a/", "http://a@b/",
        "http://a/#f", "http://a b/", "http://a/\r\nX: y", "http://a:0/", "http://a:65536/",
        "http://a:80x/", "http://[::1/", "http://[::1]80/", "http://a\\b/", "HTTP://a/"}) {
    EXPECT_FALSE(common::ParseHttpUrl(text).ok()) << text;
  }
}

}  // namespace
}  // namespace muster::coordinator
