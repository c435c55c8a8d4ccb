// What works still, but needs somebody: for `jobctl nodes`, doctor, the page and /readyz.
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
// That, and jobs whose streams the disk refuses (JC1626), at most a few of them. Any thread.
std::vector<common::Problem> Warnings(const JobStores& stores, const Access& access,
                                      const Process& process);

}  // namespace muster::coordinator
