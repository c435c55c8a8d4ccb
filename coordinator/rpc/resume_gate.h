// Which files an attempt may download: those of the checkpoint that it resumes from. Remembered by
// hash, because every node of the attempt asks for each of them. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/checkpoint_files.h"

namespace muster::coordinator {

struct Jobs;
struct Process;

class ResumeGate {
 public:
  using Answer = std::function<void(bool)>;

  // False: the attempt is not live, resumes from nothing, or from a checkpoint without this file.
  // Answers immediately if known, otherwise on a pool's thread.
  void Check(Jobs& jobs, Process& process, uint64_t job, uint32_t attempt,
             const std::string& sha256, Answer answer);
  void Forget(uint64_t job);

 private:
  static constexpr size_t kHashesMax = 1'000'000;  // remembered, 32 bytes each
  using Key = std::pair<uint64_t, uint32_t>;       // job, attempt
  using Hash = std::array<uint64_t, 4>;
  using Hashes = std::vector<Hash>;  // ascending

  static Hash HashOf(const std::string& sha256);
  static bool Has(const Hashes& hashes, const std::string& sha256);
  std::shared_ptr<const Hashes> Remember(const Key& key, const CheckpointFileList& files);

  std::mutex mutex_;  // guards what follows
  std::map<Key, std::shared_ptr<const Hashes>> attempts_;
  size_t hashes_ = 0;  // of all attempts_
};

}  // namespace muster::coordinator
