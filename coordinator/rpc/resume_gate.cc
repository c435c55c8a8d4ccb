#include "coordinator/rpc/resume_gate.h"

#include <algorithm>
#include <charconv>

#include "common/sha256.h"
#include "coordinator/rpc/contexts.h"

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

std::shared_ptr<const ResumeGate::Hashes> ResumeGate::Remember(const Key& key,
                                                               const CheckpointFileList& files) {
  auto hashes = std::make_shared<Hashes>();
  hashes->reserve(static_cast<size_t>(files.size()));
  for (const v1::CheckpointFile& file : files) {
    if (common::IsSha256Hex(file.sha256())) hashes->push_back(HashOf(file.sha256()));
  }
  std::sort(hashes->begin(), hashes->end());
  std::lock_guard lock(mutex_);
  if (hashes_ + hashes->size() > kHashesMax) {
    attempts_.clear();
    hashes_ = 0;
  }
  if (attempts_.insert_or_assign(key, hashes).second) hashes_ += hashes->size();
  return hashes;
}

void ResumeGate::Check(Jobs& jobs, Process& process, uint64_t job, uint32_t attempt,
                       const std::string& sha256, Answer answer) {
  std::shared_ptr<const Hashes> known;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = attempts_.find({job, attempt}); found != attempts_.end())
      known = found->second;
  }
  if (known != nullptr) return answer(Has(*known, sha256));
  jobs.loop.Ask([this, &process, job, attempt, sha256,
                 answer = std::move(answer)](const LoopView& view) -> std::function<void()> {
    auto files =
        std::make_shared<const CheckpointFileList>(FilesToResume(view.state, job, attempt));
    process.pool.Post([this, job, attempt, sha256, answer, files] {
      // An attempt that resumes from nothing may not have started yet.
      if (files->empty()) return answer(false);
      answer(Has(*Remember({job, attempt}, *files), sha256));
    });
    return nullptr;
  });
}

void ResumeGate::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  const auto begin = attempts_.lower_bound({job, 0});
  const auto end = attempts_.upper_bound({job, UINT32_MAX});
  for (auto each = begin; each != end; ++each) hashes_ -= each->second->size();
  attempts_.erase(begin, end);
}

}  // namespace muster::coordinator
