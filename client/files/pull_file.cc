#include "client/files/pull_file.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

// A connection that falls silent ends sooner.
constexpr std::chrono::hours kWholeFileWithin{24};

// Hashes the file at `fd` from the start, at most `most` bytes.
uint64_t HashWhole(int fd, uint64_t most, common::Sha256* hash) {
  uint64_t bytes = 0;
  std::string buffer(1 << 20, '\0');
  for (ssize_t count; bytes <= most && (count = read(fd, buffer.data(), buffer.size())) > 0;
       bytes += count) {
    hash->Update(std::string_view(buffer).substr(0, count));
  }
  return bytes;
}

bool IsPresent(const PullTarget& target, const std::string& name, const v1::CheckpointFile& file) {
  const absl::StatusOr<common::UniqueFd> present = target.OpenExisting(name);
  common::Sha256 hash;
  return present.ok() && HashWhole(present->get(), file.size(), &hash) == file.size() &&
         hash.FinishHex() == file.sha256();
}

absl::Status CheckAnnounced(const v1::CheckpointFile& file, const std::string& name) {
  if (common::StaysInside(file.path()) && common::StaysInside(name) &&
      common::IsSha256Hex(file.sha256()) && file.size() <= static_cast<uint64_t>(INT64_MAX)) {
    return absl::OkStatus();
  }
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1504",
       .what = common::StaysInside(file.path())
                   ? StrCat("size or SHA-256 of ", common::Printable(file.path()), " is not valid")
                   : StrCat("the file name \"", common::Printable(file.path()),
                            "\" leads outside the directory"),
       .fix = "do not use these files"});
}

absl::Status Empty(int fd, const std::string& name) {
  if (ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0) return absl::OkStatus();
  return common::ErrnoStatus(StrCat("cannot truncate ", name, ".part"));
}

// Keeps and hashes the bytes that an interrupted download left, and requests the rest. Never writes
// more bytes than were announced. `kept`: how many bytes were there.
absl::Status Fetch(const ReadFrom& read, const v1::CheckpointFile& file, const std::string& verify,
                   int fd, uint64_t* kept, absl::Status* written) {
  std::optional<common::Sha256> hash(std::in_place);
  uint64_t offset = HashWhole(fd, file.size(), &*hash);
  if (offset > file.size()) {
    hash.emplace();
    offset = 0;
    *written = Empty(fd, file.path());
    if (!written->ok()) return absl::OkStatus();
  }
  *kept = offset;
  bool too_long = false;
  const auto take = [&](std::string_view bytes) {
    offset += bytes.size();
    too_long = offset > file.size();
    if (too_long) return false;
    *written = common::WriteAll(fd, bytes);
    hash->Update(bytes);
    return written->ok();
  };
  if (offset < file.size()) RETURN_IF_ERROR(read(offset, take));
  if (!written->ok() || (!too_long && hash->FinishHex() == file.sha256())) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1504",
       .what = StrCat(common::Printable(file.path()),
                      too_long ? " is longer than announced" : " does not match its SHA-256"),
       .fix = verify});
}

}  // namespace

ReadFrom SavedFiles::Reader(const v1::PullFileRequest& request) {
  return [this, request, was_direct = false](uint64_t offset, const TakeBytes& take) mutable {
    v1::PullFileRequest rest = request;
    rest.set_offset(offset);
    // It is read once more if the bytes were wrong.
    rest.set_direct(store_failures_ < kStoreFailuresMax && !was_direct);
    return Read(std::move(rest), take, &was_direct);
  };
}

absl::Status SavedFiles::Read(v1::PullFileRequest request, const TakeBytes& take,
                              bool* was_direct) {
  std::string url;
  RETURN_IF_ERROR(connection_.PullFile(request, [&](const v1::BlobChunk& chunk) {
    if (chunk.url().empty()) return take(chunk.data());
    url = chunk.url();
    return true;
  }));
  if (url.empty() || !request.direct()) return absl::OkStatus();
  *was_direct = true;
  uint64_t at = request.offset();
  bool is_wanted = true;
  const absl::Status read = ReadFromStore(url, at, [&](std::string_view bytes) {
    at += bytes.size();
    is_wanted = take(bytes);
    return is_wanted;
  });
  if (read.ok()) store_failures_ = 0;
  if (read.ok() || !is_wanted) return absl::OkStatus();
  // Whatever it is, the coordinator has a way.
  ++store_failures_;
  request.set_direct(false);
  request.set_offset(at);
  return Read(std::move(request), take, was_direct);
}

absl::Status SavedFiles::ReadFromStore(const std::string& url, uint64_t offset,
                                       const TakeBytes& take) {
  if (store_ == nullptr) {
    ASSIGN_OR_RETURN(store_, common::Transfers::OpenForStore());
  }
  common::Transfer get{.url = url, .within = kWholeFileWithin};
  if (offset > 0) get.headers.emplace_back("range", StrCat("bytes=", offset, "-"));
  get.is_sunk = [offset](const common::TransferAnswer& answer) {
    if (offset == 0) return answer.status == 200;
    // Not its status tells, with some stores.
    return (answer.status == 206 || answer.status == 200) &&
           answer.Header("content-range").starts_with(StrCat("bytes ", offset, "-"));
  };
  get.sink = [&take](std::string_view bytes) {
    return take(bytes) ? absl::OkStatus() : absl::CancelledError("");
  };
  ASSIGN_OR_RETURN(const common::TransferAnswer answer, store_->Run(get));
  if (get.is_sunk(answer)) return absl::OkStatus();
  return absl::UnavailableError(StrCat("the object store answered ", answer.status));
}

absl::StatusOr<Pulled> PullOne(const ReadFrom& read, const v1::CheckpointFile& file,
                               const PullTarget& target, const std::string& name,
                               const std::string& verify) {
  const auto cannot_write = [&](const absl::Status& why) {
    return common::MakeProblem(absl::StatusCode::kInternal,
                               {.code = "JC1601",
                                .what = common::Printable(StrCat(target.path(), "/", name)),
                                .why = std::string(why.message()),
                                .fix = StrCat("df ", target.path(), "; ls -l ", target.path())});
  };
  RETURN_IF_ERROR(CheckAnnounced(file, name));
  if (IsPresent(target, name, file)) return Pulled::kPresent;
  const std::string part = name + ".part";
  const absl::StatusOr<common::UniqueFd> fd = target.Create(part);
  if (!fd.ok()) return cannot_write(fd.status());
  absl::Status written;
  uint64_t kept = 0;
  absl::Status fetched = Fetch(read, file, verify, fd->get(), &kept, &written);
  // The file that was there was the beginning of something else, or the store is not what it should be.
  if (absl::IsDataLoss(fetched)) {
    written = Empty(fd->get(), name);
    if (written.ok()) fetched = Fetch(read, file, verify, fd->get(), &kept, &written);
  }
  if (absl::IsDataLoss(fetched)) target.Remove(part);
  RETURN_IF_ERROR(fetched);
  if (written.ok() && fsync(fd->get()) != 0) written = common::ErrnoStatus("cannot sync");
  if (written.ok()) written = target.Rename(part, name);
  if (!written.ok()) return cannot_write(written);
  return Pulled::kFetched;
}

}  // namespace muster::client
