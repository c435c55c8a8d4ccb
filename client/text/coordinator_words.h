// What is told about the coordinators that replace each other. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "muster/v1/job_service.pb.h"

namespace muster::client {

// "etcd has not answered h0 for 13s", or " yet"; empty: it answers the one that made the list.
std::string SilenceOfEtcd(const v1::ListCoordinatorsResponse& list, int64_t now_ms);

}  // namespace muster::client
