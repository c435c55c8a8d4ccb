// What a caller sees of a job: every answer that has a record, or an event with one, passes here.
#pragma once

#include "coordinator/core/state/input.h"
#include "muster/v1/event.pb.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct Access;

// True for the job's owner, a member of its project, or an administrator. Any thread.
bool MaySeeCode(const Access& access, const Caller& caller, const v1::JobRecord& job);

void HideFromCaller(const Access& access, const Caller& caller, v1::JobRecord& job);
// The same in an event's copy of a job.
void HideFromCaller(const Access& access, const Caller& caller, v1::Event& event);

}  // namespace muster::coordinator
