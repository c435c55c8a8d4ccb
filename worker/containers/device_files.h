// Which device files the ranks of an attempt see in a container: the devices that it was granted, and
// what their driver needs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/job.pb.h"
#include "worker/containers/cdi.h"

namespace muster::worker {

// From the node's CDI file if there is one, otherwise from names in /dev. NOT_FOUND names a missing
// device and the fix. Reads files.
absl::StatusOr<CdiEdits> DeviceEdits(const v1::NodePart& part,
                                     const std::vector<std::string>& cdi_directories = {
                                         "/etc/cdi", "/var/run/cdi"});

// In a container the granted devices are numbered from 0: "2,3" of a part with devices 2 and 3 becomes
// "0,1". Changes the variable of the part's kind in `env`.
void RenumberDevices(const v1::NodePart& part, std::vector<std::string>* env);

}  // namespace muster::worker
