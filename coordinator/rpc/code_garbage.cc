#include "coordinator/rpc/code_garbage.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/rpc/garbage.h"
#include "coordinator/stores/code_store.h"

namespace muster::coordinator {
namespace {

// What is still used moves to the end of the line, so the rest comes to the front in time.
constexpr uint32_t kCodeAtOnce = 200;
constexpr uint32_t kObjectsAtOnce = 2'000;

using LiveCode = std::set<CodeName>;

absl::Status Collect(Daemon& daemon, const LiveCode& live) {
  const int64_t now_ms = daemon.clock.Read().lived_ms;
  const int64_t before_ms = now_ms - std::chrono::milliseconds(kUnusedCodeKept).count();
  ASSIGN_OR_RETURN(const std::vector<CodeName> old, daemon.code.OldCode(before_ms, kCodeAtOnce));
  for (const CodeName& code : old) {
    bool is_used = live.contains(code);
    if (!is_used) {
      ASSIGN_OR_RETURN(is_used, daemon.index.HasCode(code));
    }
    // What was submitted since the live jobs were looked at was used just now, and is not removed.
    RETURN_IF_ERROR(is_used ? daemon.code.KeepCode(code, now_ms)
                            : daemon.code.RemoveCode(code, before_ms));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> removed,
                   daemon.code.RemoveObjects(before_ms, now_ms, kObjectsAtOnce));
  CollectBlobs(daemon, removed);
  return absl::OkStatus();
}

}  // namespace

void CollectCode(Daemon& daemon) {
  daemon.loop.Ask([&daemon](const LoopView& view) -> std::function<void()> {
    const auto live = std::make_shared<LiveCode>();
    for (const auto& [id, job] : view.state.jobs) {
      if (job.spec().has_code()) live->insert(CodeNameOf(job.spec()));
    }
    return [&daemon, live] {
      daemon.pool.Post([&daemon, live] {
        if (const absl::Status done = Collect(daemon, *live); !done.ok()) {
          common::LogWarning(
              common::StrCat("unused code of jobs is kept: ", common::MessageOf(done)));
        }
      });
    };
  });
}

}  // namespace muster::coordinator
