// Small HTTPS requests to a coordinator whose authority is known or about to be: which certificate it
// must show, and what a refusal means to a person. Uses common/http/client.h. Blocks; any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/http/response.h"

namespace muster::identity {

inline constexpr size_t kHttpsAnswerMax = 1 << 20;  // bytes, including the head

struct HttpsRequest {
  std::string address;  // HOST:PORT
  std::string target;   // "/enroll/join"
  std::string body;     // JSON, sent with POST; empty: GET
  // The server must show a coordinator's certificate of this authority. Which host it runs on does
  // not matter: only coordinators have such certificates.
  std::string authority_pem;
  std::chrono::milliseconds within{10'000};  // the whole request
};

using HttpsAnswer = common::HttpResponse;

// UNAVAILABLE: no answer in time. UNAUTHENTICATED (JC1354): the server is not a
// coordinator of this authority; nothing was sent to it.
absl::StatusOr<HttpsAnswer> AskHttps(const HttpsRequest& request);

// What the server at an address presents as its cluster's authority. Proves nothing: compare the
// fingerprint (64 lower-case hex digits) with one from another source. Sends nothing but the question.
struct ShownAuthority {
  std::string pem;
  std::string fingerprint;
};
absl::StatusOr<ShownAuthority> AskForAuthority(const std::string& address,
                                               std::chrono::milliseconds within);

// The authority of the cluster at an address, in PEM, as the server there presents it, if its
// fingerprint is the given one. UNAUTHENTICATED (JC1354) otherwise. Sends nothing but the question.
struct AuthorityQuestion {
  std::string address;
  std::string fingerprint;  // 64 lower-case hex digits
  std::chrono::milliseconds within{10'000};
};
absl::StatusOr<std::string> FetchAuthority(const AuthorityQuestion& question);

}  // namespace muster::identity
