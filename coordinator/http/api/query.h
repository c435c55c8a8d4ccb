// Query parameters as a message: "job=3&filter.grep=loss&ranks=0&ranks=2". Names are those of
// protobuf's JSON ("tailLines") or of the .proto ("tail_lines"); a dot leads into a message; a
// repeated field takes its parameter again. Pure.
#pragma once

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "coordinator/http/server/target.h"

namespace muster::coordinator::http {

// JC1316 names the parameter and what it may be.
absl::Status FillFromQuery(const Query& query, google::protobuf::Message& message);

}  // namespace muster::coordinator::http
