// A bucket as `--objects` names it:
//   s3://BUCKET[/PREFIX]?endpoint=URL&region=NAME&style=path|virtual&profile=aws|obs&sse=AES256|aws:kms&kms-key=ID
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/url.h"

namespace muster::coordinator::s3 {

// Which deviations of S3 the server has.
enum class Profile {
  kAws,  // AWS, and what imitates it: MinIO, Ceph, SeaweedFS
  // Huawei's OBS: the bucket in the host's name, payloads that are not signed over TLS.
  kObs,
};

struct Address {
  std::string bucket;
  std::string prefix;  // empty, or "a/b/": what all keys begin with
  common::HttpUrl endpoint;
  std::string region;
  bool is_path_style = false;  // the bucket is in the path, else in the host's name
  Profile profile = Profile::kAws;
  std::string encryption;  // of x-amz-server-side-encryption; empty: the bucket's own
  std::string kms_key;     // with aws:kms; empty: the account's

  // "bucket.host:port" or "host:port", as the Host field and the signature have it.
  std::string Host() const;
  // Of an object, "" for the bucket: "/bucket/prefix/key" or "/prefix/key". Not encoded.
  std::string Path(std::string_view key) const;
};

inline constexpr std::string_view kScheme = "s3://";

// INVALID_ARGUMENT: the value that is wrong, and what to write instead.
absl::StatusOr<Address> ParseAddress(std::string_view text);
// For people: "s3://bucket/prefix at https://host".
std::string TextOf(const Address& address);

}  // namespace muster::coordinator::s3
