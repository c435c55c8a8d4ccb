// /api/v1/allowed: what the session's user may do, so that the page shows only buttons that work. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::coordinator {
struct Caller;
}

namespace muster::coordinator::http {

inline constexpr std::string_view kAllowed = "/api/v1/allowed";

// {"principal":"user:alice","userId":"5f0c…","role":"user","calls":["ListJobs",…],"othersJobs":false}: the allowed calls
// of JobService by the table of roles, and whether jobs of other people may be changed.
std::string AllowedDocument(const Caller& caller);

}  // namespace muster::coordinator::http
