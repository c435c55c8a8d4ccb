#include "coordinator/periodic/code_garbage.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "coordinator/code/job_code.h"
#include "coordinator/periodic/garbage.h"
#include "coordinator/stores/code_store.h"

namespace muster::coordinator {
namespace {

// Used code moves to the end of the line, so the rest reaches the front in time.
// limit: code: codes per look for unused ones; the rest at the next look
constexpr uint32_t kCodeAtOnce = 200;
// limit: code: objects per look for unused ones; the rest at the next look
constexpr uint32_t kObjectsAtOnce = 2'000;

using LiveCode = std::set<CodeName>;

absl::Status Collect(Jobs& jobs, JobStores& stores, JobCode& job_code, Process& process,
                     const LiveCode& live) {
  const int64_t now_ms = process.clock.Read().lived_ms;
  const int64_t before_ms = now_ms - std::chrono::milliseconds(kUnusedCodeKept).count();
  ASSIGN_OR_RETURN(const std::vector<CodeName> old, job_code.store.OldCode(before_ms, kCodeAtOnce));
  for (const CodeName& code : old) {
    bool is_used = live.contains(code);
    if (!is_used) {
      ASSIGN_OR_RETURN(is_used, jobs.index.HasCode(code));
    }
    // Code submitted after the live jobs were looked at was used just now, and is not removed.
    RETURN_IF_ERROR(is_used ? job_code.store.KeepCode(code, now_ms)
                            : job_code.store.RemoveCode(code, before_ms));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> removed,
                   job_code.store.RemoveObjects(before_ms, now_ms, kObjectsAtOnce));
  CollectBlobs(jobs, stores, job_code, process, removed);
  return absl::OkStatus();
}

}  // namespace

void CollectCode(Jobs& jobs, JobStores& stores, JobCode& job_code, Process& process) {
  jobs.loop.Ask([&jobs, &stores, &job_code,
                 &process](const LoopView& view) -> std::function<void()> {
    const auto live = std::make_shared<LiveCode>();
    for (const auto& [id, job] : view.state.jobs) {
      if (job.spec().has_code()) live->insert(CodeNameOf(job.spec()));
    }
    return [&jobs, &stores, &job_code, &process, live] {
      process.pool.Post([&jobs, &stores, &job_code, &process, live] {
        if (const absl::Status done = Collect(jobs, stores, job_code, process, *live); !done.ok()) {
          common::LogWarning(
              common::StrCat("unused code of jobs is kept: ", common::MessageOf(done)));
        }
      });
    };
  });
}

}  // namespace muster::coordinator
