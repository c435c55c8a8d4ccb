// Makes events about a node and the parts of attempts on it. They are the same whether a worker, a
// person or a timer caused them.
#pragma once

#include <string>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

v1::Event NodeEvent(const std::string& node, Now now);
v1::Event PartEvent(const v1::JobRecord& job, const v1::Attempt& attempt, const std::string& node,
                    Now now);
v1::Event PartEnded(const v1::JobRecord& job, const v1::Attempt& attempt, const std::string& node,
                    const std::string& how, const std::string& failure, v1::StopCause cause,
                    Now now);
v1::Event NodeChange(const std::string& node, v1::NodeState to, const std::string& reason, Now now);

}  // namespace muster::coordinator
