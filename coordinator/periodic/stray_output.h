// Removes output and metrics of jobs that are gone: a removal that a kill cut off, or that a store refused, left them.
#pragma once

#include <functional>

namespace muster::coordinator {

struct Jobs;
struct JobStores;
struct Process;

// One look, on pools' threads; then `done`.
void SweepStrayOutput(Jobs& jobs, JobStores& stores, Process& process, std::function<void()> done);
// Looks a while after the start, and then every few hours, until the pool stops.
void KeepSweepingOutput(Jobs& jobs, JobStores& stores, Process& process);

}  // namespace muster::coordinator
