// Which files an attempt may download: those of the checkpoint that it resumes from. Remembered by
// hash, because every node of the attempt asks for each of them. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/base/cache.h"
#include "coordinator/core/state/checkpoint_files.h"

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
  // limit: nodes: hashes of resumed files that are remembered; looked up again
  static constexpr size_t kHashesMax = 1'000'000;  // remembered, 32 bytes each
  using Hash = std::array<uint64_t, 4>;
  using Hashes = std::vector<Hash>;                                     // ascending
  using Attempts = Cache<std::pair<uint64_t, uint32_t>, const Hashes>;  // by job and attempt

  static Hash HashOf(const std::string& sha256);
  static bool Has(const Hashes& hashes, const std::string& sha256);
  static Hashes HashesOf(const CheckpointFileList& files);

  Attempts attempts_{
      {.weight = kHashesMax, .weigh = [](const Hashes& hashes) { return hashes.size(); }}};
};

}  // namespace muster::coordinator
