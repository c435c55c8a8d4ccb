// Objects: bytes under a key, in a store that the whole cluster reaches: S3, or a directory that machines share. What
// exists is what the journal says: a key is made for one upload and never used again, so that nothing is ever
// replaced, and a second put of a key, by a retry or by a leader that was deposed, can only have the same bytes or be
// garbage.
//
// Any thread, several at once. Every call blocks for as long as the store may take: retries within the engine end
// after a minute without success, a transfer that moves may last longer. On pools' threads, never on a loop.
//
// Errors of all calls, with the store, the key and the fix in their text:
//   UNAVAILABLE          the store does not answer, or is overloaded, and retries did not help: try again later.
//                        What was asked may have been done
//   NOT_FOUND            there is no such object or upload
//   PERMISSION_DENIED    credentials are missing, wrong or may not do this
//   RESOURCE_EXHAUSTED   the store has no space left
//   FAILED_PRECONDITION  the store is not as it was configured: no such bucket, another region, not mounted
//   DATA_LOSS            a file to send is shorter than told, or what the store returns is damaged
//   INVALID_ARGUMENT     a bad key, range, part or page
//   CANCELLED            the coordinator is stopping
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/byte_source.h"

namespace muster::coordinator {

struct ObjectInfo {
  std::string key;
  uint64_t size = 0;
  int64_t modified_ms = 0;  // Unix, by the store's clock
};

// A multipart upload: parts that arrive in any order become one object. Its id is durable: any coordinator may resume
// it, until it is completed or aborted.
struct ObjectUpload {
  std::string key;
  std::string id;
};

struct ObjectPart {
  int number = 0;  // from 1; a part of the same number replaces it
  uint64_t size = 0;
  std::string tag;  // as the store named the part's bytes
};

// Lets its holder make one request, without credentials, until it expires. A secret: show WithoutQuery
// (common/http/transfers.h) of it.
struct PresignedUrl {
  std::string url;
  int64_t expires_ms = 0;  // Unix, by this machine's clock
};

class Objects {
 public:
  // limit: object stores: a key's bytes; INVALID_ARGUMENT
  static constexpr size_t kKeyBytesMax = 512;
  // limit: object stores: one name of a key, between slashes; INVALID_ARGUMENT
  static constexpr size_t kKeyNameBytesMax = 200;
  // limit: object stores: an object that is put at once, or a part; INVALID_ARGUMENT
  static constexpr uint64_t kPutBytesMax = 5ull << 30;
  // limit: object stores: the least of a part that is not the last one; INVALID_ARGUMENT when it is completed
  static constexpr uint64_t kPartBytesMin = 8 << 20;
  // limit: object stores: parts of an upload; INVALID_ARGUMENT
  static constexpr int kPartsMax = 10'000;
  // limit: object stores: an object; INVALID_ARGUMENT
  static constexpr uint64_t kObjectBytesMax = 5ull << 40;
  // limit: object stores: entries of one page
  static constexpr size_t kPageMax = 1'000;
  // limit: object stores: bytes that Read returns
  static constexpr size_t kReadBytesMax = 64 << 20;
  // limit: object stores: a presigned URL's life
  static constexpr std::chrono::minutes kPresignedMax{15};

  virtual ~Objects() = default;

  // As people may see it, without secrets: "s3://bucket/prefix at https://host".
  virtual std::string Name() const = 0;

  // Durable when it returns. ALREADY_EXISTS, where the store can tell: the key was used before. A help, never a fence.
  virtual absl::Status Put(const std::string& key, const common::ByteSource& bytes) = 0;

  // The bytes from `offset` on, at most `size`: fewer only at the object's end, none beyond it. In order and in
  // pieces; the sink's error ends it and is returned.
  using Sink = std::function<absl::Status(std::string_view)>;
  struct Range {
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  virtual absl::Status Fetch(const std::string& key, const Range& range, const Sink& sink) = 0;
  // The same into memory; at most kReadBytesMax.
  absl::StatusOr<std::string> Read(const std::string& key, const Range& range);
  virtual absl::StatusOr<ObjectInfo> Head(const std::string& key) = 0;

  // A page of the objects whose keys begin with `prefix` (whole or part of a key; empty: all), in an order that the
  // store keeps to. `from` is empty, or `next` of the page before; `next` is empty at the end. Objects whose names are
  // not keys are left out, so a page may be empty and not the last one.
  struct Page {
    std::vector<ObjectInfo> objects;
    std::string next;
  };
  virtual absl::StatusOr<Page> List(const std::string& prefix, const std::string& from) = 0;

  // OK: none of them is there any longer. Else some may still be: the same call tries again.
  virtual absl::Status Delete(const std::vector<std::string>& keys) = 0;

  // Durable when it returns.
  virtual absl::StatusOr<ObjectUpload> BeginUpload(const std::string& key) = 0;
  // All parts but the last must have kPartBytesMin, and belong there (PartBytesFor).
  virtual absl::StatusOr<ObjectPart> PutPart(const ObjectUpload& upload, int number,
                                             const common::ByteSource& bytes) = 0;
  // False: PresignPart and PresignGet are UNIMPLEMENTED.
  virtual bool CanPresign() const = 0;
  // A URL that takes one PUT of this part, of `size` bytes, for at most `life`, kPresignedMax and the life of our credentials.
  // UNIMPLEMENTED: this store has none; parts go through PutPart.
  virtual absl::StatusOr<PresignedUrl> PresignPart(const ObjectUpload& upload, int number,
                                                   uint64_t size, std::chrono::seconds life) = 0;
  // Those that have arrived, by their numbers; of a part that was sent twice the newer one.
  virtual absl::StatusOr<std::vector<ObjectPart>> Parts(const ObjectUpload& upload) = 0;
  // Makes the object of these parts, 1 to n in their order. Durable when it returns. May be repeated, also by another
  // coordinator: OK if the object is there and has their size. NOT_FOUND: neither upload nor such an object.
  virtual absl::Status Complete(const ObjectUpload& upload,
                                const std::vector<ObjectPart>& parts) = 0;
  // OK as well if there is no such upload. A part under way may still arrive: abort it again later.
  virtual absl::Status Abort(const ObjectUpload& upload) = 0;

  // Uploads that were neither completed nor aborted, in pages as List's. An upload whose beginning broke off may have
  // no key; it can be aborted.
  struct OpenUpload {
    ObjectUpload upload;
    int64_t begun_ms = 0;  // Unix, by the store's clock
  };
  struct UploadPage {
    std::vector<OpenUpload> uploads;
    std::string next;
  };
  virtual absl::StatusOr<UploadPage> OpenUploads(const std::string& from) = 0;

  // A URL that takes GETs, with Range or without. UNIMPLEMENTED: this store has none.
  virtual absl::StatusOr<PresignedUrl> PresignGet(const std::string& key,
                                                  std::chrono::seconds life) = 0;
};

// INVALID_ARGUMENT: not names of letters, digits, '-', '_' and '.' with one slash between them, or too long. No name
// begins with a dot, so a key is also a path that stays below its directory. Callers see to it that no key is the
// directory of another: "a" and "a/b" are not both objects.
absl::Status CheckObjectKey(std::string_view key);
// As a key may begin: empty, a key, or a key with a slash at its end.
absl::Status CheckObjectPrefix(std::string_view prefix);
absl::Status CheckPartNumber(int number);
// INVALID_ARGUMENT: more than kPutBytesMax.
absl::Status CheckPutSize(std::string_view key, uint64_t size);
// INVALID_ARGUMENT: none, not 1 to n, or larger than an object may be. Else their size.
absl::StatusOr<uint64_t> CheckParts(const std::vector<ObjectPart>& parts);

// The size that all parts but the last have in an upload of `size` bytes: a multiple of 1 MiB, kPartBytesMin or, of
// large objects, as much as kPartsMax asks for.
uint64_t PartBytesFor(uint64_t size);

}  // namespace muster::coordinator
