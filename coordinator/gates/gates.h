// Gates: the context of what a worker may send and fetch (contexts.h).
#pragma once

#include "coordinator/gates/code_gate.h"
#include "coordinator/gates/job_gate.h"
#include "coordinator/gates/resume_gate.h"
#include "coordinator/gates/resume_peers.h"
#include "coordinator/gates/sample_gate.h"

namespace muster::coordinator {

struct Gates {
  JobGate jobs = {};
  SampleGate samples = {};
  ResumeGate resume = {};
  ResumePeers peers = {};
  CodeGate code = {};
};

}  // namespace muster::coordinator
