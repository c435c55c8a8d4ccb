// Which files of a job become packs of which lanes (moved_files.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/packs/packs.h"
#include "coordinator/stores/file_move.h"
#include "coordinator/stores/log_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class OutputMove final : public FileMove {
 public:
  // `before`: reads the directory's output. `note_of`: what a job's packs of metrics say besides (metric_store.h). `stop`: as
  // of MovedFiles.
  OutputMove(std::shared_ptr<Packs> packs, std::unique_ptr<const LogReader> before, Paths paths,
             std::function<std::string(uint64_t job)> note_of, const std::atomic<bool>& stop)
      : packs_(std::move(packs)),
        before_(std::move(before)),
        paths_(std::move(paths)),
        note_of_(std::move(note_of)),
        stop_(stop) {}

  std::vector<uint64_t> Jobs() const override;
  absl::Status Move(const v1::JobRecord& job) override;

 private:
  absl::Status MoveLogs(const v1::JobRecord& job);
  absl::Status MoveMetrics(uint64_t job);

  const std::shared_ptr<Packs> packs_;
  const std::unique_ptr<const LogReader> before_;
  const Paths paths_;
  const std::function<std::string(uint64_t job)> note_of_;
  const std::atomic<bool>& stop_;
};

}  // namespace muster::coordinator
