// The plain pages: what can be asked, and how to sign in. No script, no style. Pure.
#pragma once

#include <string_view>

#include "coordinator/http/message.h"

namespace muster::coordinator::http {

// `job`: a reference whose own addresses are listed; empty: none.
Response IndexPage(std::string_view job, bool serves_writes);
// 401: how to get a link.
Response SignedOutPage();
// Leads to `path` by a step of its own: a browser that followed the link from another site would
// not send its new cookie along with a redirect (SameSite=Strict).
Response SignedInPage(std::string_view path);

}  // namespace muster::coordinator::http
