// What still works, but needs an operator's attention: for `jobctl nodes`, doctor, the page and /readyz.
#pragma once

#include <optional>
#include <vector>

#include "common/problem.h"

namespace muster::coordinator {

struct Access;
struct JobStores;
struct Process;

// The coordinator's certificate cannot be renewed (JC1370). Names no path: strangers may read it.
std::optional<common::Problem> CertificateWarning(const Access& access, const Process& process);
// That warning, and at most a few jobs whose streams the disk refuses (JC1626). Any thread.
std::vector<common::Problem> Warnings(const JobStores& stores, const Access& access,
                                      const Process& process);

}  // namespace muster::coordinator
