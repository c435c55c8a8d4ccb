// Reads the files of LocalSampleStore one at a time, even while it appends to them. One thread at a
// time.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "coordinator/local/sample_files.h"
#include "coordinator/stores/paths.h"
#include "coordinator/stores/sample_store.h"

namespace muster::coordinator {

class LocalSampleReader final : public SampleReader {
 public:
  LocalSampleReader(const Paths& paths, const SampleQuery& query) : paths_(paths), query_(query) {}
  absl::StatusOr<bool> Next(v1::SampleBucket& bucket) override;

 private:
  absl::Status FindFiles();
  absl::Status ReadFile(const SampleFile& file);

  const Paths paths_;
  const SampleQuery query_;
  bool is_listed_ = false;
  std::deque<SampleFile> files_;        // yet to be read
  std::deque<v1::SampleBucket> found_;  // of the file that is being read
};

}  // namespace muster::coordinator
