#include "worker/membership/known_heads.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "worker/base/addresses.h"

namespace muster::worker {
namespace {

constexpr size_t kHeadsFileBytesMax = 64 << 10;
// The coordinator's are much shorter. A longer one would make a file that is not read again.
constexpr size_t kClusterIdBytesMax = 256;

bool Names(const std::vector<std::string>& addresses, const std::string& address) {
  return std::find(addresses.begin(), addresses.end(), address) != addresses.end();
}

std::vector<std::string> Usable(const std::vector<std::string>& heads) {
  std::vector<std::string> usable;
  for (const std::string& head : heads) {
    if (IsHostPort(head) && usable.size() < kHeadsMax) usable.push_back(head);
  }
  return MergeHeads(usable, {});
}

}  // namespace

KnownHeads::KnownHeads(std::string path, Here here, std::function<void(const std::string&)> warn)
    : path_(std::move(path)), here_(std::move(here)), warn_(std::move(warn)), kept_(Read(path_)) {
  all_ = MergeHeads(here_.configured, IsOurs(kept_) ? kept_.heads : std::vector<std::string>{});
}

KnownHeads::Kept KnownHeads::Read(const std::string& path) {
  Kept kept;
  const absl::StatusOr<std::string> text = common::ReadFile(path, kHeadsFileBytesMax);
  if (!text.ok()) return kept;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(line, absl::MaxSplits('=', 1));
    const auto& [key, value] = pair;
    if (key == "cluster") kept.cluster_id = value;
    if (key == "authority") kept.authority = value;
    if (key == "configured") kept.configured.push_back(value);
    if (key == "head") kept.heads.push_back(value);
  }
  kept.heads = Usable(kept.heads);
  return kept;
}

// Before the first contact only the addresses tell which cluster is meant.
bool KnownHeads::IsOurs(const Kept& kept) const {
  return kept.authority == here_.authority &&
         std::any_of(here_.configured.begin(), here_.configured.end(), [&](const auto& address) {
           return Names(kept.configured, address) || Names(kept.heads, address);
         });
}

void KnownHeads::Learned(const std::string& cluster_id, const std::vector<std::string>& heads) {
  Kept now{.heads = Usable(heads)};
  if (!now.heads.empty()) {
    now.cluster_id = common::Printable(cluster_id.substr(0, kClusterIdBytesMax));
    now.authority = here_.authority;
    now.configured = here_.configured;
  }
  all_ = MergeHeads(here_.configured, now.heads);
  if (now == kept_) return;
  kept_ = std::move(now);
  Write();
}

void KnownHeads::AlsoLearned(const std::vector<std::string>& heads) {
  if (kept_.heads.empty()) return;  // it is alone
  Learned(kept_.cluster_id, MergeHeads(Usable(heads), kept_.heads));
}

void KnownHeads::Write() const {
  absl::Status written;
  if (kept_.heads.empty()) {
    written = common::RemoveTree(path_);
  } else {
    std::string text =
        common::StrCat("cluster=", kept_.cluster_id, "\nauthority=", kept_.authority, "\n");
    for (const std::string& address : kept_.configured)
      common::StrAppend(&text, "configured=", address, "\n");
    for (const std::string& head : kept_.heads) common::StrAppend(&text, "head=", head, "\n");
    written = common::WriteFileDurably(path_, text);
  }
  if (written.ok()) return;
  warn_(common::StrCat(
      "addresses of coordinators are not kept; after a restart only those are dialed that the "
      "command line or the credentials name path=",
      path_, " reason=\"", std::string(written.message()), "\""));
}

}  // namespace muster::worker
