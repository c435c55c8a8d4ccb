#include "coordinator/local/blob_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "coordinator/base/file_tree.h"
#include "coordinator/store_parts/file_age.h"
#include "coordinator/stores/blob_store.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr char kBlobs[] = "blobs";
constexpr char kUploads[] = "uploads";
constexpr char kHowToHeal[] =
    "copy the file back from a backup; without it jobs resume from an earlier checkpoint";
constexpr char kHowToHealCode[] =
    "copy the file back from a backup; without it jobs with this code fail until it is submitted "
    "again";
constexpr char kHowToHealArchive[] =
    "copy the file back from a backup, or from the data directory of another coordinator of this "
    "cluster";
constexpr char kHowToRepair[] =
    "muster-coordinator repair sets it aside, so that the same bytes can be uploaded again; or "
    "copy the file back from a backup";
constexpr int64_t kNsPerMs = 1'000'000;

// All other files there are proofs of uploads (upload_proofs.h).
bool IsUnfinished(const TreeFile& file) { return file.path.ends_with(".part"); }

const char* HowToHeal(const BlobUse& use) {
  if (use.archived != BlobUse::Archived::kNo) return kHowToHealArchive;
  return use.job != 0 ? kHowToHeal : kHowToHealCode;
}

class BlobCheck {
 public:
  BlobCheck(const Paths& paths, const BlobUses& uses, bool quick, const OnDamage& found,
            BlobTotals* totals)
      : paths_(paths), uses_(uses), quick_(quick), found_(found), totals_(*totals) {}

  absl::Status Run() {
    RETURN_IF_ERROR(WalkFiles(paths_.Root(), kBlobs,
                              {.file = [this](const TreeFile& file) { return File(file); },
                               .odd =
                                   [this](const std::string& path) {
                                     found_({path, "is not a regular file or directory",
                                             "remove it; if it links to another disk, mount that "
                                             "disk there instead"});
                                     return absl::OkStatus();
                                   }}));
    for (const auto& [sha256, use] : uses_) {
      if (seen_.contains(sha256)) continue;
      ++totals_.missing;
      found_({paths_.BelowRoot(paths_.BlobFile(sha256)), StrCat("is missing; ", TextOf(use)),
              HowToHeal(use)});
    }
    return CountUploads();
  }

 private:
  absl::Status File(const TreeFile& file) {
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    if (!common::IsSha256Hex(name) || paths_.BelowRoot(paths_.BlobFile(name)) != file.path) {
      found_({file.path, "is not one of Muster's files: its name is not a SHA-256 in its folder",
              "move it out of the data directory"});
      return absl::OkStatus();
    }
    ++totals_.files;
    totals_.bytes += file.size;
    seen_.insert(name);
    if (!quick_) return Hash(file, name);
    const auto use = uses_.find(name);
    if (use != uses_.end() && use->second.size != BlobUse::kUnknownSize &&
        use->second.size != file.size) {
      Damaged(file, name, StrCat("has ", file.size, " bytes, not ", use->second.size));
    }
    return absl::OkStatus();
  }

  absl::Status Hash(const TreeFile& file, const std::string& name) {
    // The root is trusted as given; the path below it was just found to be a regular file.
    const auto hash = common::Sha256HexOfFile(StrCat(paths_.Root(), "/", file.path));
    if (!hash.ok()) {
      Damaged(file, name, StrCat("cannot be read: ", std::string(hash.status().message())));
    } else if (*hash != name) {
      Damaged(file, name, StrCat("its ", file.size, " bytes do not match the SHA-256 in its name"));
    }
    return absl::OkStatus();
  }

  void Damaged(const TreeFile& file, const std::string& name, const std::string& what) {
    totals_.damaged.push_back(name);
    found_({file.path, what, kHowToRepair});
  }

  absl::Status CountUploads() {
    return WalkFiles(paths_.Root(), kUploads,
                     {.file =
                          [this](const TreeFile& file) {
                            if (!IsUnfinished(file)) return absl::OkStatus();
                            ++totals_.uploads;
                            totals_.upload_bytes += file.size;
                            return absl::OkStatus();
                          },
                      .odd = [](const std::string&) { return absl::OkStatus(); }});
  }

  const Paths& paths_;
  const BlobUses& uses_;
  const bool quick_;
  const OnDamage& found_;
  BlobTotals& totals_;
  std::set<std::string> seen_;
};

}  // namespace

absl::Status CheckBlobs(const Paths& paths, const BlobUses& uses, bool quick, const OnDamage& found,
                        BlobTotals* totals) {
  return BlobCheck(paths, uses, quick, found, totals).Run();
}

absl::Status SetBlobAside(const Paths& paths, const std::string& sha256) {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  if (mkdir(paths.DamagedRoot().c_str(), 0700) != 0 && errno != EEXIST) {
    return common::ErrnoStatus(StrCat("cannot create ", paths.DamagedRoot()));
  }
  const std::string aside = StrCat(paths.DamagedRoot(), "/", sha256);
  if (rename(paths.BlobFile(sha256).c_str(), aside.c_str()) != 0) {
    return common::ErrnoStatus(StrCat("cannot move ", paths.BlobFile(sha256), " to ", aside));
  }
  RETURN_IF_ERROR(common::SyncDirectory(paths.DamagedRoot()));
  return common::SyncDirectory(paths.BlobDirectory(sha256));
}

absl::StatusOr<std::vector<std::string>> RemoveStaleUploads(const Paths& paths, int64_t wall_ms) {
  const int64_t kept_ns = std::chrono::nanoseconds(kUnusedKept).count();
  std::vector<std::string> removed;
  RETURN_IF_ERROR(WalkFiles(paths.Root(), kUploads,
                            {.file =
                                 [&](const TreeFile& file) {
                                   if (wall_ms * kNsPerMs - file.modified_ns < kept_ns)
                                     return absl::OkStatus();
                                   const std::string path = StrCat(paths.Root(), "/", file.path);
                                   if (unlink(path.c_str()) == 0 && IsUnfinished(file)) {
                                     removed.push_back(file.path);
                                   }
                                   return absl::OkStatus();
                                 },
                             .odd = [](const std::string&) { return absl::OkStatus(); }}));
  return removed;
}

}  // namespace muster::coordinator
