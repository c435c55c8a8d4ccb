// The OpenAPI 3 document of /api/v1, made from the table of calls and the messages' descriptors.
// Pure.
#pragma once

#include <string>

namespace muster::coordinator::http {

std::string OpenApiDocument();

}  // namespace muster::coordinator::http
