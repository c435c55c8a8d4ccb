#include "coordinator/gates/resume_gate.h"

#include <algorithm>
#include <charconv>

#include "common/hash/sha256.h"
#include "coordinator/contexts/contexts.h"

namespace muster::coordinator {
namespace {

// The files that a live attempt resumes from; empty if there are none.
CheckpointFileList FilesToResume(const ClusterState& state, uint64_t job, uint32_t number) {
  const auto found = state.jobs.find(job);
  const v1::Attempt* attempt = found == state.jobs.end() ? nullptr : LiveAttempt(found->second);
  if (attempt == nullptr || attempt->number() != number) return {};
  const v1::Checkpoint* resumed = ResumedCheckpoint(found->second, *attempt);
  if (resumed == nullptr) return {};
  return FilesOf(state, job, resumed->attempt(), resumed->step());
}

}  // namespace

ResumeGate::Hash ResumeGate::HashOf(const std::string& sha256) {
  constexpr size_t kDigits = 16;  // of each number
  Hash hash{};
  for (size_t at = 0; at < hash.size(); ++at) {
    const char* begin = sha256.data() + at * kDigits;
    std::from_chars(begin, begin + kDigits, hash[at], 16);
  }
  return hash;
}

bool ResumeGate::Has(const Hashes& hashes, const std::string& sha256) {
  return common::IsSha256Hex(sha256) &&
         std::binary_search(hashes.begin(), hashes.end(), HashOf(sha256));
}

ResumeGate::Hashes ResumeGate::HashesOf(const CheckpointFileList& files) {
  Hashes hashes;
  hashes.reserve(static_cast<size_t>(files.size()));
  for (const v1::CheckpointFile& file : files) {
    if (common::IsSha256Hex(file.sha256())) hashes.push_back(HashOf(file.sha256()));
  }
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

void ResumeGate::Check(Jobs& jobs, Process& process, uint64_t job, uint32_t attempt,
                       const std::string& sha256, Answer answer) {
  const auto has = [sha256, answer = std::move(answer)](const Attempts::Found& hashes) {
    answer(hashes.ok() && Has(**hashes, sha256));
  };
  attempts_.Get(
      {job, attempt},
      [&jobs, &process, job, attempt](std::function<void(Attempts::Found)> done) {
        jobs.loop.Ask([&process, job, attempt,
                       done](const LoopView& view) -> std::function<void()> {
          const auto files =
              std::make_shared<const CheckpointFileList>(FilesToResume(view.state, job, attempt));
          process.pool.Post([done, files] {
            // An attempt that resumes from nothing may not have started yet.
            if (files->empty()) return done(absl::NotFoundError("it resumes from nothing"));
            done(std::make_shared<const Hashes>(HashesOf(*files)));
          });
          return nullptr;
        });
      },
      has, [](const Attempts::Found& hashes) { return hashes.ok(); });
}

void ResumeGate::Forget(uint64_t job) { attempts_.Forget({job, 0}, {job, UINT32_MAX}); }

}  // namespace muster::coordinator
