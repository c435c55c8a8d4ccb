#include "coordinator/s3/address.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/base/loopback.h"
#include "common/base/status.h"
#include "common/text/percent.h"
#include "common/text/strings.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator::s3 {
namespace {

using common::StrCat;

// What is written after '?', by its name.
using Options = std::map<std::string, std::string>;

constexpr size_t kPrefixBytesMax = 256;
constexpr size_t kOptionBytesMax = 2048;

absl::Status BadAddress(const std::string& why) {
  return absl::InvalidArgumentError(
      StrCat(why, "; it must be like s3://BUCKET/PREFIX?endpoint=https://HOST&region=NAME"));
}

bool IsName(std::string_view text, std::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

absl::StatusOr<Options> ReadOptions(std::string_view text) {
  static constexpr std::string_view kKnown[] = {"endpoint", "region",  "style",   "profile",
                                                "sse",      "kms-key", "insecure"};
  Options options;
  if (text.empty()) return options;
  for (const absl::string_view part : absl::StrSplit(common::ToAbsl(text), '&')) {
    const std::string_view pair = common::FromAbsl(part);
    const size_t equals = pair.find('=');
    const std::string name(pair.substr(0, equals));
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown)) {
      return BadAddress(StrCat("\"", name,
                               "\" is not one of its options, which are endpoint, region, "
                               "style, profile, sse, kms-key and insecure"));
    }
    const std::string_view value = equals == std::string_view::npos ? "" : pair.substr(equals + 1);
    const auto decoded = common::PercentDecode(value);
    if (!decoded || decoded->empty() || decoded->size() > kOptionBytesMax ||
        !std::all_of(decoded->begin(), decoded->end(),
                     [](char c) { return c > ' ' && c < 0x7f; })) {
      return BadAddress(
          StrCat("the value of ", name, " must be visible ASCII characters, with %XX for others"));
    }
    if (!options.emplace(name, *decoded).second) return BadAddress(StrCat(name, " is there twice"));
  }
  return options;
}

std::string ValueOf(const Options& options, const std::string& name, std::string otherwise = "") {
  const auto found = options.find(name);
  return found == options.end() ? std::move(otherwise) : found->second;
}

std::string UsualEndpoint(Profile profile, const std::string& region) {
  if (profile == Profile::kObs) return StrCat("https://obs.", region, ".myhuaweicloud.com");
  return StrCat("https://s3.", region, ".amazonaws.com", region.starts_with("cn-") ? ".cn" : "");
}

absl::Status ReadEndpoint(const Options& options, Address* address) {
  const std::string text =
      ValueOf(options, "endpoint", UsualEndpoint(address->profile, address->region));
  const auto url = common::ParseHttpUrl(text);
  if (!url.ok()) return BadAddress(StrCat("endpoint ", text, " ", url.status().message()));
  if (url->target != "/")
    return BadAddress(
        StrCat("endpoint ", text, " has a path: write the server alone, the bucket comes first"));
  const std::string insecure = ValueOf(options, "insecure", "false");
  if (insecure != "true" && insecure != "false")
    return BadAddress(StrCat("insecure=", insecure, " is neither true nor false"));
  if (!url->is_https && !common::IsLoopbackHost(url->host) && insecure == "false") {
    return BadAddress(
        StrCat("endpoint ", text,
               " is not encrypted, so others on the network can read all "
               "objects: write https://, or add insecure=true where all of them are trusted"));
  }
  address->endpoint = *url;
  return absl::OkStatus();
}

absl::Status ReadStyle(const Options& options, Address* address) {
  const bool has_endpoint = options.contains("endpoint");
  const bool is_path = has_endpoint && address->profile == Profile::kAws;
  const std::string style = ValueOf(options, "style", is_path ? "path" : "virtual");
  if (style != "path" && style != "virtual")
    return BadAddress(StrCat("style=", style, " is neither path nor virtual"));
  address->is_path_style = style == "path";
  if (address->is_path_style && address->profile == Profile::kObs)
    return BadAddress("OBS refuses style=path: leave it out");
  if (!address->is_path_style && address->bucket.find('.') != std::string::npos &&
      address->endpoint.is_https) {
    return BadAddress(StrCat("no certificate is valid for the bucket ", address->bucket,
                             " in a host's name, because of its dots: add style=path, or use "
                             "another bucket"));
  }
  return absl::OkStatus();
}

absl::Status ReadEncryption(const Options& options, Address* address) {
  address->encryption = ValueOf(options, "sse");
  address->kms_key = ValueOf(options, "kms-key");
  if (!address->encryption.empty() && address->encryption != "AES256" &&
      address->encryption != "aws:kms") {
    return BadAddress(StrCat("sse=", address->encryption, " is neither AES256 nor aws:kms"));
  }
  if (!address->kms_key.empty() && address->encryption != "aws:kms")
    return BadAddress("kms-key needs sse=aws:kms");
  return absl::OkStatus();
}

absl::Status ReadBucket(std::string_view text, Address* address) {
  const size_t slash = text.find('/');
  address->bucket = text.substr(0, slash);
  if (address->bucket.size() < 3 || address->bucket.size() > 63 || !IsName(address->bucket, "-.") ||
      address->bucket.front() == '.' || address->bucket.front() == '-') {
    return BadAddress(
        StrCat("\"", address->bucket,
               "\" is not a bucket: 3 to 63 lower-case letters, digits, '-' and '.'"));
  }
  std::string_view prefix = slash == std::string_view::npos ? "" : text.substr(slash + 1);
  if (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (prefix.empty()) return absl::OkStatus();
  const absl::Status valid = CheckObjectKey(prefix);
  if (!valid.ok() || prefix.size() > kPrefixBytesMax) {
    return BadAddress(
        StrCat("the prefix ", prefix,
               " must be names of letters, digits, '-', '_' and '.' "
               "with one slash between them, none beginning with a dot, in all at most ",
               kPrefixBytesMax, " bytes"));
  }
  address->prefix = StrCat(prefix, "/");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  if (!text.starts_with(kScheme)) return BadAddress("it does not begin with s3://");
  text.remove_prefix(kScheme.size());
  const size_t question = text.find('?');
  Address address;
  RETURN_IF_ERROR(ReadBucket(text.substr(0, question), &address));
  ASSIGN_OR_RETURN(
      const Options options,
      ReadOptions(question == std::string_view::npos ? "" : text.substr(question + 1)));
  const std::string profile = ValueOf(options, "profile", "aws");
  if (profile != "aws" && profile != "obs")
    return BadAddress(StrCat("profile=", profile, " is neither aws nor obs"));
  address.profile = profile == "obs" ? Profile::kObs : Profile::kAws;
  const bool has_endpoint = options.contains("endpoint");
  address.region = ValueOf(options, "region", has_endpoint ? "us-east-1" : "");
  if (address.region.empty())
    return BadAddress("neither endpoint nor region is there: add region=NAME");
  if (!IsName(address.region, "-") || address.region.size() > 64)
    return BadAddress(
        StrCat("region=", address.region, " is not a region's name, such as eu-west-1"));
  RETURN_IF_ERROR(ReadEndpoint(options, &address));
  RETURN_IF_ERROR(ReadStyle(options, &address));
  RETURN_IF_ERROR(ReadEncryption(options, &address));
  return address;
}

std::string Address::Host() const {
  return StrCat(is_path_style ? "" : StrCat(bucket, "."), endpoint.Authority());
}

std::string Address::Path(std::string_view key) const {
  const std::string bucket_path = is_path_style ? StrCat("/", bucket) : "";
  if (key.empty()) return bucket_path.empty() ? "/" : bucket_path;
  return StrCat(bucket_path, "/", prefix, key);
}

std::string TextOf(const Address& address) {
  std::string_view prefix = address.prefix;
  if (!prefix.empty()) prefix.remove_suffix(1);
  return StrCat(kScheme, address.bucket, prefix.empty() ? "" : "/", prefix, " at ",
                address.endpoint.is_https ? "https://" : "http://", address.endpoint.Authority());
}

}  // namespace muster::coordinator::s3
