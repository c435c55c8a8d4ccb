// The OpenAPI 3 document of /api/v1, made from the table of calls and the messages' descriptors.
// Pure.
#pragma once

#include <string>

namespace muster::coordinator::http {

// `serves_writes`: otherwise only the calls that read are in it.
std::string OpenApiDocument(bool serves_writes);

}  // namespace muster::coordinator::http
