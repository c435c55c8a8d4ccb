// The page: its files as they are in the program (page/), and what stands in for it where there is
// no session. Pure.
#pragma once

#include <string_view>

#include "coordinator/http/message.h"

namespace muster::coordinator::http {

// Addresses of the page: "/", "/jobs/JOB", "/nodes", … All get the same document; its script shows
// what the address names.
bool IsPage(std::string_view path);
// "/assets/…", "/favicon.ico"
bool IsAsset(std::string_view path);

// The fields of the request say whether it may be compressed.
Response PageDocument(const Fields& fields);
// 404 if it is not of this program: the page of an older one asks.
Response PageAsset(std::string_view path, const Fields& fields);

// 401: how to get a link.
Response SignedOutPage();
// Leads to `path` in a second step: a browser that followed the link from another site would
// not send its new cookie along with a redirect (SameSite=Strict).
Response SignedInPage(std::string_view path);

}  // namespace muster::coordinator::http
