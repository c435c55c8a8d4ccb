// What a job requires of the nodes: devices and abilities. Pure.
#pragma once

#include <string>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct Demand {
  v1::Shape shape;
  bool prepares = false;   // code, setup or a container
  bool container = false;  // including the job's own
  bool has_store = false;  // it asked for MUSTER's rendezvous
  std::string precision;   // common/job/precision.h

  // Equal for jobs that placement treats alike.
  std::string Key() const;
};
Demand DemandOf(const v1::JobSpec& spec);

}  // namespace muster::coordinator
