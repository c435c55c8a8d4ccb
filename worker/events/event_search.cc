// event_search: a shallow directory walk; links are not followed below a root.
#include "worker/events/event_search.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/text/relative_path.h"
#include "common/text/text.h"
#include "worker/containers/rank_containers.h"

namespace muster::worker {
namespace {

constexpr int kDepthMax = 5;

// /proc or /sys, in a working directory as wide as "/": nothing but the kernel makes files there.
bool IsKernels(int directory) {
  struct statfs info {};
  if (fstatfs(directory, &info) != 0) return false;
  const auto type = static_cast<uint64_t>(info.f_type);
  return type == PROC_SUPER_MAGIC || type == SYSFS_MAGIC;
}

class Search {
 public:
  Search(SearchBounds bounds, const std::function<void(EventFile)>& found)
      : bounds_(bounds), found_(found) {}

  void Walk(const TailRoot& root, const std::string& relative, int depth) {
    const std::string directory = relative.empty() ? root.path : root.path + "/" + relative;
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(directory.c_str()), closedir);
    if (listing == nullptr || IsKernels(dirfd(listing.get()))) return;
    std::vector<std::string> below;
    while (const dirent* entry = readdir(listing.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (bounds_.entries == 0 || common::MonotonicMs() >= bounds_.until_mono_ms) {
        whole_ = false;
        return;
      }
      --bounds_.entries;
      const std::string child = relative.empty() ? name : relative + "/" + name;
      const bool is_left_out = name.front() == '.' && !bounds_.hidden_directories;
      if (entry->d_type == DT_DIR && !is_left_out) below.push_back(child);
      if (entry->d_type != DT_REG || name.find("tfevents") == std::string::npos) continue;
      EventFile file{{}, root.path + "/" + child, root.prefix + child, root.shared, 0, false};
      if (IsSayable(file) && Look(&file)) found_(std::move(file));
    }
    if (depth >= kDepthMax) return;
    for (const std::string& child : below) Walk(root, child, depth + 1);
  }
  bool whole() const { return whole_; }

 private:
  SearchBounds bounds_;
  const std::function<void(EventFile)>& found_;
  bool whole_ = true;
};

}  // namespace

bool IsSayable(const EventFile& file) {
  return file.source.size() <= kSourceBytesMax && common::IsCleanUtf8(file.path) &&
         common::IsCleanUtf8(file.source);
}

bool Look(EventFile* file) {
  struct statx info {};
  if (statx(AT_FDCWD, file->path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME,
            &info) != 0 ||
      !S_ISREG(info.stx_mode)) {
    return false;
  }
  file->id.inode = info.stx_ino;
  if ((info.stx_mask & STATX_BTIME) != 0) {
    file->id.born_us = info.stx_btime.tv_sec * 1'000'000 + info.stx_btime.tv_nsec / 1'000;
  }
  if (file->id.born_us == 0) file->id.path = file->path;
  file->size = info.stx_size;
  return true;
}

std::vector<TailRoot> EventRoots(const Paths& paths, const AttemptKey& key,
                                 const v1::LaunchAttempt& launch) {
  const std::string workdir = FindWorkdir(paths, key, launch.spec()).Text();
  std::vector<TailRoot> roots{{paths.TensorboardDir(key), "", false}};
  if (!workdir.empty()) {
    roots.push_back({workdir + "/runs", "runs/", true});
    roots.push_back({workdir + "/lightning_logs", "lightning_logs/", true});
  }
  for (const std::string& extra : launch.spec().tensorboard_dirs()) {
    const bool absolute = !extra.empty() && extra[0] == '/';
    roots.push_back(
        {absolute ? FindOnNode(paths, key, launch.spec(), extra).Text() : workdir + "/" + extra,
         extra + "/", true});
  }
  return roots;
}

bool Overlap(const std::vector<TailRoot>& one, const std::vector<TailRoot>& other) {
  for (const TailRoot& a : one) {
    for (const TailRoot& b : other) {
      if (a.shared && b.shared &&
          (common::IsWithin(b.path, a.path) || common::IsWithin(a.path, b.path)))
        return true;
    }
  }
  return false;
}

bool FindEventFiles(const std::vector<TailRoot>& roots, SearchBounds bounds,
                    const std::function<void(EventFile)>& found) {
  Search search(bounds, found);
  for (const TailRoot& root : roots) search.Walk(root, "", 0);
  return search.whole();
}

}  // namespace muster::worker
