// Multipart uploads.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/s3/answers.h"
#include "coordinator/s3/objects.h"

namespace muster::coordinator::s3 {

using common::StrCat;

absl::StatusOr<ObjectUpload> S3Objects::BeginUpload(const std::string& key) {
  RETURN_IF_ERROR(CheckObjectKey(key));
  ASSIGN_OR_RETURN(
      const common::TransferAnswer answer,
      client_->Call(
          {.method = "POST", .key = key, .query = {{"uploads", ""}}, .headers = Encryption()}));
  absl::StatusOr<std::string> id = ReadUploadId(answer.body);
  if (id.ok()) return ObjectUpload{.key = key, .id = *std::move(id)};
  return absl::UnavailableError(StrCat(Name(), ": ", common::MessageOf(id.status())));
}

absl::StatusOr<ObjectPart> S3Objects::PutPart(const ObjectUpload& upload, int number,
                                              const common::ByteSource& bytes) {
  RETURN_IF_ERROR(CheckObjectKey(upload.key));
  RETURN_IF_ERROR(CheckPartNumber(number));
  RETURN_IF_ERROR(CheckPutSize(upload.key, common::SizeOf(bytes)));
  ASSIGN_OR_RETURN(
      const common::TransferAnswer answer,
      client_->Call({.method = "PUT",
                     .key = upload.key,
                     .query = {{"partNumber", StrCat(number)}, {"uploadId", upload.id}},
                     .body = bytes}));
  ObjectPart part{
      .number = number, .size = common::SizeOf(bytes), .tag = std::string(answer.Header("etag"))};
  if (!part.tag.empty()) return part;
  return absl::UnavailableError(StrCat(Name(), " does not name part ", number, " of ", upload.key));
}

absl::StatusOr<PresignedUrl> S3Objects::PresignPart(const ObjectUpload& upload, int number,
                                                    uint64_t size, std::chrono::seconds life) {
  RETURN_IF_ERROR(CheckObjectKey(upload.key));
  RETURN_IF_ERROR(CheckPartNumber(number));
  return client_->Presign({.method = "PUT",
                           .key = upload.key,
                           .query = {{"partNumber", StrCat(number)}, {"uploadId", upload.id}},
                           .headers = {{"content-length", StrCat(size)}}},
                          life);
}

absl::StatusOr<std::vector<ObjectPart>> S3Objects::Parts(const ObjectUpload& upload) {
  RETURN_IF_ERROR(CheckObjectKey(upload.key));
  std::vector<ObjectPart> parts;
  int after = 0;
  do {
    ASSIGN_OR_RETURN(const common::TransferAnswer answer,
                     client_->Call({.method = "GET",
                                    .key = upload.key,
                                    .query = {{"uploadId", upload.id},
                                              {"max-parts", StrCat(kPageMax)},
                                              {"part-number-marker", StrCat(after)}}}));
    const absl::StatusOr<PartsAnswer> page = ReadParts(answer.body);
    if (!page.ok() || (page->next != 0 && page->next <= after)) {
      return absl::UnavailableError(
          StrCat(Name(), ": ",
                 page.ok() ? "the same parts are listed again" : common::MessageOf(page.status())));
    }
    parts.insert(parts.end(), page->parts.begin(), page->parts.end());
    after = page->next;
  } while (after != 0);
  return parts;
}

absl::Status S3Objects::HasSize(const std::string& key, uint64_t size) {
  ASSIGN_OR_RETURN(const ObjectInfo info, Head(key));
  if (info.size == size) return absl::OkStatus();
  return absl::DataLossError(
      StrCat(key, " has ", info.size, " bytes in ", Name(), ", and its parts ", size));
}

absl::Status S3Objects::Complete(const ObjectUpload& upload, const std::vector<ObjectPart>& parts) {
  constexpr std::chrono::minutes kTakes{10};  // a store may copy all parts before it answers
  RETURN_IF_ERROR(CheckObjectKey(upload.key));
  ASSIGN_OR_RETURN(const uint64_t size, CheckParts(parts));
  const std::string body = CompleteRequest(parts);
  const absl::Status completed = client_
                                     ->Call({.method = "POST",
                                             .key = upload.key,
                                             .query = {{"uploadId", upload.id}},
                                             .headers = {{"content-type", "application/xml"}},
                                             .body = std::string_view(body),
                                             .silent_for = kTakes})
                                     .status();
  if (!completed.ok() && !absl::IsNotFound(completed)) return completed;
  // An earlier try, whose answer was lost, has ended the upload as well.
  const absl::Status there = HasSize(upload.key, size);
  return absl::IsNotFound(there) && !completed.ok() ? completed : there;
}

absl::Status S3Objects::Abort(const ObjectUpload& upload) {
  RETURN_IF_ERROR(CheckObjectKey(upload.key));
  const absl::Status aborted =
      client_->Call({.method = "DELETE", .key = upload.key, .query = {{"uploadId", upload.id}}})
          .status();
  return absl::IsNotFound(aborted) ? absl::OkStatus() : aborted;
}

absl::StatusOr<Objects::UploadPage> S3Objects::OpenUploads(const std::string& from) {
  const size_t line = from.find('\n');  // `from` is KEY\nID
  Request request{.method = "GET",
                  .query = {{"uploads", ""},
                            {"prefix", client_->address().prefix},
                            {"max-uploads", StrCat(kPageMax)},
                            {"encoding-type", "url"}}};
  if (line != std::string::npos) {
    request.query.emplace_back("key-marker", from.substr(0, line));
    request.query.emplace_back("upload-id-marker", from.substr(line + 1));
  }
  ASSIGN_OR_RETURN(const common::TransferAnswer answer, client_->Call(request));
  absl::StatusOr<UploadsAnswer> listed = ReadUploads(answer.body);
  if (!listed.ok())
    return absl::UnavailableError(StrCat(Name(), ": ", common::MessageOf(listed.status())));
  UploadPage page;
  if (!listed->next_key.empty()) page.next = StrCat(listed->next_key, "\n", listed->next_id);
  if (!page.next.empty() && page.next == from)
    return absl::UnavailableError(StrCat(Name(), " lists the same uploads again"));
  for (OpenUpload& open : listed->uploads) {
    open.upload.key = OurKey(open.upload.key);
    if (!open.upload.key.empty()) page.uploads.push_back(std::move(open));
  }
  return page;
}

}  // namespace muster::coordinator::s3
