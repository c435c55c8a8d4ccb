// The page: its files, which are embedded in the program (page/), and what replaces it without a
// session. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/http/server/message.h"

namespace muster::coordinator::http {

// Addresses of the page: "/", "/jobs/JOB", "/nodes", … All get the same document; its script shows
// what the address names.
bool IsPage(std::string_view path);
// "/assets/…", "/favicon.ico"
bool IsAsset(std::string_view path);

// The fields of the request say whether it may be compressed.
Response PageDocument(const Fields& fields);
// 404 if it is not this program's: the page of an older version asked for it.
Response PageAsset(std::string_view path, const Fields& fields);

// The stylesheet and the icon, which the sign-in page needs without a session.
bool IsPublicAsset(std::string_view path);

struct SignedOut {
  absl::Status problem = {};  // with the link or token that was tried
  std::string next = {};      // where to go once signed in; not checked yet
  std::string provider = {};  // where people can also sign in: "id.example.org"; empty: none
};
// 401: a form for a token, how to get one, and a button where there is an identity provider.
Response SignedOutPage(const SignedOut& why = {});
// The page of a sign-in that waits for the person's confirmation at the provider: the code, where to enter
// it, and a warning about codes that others send. It reloads automatically.
struct Confirm {
  std::string provider;
  std::string code;
  std::string address;     // where to enter it
  std::string link;        // the same, with the code in it if the provider supports that
  std::string problem;     // of the last look; empty: none
  std::string next;        // checked
  int64_t interval_s = 5;  // between two looks
};
Response ConfirmPage(const Confirm& confirm);
inline constexpr std::string_view kProviderPath = "/sign-in/provider";
// One of our paths that a sign-in may lead to, not another site in disguise: "//evil", "/\evil".
bool IsLocalPath(std::string_view path);
// Leads to `path` in a second step: a browser that followed the link from another site would
// not send its new cookie along with a redirect (SameSite=Strict).
Response SignedInPage(std::string_view path);

}  // namespace muster::coordinator::http
