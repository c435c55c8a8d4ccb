// /metrics: the two formats, and what is taken from the cluster's state.
#include "coordinator/http/metrics/exposition.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "coordinator/http/metrics/telemetry.h"

namespace muster::coordinator::http {
namespace {

using Format = Exposition::Format;
using Kind = Exposition::Kind;

std::string Page(Format format) {
  Exposition page(format);
  page.Family("m_calls_total", Kind::kCounter, "Calls, by \"way\" \\ in.");
  page.Sample({{"call", "Get\"Job\\\n"}, {"way", "http"}}, 3);
  page.Family("m_build_info", Kind::kInfo, "Version.");
  page.Sample({{"version", "1"}}, 1);
  page.One("m_ratio", Kind::kGauge, "Some ratio.", 0.5);
  return std::move(page).Finish();
}

TEST(Exposition, WritesPrometheusText) {
  EXPECT_EQ(Page(Format::kText),
            "# HELP m_calls_total Calls, by \"way\" \\\\ in.\n# TYPE m_calls_total counter\n"
            "m_calls_total{call=\"Get\\\"Job\\\\\\n\",way=\"http\"} 3\n"
            "# HELP m_build_info Version.\n# TYPE m_build_info gauge\n"
            "m_build_info{version=\"1\"} 1\n"
            "# HELP m_ratio Some ratio.\n# TYPE m_ratio gauge\nm_ratio 0.5\n");
}

TEST(Exposition, WritesOpenMetrics) {
  EXPECT_EQ(Page(Format::kOpenMetrics),
            "# HELP m_calls Calls, by \\\"way\\\" \\\\ in.\n# TYPE m_calls counter\n"
            "m_calls_total{call=\"Get\\\"Job\\\\\\n\",way=\"http\"} 3\n"
            "# HELP m_build Version.\n# TYPE m_build info\n"
            "m_build_info{version=\"1\"} 1\n"
            "# HELP m_ratio Some ratio.\n# TYPE m_ratio gauge\nm_ratio 0.5\n# EOF\n");
}

TEST(Exposition, WritesNumbersAsScrapersReadThem) {
  const auto number = [](double value) {
    Exposition page(Format::kText);
    page.One("n", Kind::kGauge, "N.", value);
    const std::string text = std::move(page).Finish();
    return text.substr(text.rfind("\nn ") + 3);
  };
  EXPECT_EQ(number(1'234'567'890'123), "1234567890123\n");
  EXPECT_EQ(number(-1), "-1\n");
  EXPECT_EQ(number(0.1), "0.1\n");
  EXPECT_EQ(number(1e300), "1e+300\n");
  EXPECT_EQ(number(std::numeric_limits<double>::quiet_NaN()), "NaN\n");
  EXPECT_EQ(number(std::numeric_limits<double>::infinity()), "+Inf\n");
}

TEST(Exposition, IsOpenMetricsOnlyForWhoNamesThatVersion) {
  EXPECT_EQ(ChooseFormat("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            Format::kOpenMetrics);
  EXPECT_EQ(ChooseFormat("text/plain;q=0.5, application/openmetrics-text; version=1.0.0;q=0.9"),
            Format::kOpenMetrics);
  EXPECT_EQ(ChooseFormat("application/openmetrics-text;version=0.0.1"), Format::kText);
  EXPECT_EQ(ChooseFormat("application/openmetrics-text;version=1.0.0;q=0"), Format::kText);
  EXPECT_EQ(ChooseFormat("text/plain;version=0.0.4"), Format::kText);
  EXPECT_EQ(ChooseFormat("*/*"), Format::kText);
  EXPECT_EQ(ChooseFormat(""), Format::kText);
}

TEST(Telemetry, GivesSeriesToTheNewestRunningJobsAndCountsTheOthers) {
  ClusterState state;
  const size_t running = kJobSeriesMax + 7;
  for (uint64_t id = 1; id <= running; ++id) {
    v1::JobRecord& job = state.jobs.Add(id);
    job.set_id(id);
    job.set_state(v1::JOB_STATE_RUNNING);
  }
  v1::JobRecord& queued = state.jobs.Add(running + 1);
  queued.set_id(running + 1);
  queued.set_state(v1::JOB_STATE_QUEUED);
  state.queue.insert(QueuePlace{.priority = 0, .job = running + 1});
  state.timers[running + 1].state_since_mono_ms = 1'000;
  state.next_job_id = running + 2;
  const ClusterFacts facts = FactsOfCluster(state, {.mono_ms = 3'500});
  EXPECT_EQ(facts.running.size(), kJobSeriesMax);
  EXPECT_EQ(facts.running.front().summary.id(), running);
  EXPECT_EQ(facts.left_out, 7u);
  EXPECT_EQ(facts.jobs.at("running"), running);
  EXPECT_EQ(facts.jobs.at("queued"), 1u);
  EXPECT_EQ(facts.jobs.at("stopping"), 0u);
  EXPECT_EQ(facts.waiting, 1u);
  EXPECT_EQ(facts.oldest_waiting_s, 2.5);
  EXPECT_EQ(facts.job_numbers, running + 1);
}

TEST(Telemetry, CountsTheDevicesOfNodesInService) {
  ClusterState state;
  for (const char* name : {"a", "b"}) {
    Node& node = state.nodes[name];
    node.record.mutable_facts()->set_name(name);
    node.record.set_state(v1::NODE_STATE_ALIVE);
    node.record.mutable_facts()->add_devices()->set_kind("gpu");
  }
  state.nodes["b"].record.set_draining(true);
  const ClusterFacts facts = FactsOfCluster(state, {});
  EXPECT_EQ(facts.devices.at("gpu").total, 1u);
  EXPECT_EQ(facts.devices.at("gpu").used, 0u);
  EXPECT_EQ(facts.nodes.at("alive"), 2u);
  EXPECT_EQ(facts.draining, 1u);
}

}  // namespace
}  // namespace muster::coordinator::http
