#include "worker/membership/audit_heads.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/audit_chain.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "worker/base/paths.h"

namespace muster::worker {
namespace {

constexpr size_t kAuditHeadsBytesMax = 64 << 10;

}  // namespace

AuditHeads::AuditHeads(std::string path, std::function<void(const std::string&)> warn)
    : path_(std::move(path)), warn_(std::move(warn)) {
  const absl::StatusOr<std::string> text = common::ReadFile(path_, kAuditHeadsBytesMax);
  if (!text.ok()) return;
  for (const auto line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    Kept kept;
    if (words.size() != 2 || !absl::SimpleAtoi(words[0], &kept.wall_ms)) continue;
    const auto head = common::ParseHead(common::FromAbsl(words[1]));
    if (!head.has_value()) continue;
    kept.head = *head;
    kept_.push_back(std::move(kept));
  }
}

void AuditHeads::Saw(const v1::AuditHead& head, int64_t wall_ms) {
  if (head.number() == 0) return;
  if (!kept_.empty()) {
    const v1::AuditHead& last = kept_.back().head;
    if (head.number() == last.number() && head.hash() == last.hash()) return;
    // Also happens after an older backup was restored; the earlier hashes stay, for comparison.
    const bool is_older = head.number() <= last.number();
    if (is_older) {
      warn_(
          common::StrCat("the coordinator's audit does not continue the one that was seen before=",
                         common::HeadText(last), " now=", common::HeadText(head),
                         "; fix: jobctl audit --verify --head ", common::HeadText(last)));
    } else if (kept_.size() >= 2 && wall_ms - kept_[kept_.size() - 2].wall_ms < kApartMs) {
      kept_.pop_back();
    }
  }
  kept_.push_back({wall_ms, head});
  if (kept_.size() > kKept) kept_.erase(kept_.begin());
  if (wall_ms - written_ms_ < kWriteEveryMs && wall_ms >= written_ms_) return;
  written_ms_ = wall_ms;
  Write();
}

void AuditHeads::Write() const {
  std::string text;
  for (const Kept& kept : kept_) {
    common::StrAppend(&text, kept.wall_ms, " ", common::HeadText(kept.head), "\n");
  }
  // Not synced, as this is the control loop: a power failure may cost the newest lines.
  if (!common::WriteFileAtomically(path_, text).ok())
    warn_(common::StrCat("hashes of the audit are not kept path=", path_));
}

std::optional<int> RunAuditHeadsCommand(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "audit-heads") return std::nullopt;
  if (argc != 4 || std::string_view(argv[2]) != "--state-dir") {
    std::fputs("muster-worker audit-heads: fix: muster-worker audit-heads --state-dir DIR\n",
               stderr);
    return 2;
  }
  const std::string path = Paths(argv[3], "").AuditHeads();
  const absl::StatusOr<std::string> text = common::ReadFile(path, kAuditHeadsBytesMax);
  if (!text.ok()) {
    std::fprintf(stderr, "muster-worker audit-heads: %s\n",
                 common::MessageOf(text.status()).c_str());
    return 1;
  }
  for (const auto line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 2) std::printf("%s\n", words[1].c_str());
  }
  return 0;
}

}  // namespace muster::worker
