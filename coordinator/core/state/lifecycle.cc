#include "coordinator/core/state/lifecycle.h"

namespace muster::coordinator {
namespace {

constexpr JobEdge kEdges[] = {
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_STARTING, "all devices of a gang were found"},
    {v1::JOB_STATE_QUEUED, v1::JOB_STATE_CANCELLED, "cancelled while it waited"},
    {v1::JOB_STATE_STARTING, v1::JOB_STATE_RUNNING, "every node has spawned its ranks"},
    {v1::JOB_STATE_STARTING, v1::JOB_STATE_STOPPING,
     "a launch failed, a rank died, or it was cancelled"},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_STOPPING,
     "a rank died, a node was lost, or it was cancelled"},
    {v1::JOB_STATE_RUNNING, v1::JOB_STATE_SUCCEEDED, "every rank exited with 0"},
    {v1::JOB_STATE_STOPPING, v1::JOB_STATE_SUCCEEDED,
     "every rank had exited with 0 before the stop reached it"},
    {v1::JOB_STATE_STOPPING, v1::JOB_STATE_QUEUED, "next attempt immediately"},
    {v1::JOB_STATE_STOPPING, v1::JOB_STATE_RESTARTING, "next attempt after a pause"},
    {v1::JOB_STATE_STOPPING, v1::JOB_STATE_FAILED, "no restart is left, or none would help"},
    {v1::JOB_STATE_STOPPING, v1::JOB_STATE_CANCELLED, "cancelled, and nothing of it is alive"},
    {v1::JOB_STATE_RESTARTING, v1::JOB_STATE_QUEUED, "the pause is over"},
    {v1::JOB_STATE_RESTARTING, v1::JOB_STATE_CANCELLED, "cancelled between two attempts"},
};

}  // namespace

std::span<const JobEdge> JobEdges() { return kEdges; }

bool IsLegalEdge(v1::JobState from, v1::JobState to) {
  for (const JobEdge& edge : kEdges) {
    if (edge.from == from && edge.to == to) return true;
  }
  return false;
}

bool WasAskedToLeave(v1::StopCause cause) {
  return cause == v1::STOP_CAUSE_PREEMPTED || cause == v1::STOP_CAUSE_DRAINED ||
         cause == v1::STOP_CAUSE_HELD;
}

}  // namespace muster::coordinator
