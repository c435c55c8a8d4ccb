// Jobs as a trace in Chrome's JSON format, which Perfetto and chrome://tracing open: the job's states,
// attempts, checkpoints and events, and on each node the lifetime of every rank. Pure.
// Source: "Trace Event Format", Google, 2016.
#pragma once

#include <string>
#include <vector>

#include "muster/v1/job_service.pb.h"

namespace muster::client {

struct TracedJob {
  v1::JobRecord record;
  std::vector<v1::Event> events;   // oldest first
  std::vector<std::string> texts;  // texts[i] is events[i] in words
};

// `now_ms` ends what has not ended. Times count from the first submission.
std::string TraceOf(const std::vector<TracedJob>& jobs, int64_t now_ms);

}  // namespace muster::client
