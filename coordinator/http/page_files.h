// The page: its files as they are in the program (page/), and what stands in for it where there is
// no session. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
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

// The stylesheet and the icon, which the page of someone without a session needs.
bool IsPublicAsset(std::string_view path);

struct SignedOut {
  absl::Status problem = {};  // of a link or token that was tried
  std::string next = {};      // where to once signed in; not checked yet
};
// 401: a form for a token, and how to get one.
Response SignedOutPage(const SignedOut& why = {});
// A path of ours that a sign-in may lead to, and not another site in disguise: "//evil", "/\evil".
bool IsLocalPath(std::string_view path);
// Leads to `path` in a second step: a browser that followed the link from another site would
// not send its new cookie along with a redirect (SameSite=Strict).
Response SignedInPage(std::string_view path);

}  // namespace muster::coordinator::http
