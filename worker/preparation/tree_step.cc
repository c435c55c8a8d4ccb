#include "worker/preparation/tree_step.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "tree/placement.h"
#include "tree/unpack.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr size_t kPlacementBytesMax = tree::kManifestBytesMax;
constexpr uint64_t kBlockBytes = 4'096;
constexpr size_t kTreeShown = 12;  // digits of a tree's name in messages

std::string ManifestFile(const std::string& entry) { return entry + "/manifest"; }
std::string TreeDirectory(const std::string& entry) { return entry + "/tree"; }

absl::StatusOr<common::UniqueFd> OpenTreeDirectory(const std::string& path) {
  common::UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return common::ErrnoStatus(StrCat("cannot open ", path));
  return fd;
}

absl::Status CheckNames(const std::string& node, const v1::CodeTree& code) {
  const bool is_sound = common::IsSha256Hex(code.tree()) && common::IsSha256Hex(code.placement()) &&
                        code.manifest_bytes() <= tree::kManifestBytesMax &&
                        code.placement_bytes() <= kPlacementBytesMax;
  if (is_sound) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat("node ", node,
             " cannot fetch the job's code: its names are not SHA-256 in 64 hex digits, or its "
             "manifest or placement is larger than ",
             common::HumanBytes(tree::kManifestBytesMax), "; fix: submit it with jobctl"));
}

// Fetches and unpacks one tree in a single pass: an object is fetched when the first of its files is
// written, and dropped after the last.
class TreeFetch {
 public:
  TreeFetch(PreparationContext& context, const std::string& project, const v1::CodeTree& code,
            const Progress& progress)
      : context_(context), project_(project), code_(code), progress_(progress) {}

  // Into a new entry; returns its directory.
  absl::StatusOr<std::string> Make(tree::Manifest* manifest) {
    ASSIGN_OR_RETURN(const std::string encoded, ReadObject(code_.tree(), code_.manifest_bytes()));
    ASSIGN_OR_RETURN(*manifest, tree::Decode(encoded));
    ASSIGN_OR_RETURN(const std::string placed,
                     ReadObject(code_.placement(), code_.placement_bytes()));
    ASSIGN_OR_RETURN(placement_,
                     tree::DecodePlacement(placed, *manifest, tree::IdentityOf(encoded)));
    CountObjects(*manifest);
    RETURN_IF_ERROR(context_.cache.MakeRoom("the job's code", DiskBytes(*manifest) + largest_));
    ASSIGN_OR_RETURN(const std::string entry, context_.cache.NewDirectory());
    absl::Status made = UnpackInto(entry, *manifest);
    if (made.ok()) made = common::WriteFileDurably(ManifestFile(entry), encoded);
    if (made.ok()) made = context_.cache.Complete(entry, DiskBytes(*manifest));
    if (made.ok()) return entry;
    context_.cache.Discard(entry);
    return made;
  }
  uint64_t fetched_bytes() const { return fetched_; }

 private:
  absl::StatusOr<ObjectCache::File> Fetch(const std::string& name, uint64_t size) {
    auto file = context_.objects.Get(project_, {name, size}, progress_,
                                     [&](uint64_t bytes) { Say(bytes); });
    if (file.ok()) fetched_ += size;
    return file;
  }

  void Say(uint64_t of_this_object) {
    const uint64_t done = fetched_ + of_this_object;
    progress_.say(total_ == 0 ? StrCat("fetching code: ", common::HumanBytes(done))
                              : StrCat("fetching code: ", common::HumanBytes(done), " of ",
                                       common::HumanBytes(total_)));
  }

  // Reads a manifest or placement, whose size CheckNames has limited.
  absl::StatusOr<std::string> ReadObject(const std::string& name, uint64_t size) {
    ASSIGN_OR_RETURN(const ObjectCache::File file, Fetch(name, size));
    return common::ReadAt(file->get(), 0, size, StrCat("object ", name));
  }

  void CountObjects(const tree::Manifest& manifest) {
    files_.resize(placement_.objects.size());
    bytes_left_.assign(placement_.objects.size(), 0);
    for (size_t i = 0; i < placement_.places.size(); ++i) {
      if (placement_.places[i].object != tree::kNoObject)
        bytes_left_[placement_.places[i].object] += manifest.entries[i].size;
    }
    total_ = fetched_;
    for (const tree::Object& object : placement_.objects) {
      total_ += object.size;
      largest_ = std::max(largest_, object.size);
    }
  }

  absl::Status UnpackInto(const std::string& entry, const tree::Manifest& manifest) {
    const std::string path = TreeDirectory(entry);
    RETURN_IF_ERROR(common::MakeDirectories(path));
    ASSIGN_OR_RETURN(const common::UniqueFd directory, OpenTreeDirectory(path));
    const auto read = [&](const tree::Object& object, uint64_t offset, char* buffer,
                          size_t size) -> absl::StatusOr<size_t> {
      return ReadPart(object, offset, buffer, size);
    };
    return tree::Unpack(manifest, placement_, read,
                        {.directory = directory.get(), .path = path, .stopped = progress_.stopped});
  }

  // Each file is read once.
  absl::StatusOr<size_t> ReadPart(const tree::Object& object, uint64_t offset, char* buffer,
                                  size_t size) {
    const auto at = static_cast<size_t>(&object - placement_.objects.data());
    if (files_[at] == nullptr) {
      ASSIGN_OR_RETURN(files_[at], Fetch(tree::Hex(object.name), object.size));
    }
    ssize_t count = -1;
    do {
      count = pread(files_[at]->get(), buffer, size, static_cast<off_t>(offset));
    } while (count < 0 && errno == EINTR);
    if (count < 0) return common::ErrnoStatus("cannot read an object of the job's code");
    bytes_left_[at] -= std::min(bytes_left_[at], static_cast<uint64_t>(count));
    if (bytes_left_[at] == 0) files_[at] = nullptr;
    return static_cast<size_t>(count);
  }

  PreparationContext& context_;
  const std::string& project_;
  const v1::CodeTree& code_;
  const Progress& progress_;
  tree::Placement placement_;
  std::vector<ObjectCache::File> files_;  // the objects that are needed now, by position
  std::vector<uint64_t> bytes_left_;      // still to be read from each
  uint64_t total_ = 0;
  uint64_t largest_ = 0;
  uint64_t fetched_ = 0;
};

// The tree in the cache, if it is complete. Its bytes were verified when it was unpacked, and Materialize
// checks the sizes.
absl::StatusOr<CachedTree> OpenCached(PreparationContext& context, const std::string& path,
                                      const v1::CodeTree& code) {
  if (!context.cache.Use(path)) return absl::NotFoundError("it is not in the cache");
  CachedTree cached;
  cached.path = path;
  ASSIGN_OR_RETURN(const std::string encoded,
                   common::ReadFile(ManifestFile(path), tree::kManifestBytesMax));
  if (tree::Hex(tree::IdentityOf(encoded)) != code.tree()) {
    return absl::DataLossError(StrCat(ManifestFile(path), " is damaged"));
  }
  ASSIGN_OR_RETURN(cached.manifest, tree::Decode(encoded));
  ASSIGN_OR_RETURN(cached.directory, OpenTreeDirectory(TreeDirectory(path)));
  return cached;
}

absl::Status ExplainFetch(const std::string& node, const v1::CodeTree& code,
                          const absl::Status& status) {
  if (absl::IsCancelled(status) || absl::IsResourceExhausted(status)) return status;
  const bool is_gone = absl::IsDataLoss(status) || absl::IsNotFound(status);
  return absl::Status(
      status.code(),
      StrCat("node ", node, " cannot fetch the job's code (tree ",
             code.tree().substr(0, kTreeShown), "): ", common::MessageOf(status),
             is_gone ? "; fix: submit the job again, which uploads what is missing" : ""));
}

}  // namespace

uint64_t DiskBytes(const tree::Manifest& manifest) {
  uint64_t blocks = 0;
  for (const tree::Entry& entry : manifest.entries)
    blocks += std::max<uint64_t>(1, (entry.size + kBlockBytes - 1) / kBlockBytes);
  return blocks * kBlockBytes;
}

absl::StatusOr<CachedTree> GetTree(PreparationContext& context, const std::string& project,
                                   const v1::CodeTree& code, const Progress& progress) {
  const std::string& node = context.setup.node;
  RETURN_IF_ERROR(CheckNames(node, code));
  const std::string path = context.cache.TreePath(project, code.tree());
  ASSIGN_OR_RETURN(const Turns::Turn turn, context.turns.Take(path, progress));
  CodeCache::Pin pin = context.cache.Hold(path);
  if (absl::StatusOr<CachedTree> cached = OpenCached(context, path, code); cached.ok()) {
    cached->pin = std::move(pin);
    return cached;
  }
  context.cache.Discard(path);
  const Progress shared = turn.Shared(progress);
  CachedTree made;
  TreeFetch fetch(context, project, code, shared);
  const absl::StatusOr<std::string> entry = fetch.Make(&made.manifest);
  if (!entry.ok()) return ExplainFetch(node, code, entry.status());
  if (rename(entry->c_str(), path.c_str()) != 0) {
    const absl::Status failed = common::ErrnoStatus(StrCat("cannot rename ", *entry));
    context.cache.Discard(*entry);
    return ExplainFetch(node, code, absl::InternalError(common::MessageOf(failed)));
  }
  ASSIGN_OR_RETURN(made.directory, OpenTreeDirectory(TreeDirectory(path)));
  made.path = path;
  made.pin = std::move(pin);
  made.fetched_bytes = fetch.fetched_bytes();
  context.cache.Collect();
  return made;
}

}  // namespace muster::worker
