// What a job asks of the nodes: devices, and what they must be able to do. Pure.
#pragma once

#include <string>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct Demand {
  v1::Shape shape;
  bool prepares = false;   // code, setup or a container
  bool container = false;  // also one of its own

  // Equal for jobs that placement treats alike.
  std::string Key() const;
};
Demand DemandOf(const v1::JobSpec& spec);

}  // namespace muster::coordinator
