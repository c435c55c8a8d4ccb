// Bodies of requests: protobuf messages as JSON. Pure.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace muster::coordinator::http {

// Of a Content-Type field.
bool IsJson(std::string_view content_type);
// An empty body leaves the message unchanged. JC1316 names what the body should be ("a request of
// GetJob") and where it is described.
struct BodyKind {
  std::string_view what;
  std::string_view described_by;
};
absl::Status FillFromBody(const std::string& body, const BodyKind& kind,
                          google::protobuf::Message& message);

}  // namespace muster::coordinator::http
