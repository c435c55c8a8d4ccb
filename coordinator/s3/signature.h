// Signatures of requests to S3, version 4 (AWS4-HMAC-SHA256), in a header and in a URL:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html. Pure except for OpenSSL.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/s3/credentials.h"

namespace muster::coordinator::s3 {

using Fields = std::vector<std::pair<std::string, std::string>>;

// In place of a body's SHA-256: it is not signed.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
// The SHA-256 of no bytes.
inline constexpr std::string_view kEmptyPayload =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct Signing {
  std::string region;
  std::string service = "s3";
  Credentials credentials;
  int64_t wall_ms = 0;  // as the server's clock has it
};

struct SignedRequest {
  std::string method;
  std::string path;     // not encoded
  Fields query;         // not encoded, in any order
  Fields headers;       // with host; all of them are signed
  std::string payload;  // SHA-256 of the body in hex, or kUnsignedPayload
};

// "k=v&k2=v2", encoded and sorted as a signature has it: what must follow '?' in the URL that is requested.
std::string CanonicalQuery(const Fields& query);
std::string CanonicalRequest(const SignedRequest& request);
// The field Authorization. `headers` must hold x-amz-date, of the same time.
std::string Authorization(const Signing& signing, const SignedRequest& request);
// The query of a URL that is valid for `life`, with what `request` has in its own. Only `host` is in its headers.
std::string PresignedQuery(const Signing& signing, SignedRequest request,
                           std::chrono::seconds life);

}  // namespace muster::coordinator::s3
