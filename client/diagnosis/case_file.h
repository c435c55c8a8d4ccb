// What is known about a job when it is diagnosed: everything that the report and the bundle are made
// from. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/diagnosis/hang_report.h"
#include "client/diagnosis/rank_record.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

struct CaseEvent {
  int64_t at_ms = 0;
  std::string node;
  std::string text;
};

struct CaseFile {
  int64_t now_ms = 0;
  std::string client_version;
  v1::GetServerResponse server;
  v1::JobRecord job;
  v1::JobSummary summary;
  std::string why;                // for a waiting job
  std::vector<CaseEvent> events;  // of the job, oldest first
  std::vector<v1::NodeView> nodes;
  std::map<uint32_t, std::string> tails;  // the end of these ranks' output in the diagnosed attempt
  int64_t last_metric_ms = 0;             // 0: unknown
  std::vector<v1::MetricSummary> metrics;
  std::vector<RankRecord> records;       // of a running job
  std::vector<std::string> raw_records;  // the same in JSON, as ranks and workers sent them
  std::vector<std::string> gaps;         // what could not be read, and why
};

}  // namespace muster::client
