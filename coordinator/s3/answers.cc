#include "coordinator/s3/answers.h"

#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/text/markup.h"
#include "common/text/percent.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/s3/times.h"
#include "coordinator/s3/xml.h"

namespace muster::coordinator::s3 {
namespace {

using common::StrCat;

constexpr size_t kShownBytesMax = 300;
constexpr size_t kUploadIdBytesMax = 1024;
constexpr size_t kTagBytesMax = 256;

// `name` may lack its end: rclone leaves "Result" out.
absl::StatusOr<XmlElement> ReadRoot(std::string_view xml, std::string_view name) {
  absl::StatusOr<XmlElement> root = ParseXml(xml);
  if (!root.ok()) {
    return absl::InvalidArgumentError(
        StrCat("the answer is not the XML of S3: ", common::MessageOf(root.status())));
  }
  if (root->name.starts_with(name)) return root;
  return absl::InvalidArgumentError(
      StrCat("the answer is ", common::PrintableStart(root->name, 60), ", not ", name));
}

template <typename Number>
std::optional<Number> ReadNumber(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

absl::Status Missing(std::string_view what) {
  return absl::InvalidArgumentError(StrCat("the answer has a bad ", what));
}

// A key or a prefix of one: encoded if the answer tells it, as XML cannot hold every character.
std::string DecodedKey(const XmlElement& root, std::string_view key) {
  if (root.TextOf("EncodingType") != "url") return std::string(key);
  return common::PercentDecode(key).value_or(std::string(key));
}

}  // namespace

ErrorAnswer ReadError(std::string_view xml) {
  const absl::StatusOr<XmlElement> root = ParseXml(xml);
  if (!root.ok()) return {};
  // Of the token service it is within ErrorResponse.
  const XmlElement* const error = root->name == "Error" ? &*root : root->Child("Error");
  if (error == nullptr) return {};
  const auto shown = [](std::string_view text) {
    return common::PrintableStart(text, kShownBytesMax);
  };
  return {.code = shown(error->TextOf("Code")),
          .message = shown(error->TextOf("Message")),
          .resource = shown(error->TextOf("Resource")),
          .request_id = shown(error->TextOf("RequestId")),
          .region = shown(error->TextOf("Region"))};
}

bool IsErrorAnswer(std::string_view xml) {
  const absl::StatusOr<XmlElement> root = ParseXml(xml);
  return root.ok() && root->name == "Error";
}

absl::StatusOr<Objects::Page> ReadList(std::string_view xml) {
  ASSIGN_OR_RETURN(const XmlElement root, ReadRoot(xml, "ListBucketResult"));
  Objects::Page page;
  for (const XmlElement& child : root.children) {
    if (child.name != "Contents") continue;
    const auto size = ReadNumber<uint64_t>(child.TextOf("Size"));
    if (!size) return Missing("Size of an object");
    page.objects.push_back({.key = DecodedKey(root, child.TextOf("Key")),
                            .size = *size,
                            .modified_ms = ReadXmlTime(child.TextOf("LastModified")).value_or(0)});
  }
  if (root.TextOf("IsTruncated") == "true") {
    if (page.objects.empty()) return Missing("IsTruncated: it has no object");
    page.next = page.objects.back().key;
  }
  return page;
}

absl::StatusOr<std::string> ReadUploadId(std::string_view xml) {
  ASSIGN_OR_RETURN(const XmlElement root, ReadRoot(xml, "InitiateMultipartUpload"));
  const std::string_view id = root.TextOf("UploadId");
  if (id.empty() || id.size() > kUploadIdBytesMax) return Missing("UploadId");
  return std::string(id);
}

absl::StatusOr<PartsAnswer> ReadParts(std::string_view xml) {
  ASSIGN_OR_RETURN(const XmlElement root, ReadRoot(xml, "ListPartsResult"));
  // SeaweedFS lists what was sent for a part before, too: the newest counts, then the largest, as one that broke off
  // may be there.
  std::map<int, std::pair<int64_t, ObjectPart>> newest;
  for (const XmlElement& child : root.children) {
    if (child.name != "Part") continue;
    const auto number = ReadNumber<int>(child.TextOf("PartNumber"));
    const auto size = ReadNumber<uint64_t>(child.TextOf("Size"));
    const std::string_view tag = child.TextOf("ETag");
    if (!number || !CheckPartNumber(*number).ok()) return Missing("PartNumber");
    if (!size) return Missing("Size of a part");
    if (tag.empty() || tag.size() > kTagBytesMax) return Missing("ETag of a part");
    const int64_t modified_ms = ReadXmlTime(child.TextOf("LastModified")).value_or(0);
    auto& [kept_ms, kept] = newest[*number];
    if (kept.number != 0 && std::pair(kept_ms, kept.size) > std::pair(modified_ms, *size)) continue;
    kept_ms = modified_ms;
    kept = {.number = *number, .size = *size, .tag = std::string(tag)};
  }
  PartsAnswer answer;
  for (auto& [number, part] : newest) answer.parts.push_back(std::move(part.second));
  if (root.TextOf("IsTruncated") == "true") {
    if (answer.parts.empty()) return Missing("IsTruncated: it has no part");
    answer.next = answer.parts.back().number;
  }
  return answer;
}

absl::StatusOr<UploadsAnswer> ReadUploads(std::string_view xml) {
  ASSIGN_OR_RETURN(const XmlElement root, ReadRoot(xml, "ListMultipartUploadsResult"));
  UploadsAnswer answer;
  for (const XmlElement& child : root.children) {
    if (child.name != "Upload") continue;
    const std::string_view id = child.TextOf("UploadId");
    if (id.empty() || id.size() > kUploadIdBytesMax) return Missing("UploadId");
    answer.uploads.push_back(
        {.upload = {.key = DecodedKey(root, child.TextOf("Key")), .id = std::string(id)},
         .begun_ms = ReadXmlTime(child.TextOf("Initiated")).value_or(0)});
  }
  if (root.TextOf("IsTruncated") == "true") {
    answer.next_key = DecodedKey(root, root.TextOf("NextKeyMarker"));
    answer.next_id = root.TextOf("NextUploadIdMarker");
    if (answer.next_key.empty()) return Missing("NextKeyMarker");
  }
  return answer;
}

absl::StatusOr<ErrorAnswer> ReadDeleted(std::string_view xml) {
  ASSIGN_OR_RETURN(const XmlElement root, ReadRoot(xml, "DeleteResult"));
  for (const XmlElement& child : root.children) {
    if (child.name != "Error" || child.TextOf("Code") == "NoSuchKey") continue;
    const auto shown = [&](std::string_view name) {
      return common::PrintableStart(child.TextOf(name), kShownBytesMax);
    };
    ErrorAnswer error{.code = shown("Code"), .message = shown("Message"), .resource = shown("Key")};
    if (error.code.empty()) error.code = "InternalError";
    return error;
  }
  return ErrorAnswer();
}

absl::StatusOr<Credentials> ReadAssumedRole(std::string_view xml) {
  ASSIGN_OR_RETURN(const XmlElement root, ReadRoot(xml, "AssumeRoleWithWebIdentityResponse"));
  const XmlElement* const result = root.Child("AssumeRoleWithWebIdentityResult");
  const XmlElement* const given = result == nullptr ? nullptr : result->Child("Credentials");
  if (given == nullptr) return Missing("Credentials");
  const auto expires = ReadXmlTime(given->TextOf("Expiration"));
  if (!expires) return Missing("Expiration");
  Credentials credentials{.access_key = std::string(given->TextOf("AccessKeyId")),
                          .secret_key = std::string(given->TextOf("SecretAccessKey")),
                          .session_token = std::string(given->TextOf("SessionToken")),
                          .expires_ms = *expires};
  if (!credentials.AreUsable()) return Missing("AccessKeyId, SecretAccessKey or SessionToken");
  return credentials;
}

std::string DeleteRequest(const std::vector<std::string>& keys) {
  std::string body = "<Delete><Quiet>true</Quiet>";
  for (const std::string& key : keys)
    common::StrAppend(&body, "<Object><Key>", common::EscapeMarkup(key), "</Key></Object>");
  return StrCat(body, "</Delete>");
}

std::string CompleteRequest(const std::vector<ObjectPart>& parts) {
  std::string body = "<CompleteMultipartUpload>";
  for (const ObjectPart& part : parts) {
    common::StrAppend(&body, "<Part><PartNumber>", part.number, "</PartNumber><ETag>",
                      common::EscapeMarkup(part.tag), "</ETag></Part>");
  }
  return StrCat(body, "</CompleteMultipartUpload>");
}

}  // namespace muster::coordinator::s3
