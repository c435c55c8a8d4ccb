// Gates: the context of what a worker may send and fetch (contexts.h).
#pragma once

#include "coordinator/rpc/code_gate.h"
#include "coordinator/rpc/job_gate.h"
#include "coordinator/rpc/resume_gate.h"
#include "coordinator/rpc/sample_gate.h"

namespace muster::coordinator {

struct Gates {
  JobGate jobs = {};
  SampleGate samples = {};
  ResumeGate resume = {};
  CodeGate code = {};
};

}  // namespace muster::coordinator
