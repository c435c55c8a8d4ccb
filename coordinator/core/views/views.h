// What people see of the state: summaries, reasons, event texts. Pure; the same wording for live
// and finished jobs.
#pragma once

#include <string>

#include "coordinator/core/scheduling/placement.h"
#include "coordinator/core/state/state.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// The job's reason; while it starts, with what its nodes are preparing, which is not journaled: "2 ranks on 1
// node; node1: fetching code: 120 MB of 2.1 GB".
std::string ReasonForPeople(const v1::JobRecord& job);
// step, loss and similar fields are filled in by the caller from the metric store.
v1::JobSummary Summarize(const v1::JobRecord& job);
v1::NodeView ViewNode(const ClusterState& state, const Node& node);
// A problem with the cluster as a whole; empty if none.
std::string ClusterAlarm(const SchedulingState& state);
// "the coordinator's disk is almost full: 4 GB of 50 GB are free"; empty: it is not.
std::string DiskWarning(const ClusterState& state);
// The record as clients get it: without checkpoints' files, and within kAnswerBytesMax. Entries
// that do not fit are left out, oldest first, and counted (Attempt.exits_left_out, parts_left_out).
v1::JobRecord RecordForPeople(v1::JobRecord job);
// Why the job is in its state, in one sentence, with details below it (which jobs are ahead, what
// is free where).
v1::WhyResponse Why(const ClusterState& state, const v1::JobRecord& job, Now now);
// Without the files that the event carries.
v1::Event EventForPeople(v1::Event event);
// One event as a line without its time: "attempt 1: rank 1 on node-b was killed by signal 9
// (SIGKILL)".
std::string DescribeEvent(const v1::Event& event);
// "3 ranks on 2 nodes (node-a: cpu 0,1; node-b: cpu 0)".
std::string DescribeAttempt(const v1::Attempt& attempt);
// Two words and the number, e.g. "calm-otter-3"; or the label and the number.
std::string JobName(uint64_t id, const std::string& label);
// One sentence: "rank 1 on node-b exited with code 7", "rank 0 on node-a was killed by signal 9
// (SIGKILL)".
std::string DescribeExit(const v1::RankExit& exit);

}  // namespace muster::coordinator
