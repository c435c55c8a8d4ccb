#include "coordinator/store_parts/direct_uploads.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/store_parts/object_blobs.h"
#include "coordinator/stores/blob_store.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// The worker asks again after these.
bool Passes(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || absl::IsAborted(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

}  // namespace

absl::StatusOr<std::optional<DirectUploads::Place>> DirectUploads::Find(const File& file,
                                                                        bool is_sent) {
  RETURN_IF_ERROR(CheckBlob(file.sha256, file.size));
  if (file.size < kBytesMin || !objects_.CanPresign()) return std::nullopt;
  absl::StatusOr<std::optional<Place>> place = Look(file, is_sent);
  if (place.ok() || Passes(place.status())) return place;
  refused_.Warn(StrCat("a checkpoint file goes through the coordinator size=", file.size,
                       " reason=\"", common::MessageOf(place.status()), "\""));
  return std::nullopt;
}

absl::StatusOr<std::optional<DirectUploads::Place>> DirectUploads::Look(const File& file,
                                                                        bool is_sent) {
  ASSIGN_OR_RETURN(const std::optional<NamedObject> sent, names_.FindSent(file.job, file.sha256));
  if (sent.has_value()) {
    if (sent->bytes != file.size) return std::nullopt;
    return Place{.is_whole = true};
  }
  ASSIGN_OR_RETURN(const std::optional<SentUpload> upload, Begun(file));
  if (!upload.has_value() || upload->bytes != file.size) return std::nullopt;
  absl::StatusOr<std::vector<ObjectPart>> arrived =
      objects_.Parts({.key = upload->key, .id = upload->id});
  if (absl::IsNotFound(arrived.status())) return AfterItsEnd(file, *upload);
  RETURN_IF_ERROR(arrived.status());
  return Missing(file, *upload, *std::move(arrived), is_sent);
}

absl::StatusOr<std::optional<SentUpload>> DirectUploads::Begun(const File& file) {
  ASSIGN_OR_RETURN(std::optional<SentUpload> known, names_.FindUpload(file.sender, file.sha256));
  if (known.has_value()) return known;
  ASSIGN_OR_RETURN(const size_t begun, names_.CountUploads(file.sender));
  if (begun >= kBegunMax) return std::nullopt;
  ASSIGN_OR_RETURN(const ObjectUpload begins,
                   objects_.BeginUpload(NewObjectKey(prefix_, file.sha256)));
  ASSIGN_OR_RETURN(SentUpload kept,
                   names_.KeepUpload(file.sender, file.sha256,
                                     {.key = begins.key, .id = begins.id, .bytes = file.size}));
  if (kept.key != begins.key) objects_.Abort(begins).IgnoreError();  // else it is stale garbage
  return kept;
}

absl::StatusOr<std::optional<DirectUploads::Place>> DirectUploads::Missing(
    const File& file, const SentUpload& upload, std::vector<ObjectPart> arrived, bool is_sent) {
  Place place{.part_bytes = PartBytesFor(file.size)};
  const int count = static_cast<int>((file.size + place.part_bytes - 1) / place.part_bytes);
  std::vector<ObjectPart> parts(static_cast<size_t>(count));
  const auto size_of = [&](int number) {
    const uint64_t begin = static_cast<uint64_t>(number - 1) * place.part_bytes;
    return std::min(place.part_bytes, file.size - begin);
  };
  for (ObjectPart& part : arrived) {
    if (part.number < 1 || part.number > count) continue;
    if (part.size == size_of(part.number))
      parts[static_cast<size_t>(part.number - 1)] = std::move(part);
  }
  const ObjectUpload begun{.key = upload.key, .id = upload.id};
  for (int number = 1; number <= count; ++number) {
    if (parts[static_cast<size_t>(number - 1)].number != 0) continue;
    place.is_more = place.parts.size() == static_cast<size_t>(kPartsAtOnce);
    if (place.is_more) break;
    ASSIGN_OR_RETURN(PresignedUrl url,
                     objects_.PresignPart(begun, number, size_of(number), Objects::kPresignedMax));
    place.parts.push_back({.number = number, .url = std::move(url.url)});
  }
  if (!place.parts.empty() || !is_sent) return place;
  RETURN_IF_ERROR(objects_.Complete(begun, parts));
  return Name(file, upload);
}

absl::StatusOr<std::optional<DirectUploads::Place>> DirectUploads::Name(const File& file,
                                                                        const SentUpload& upload) {
  ASSIGN_OR_RETURN(const bool is_named,
                   names_.NameUpload(file.sender, file.job, file.sha256, upload));
  if (!is_named) return std::nullopt;
  return Place{.is_whole = true};
}

// It was completed, and then a coordinator ended before the name was there; or it was aborted as stale.
absl::StatusOr<std::optional<DirectUploads::Place>> DirectUploads::AfterItsEnd(
    const File& file, const SentUpload& upload) {
  const absl::StatusOr<ObjectInfo> object = objects_.Head(upload.key);
  if (object.ok() && object->size == file.size) return Name(file, upload);
  if (!object.ok() && !absl::IsNotFound(object.status())) return object.status();
  RETURN_IF_ERROR(names_.DropUpload(file.sender, file.sha256, upload.key));
  return absl::AbortedError("the object store has ended the upload: it starts over");
}

absl::StatusOr<PresignedUrl> DirectUploads::UrlOf(uint64_t job, const std::string& sha256) {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  ASSIGN_OR_RETURN(std::optional<NamedObject> object, names_.FindSent(job, sha256));
  if (!object.has_value()) {
    ASSIGN_OR_RETURN(object, names_.Find(sha256));
  }
  if (!object.has_value() || object->bytes < kBytesMin || !objects_.CanPresign())
    return absl::NotFoundError(StrCat("blob ", sha256, " is read through the coordinator"));
  return objects_.PresignGet(object->key, Objects::kPresignedMax);
}

}  // namespace muster::coordinator
