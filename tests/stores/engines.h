// The implementations of the stores that every contract is run against. A new engine is a class and
// a row in EngineKinds.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/store_parts/blobs.h"
#include "coordinator/stores/code_store.h"
#include "coordinator/stores/identity_store.h"
#include "coordinator/stores/job_index.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/log_store.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/sample_store.h"

namespace muster::coordinator {

// Empty at first. What one store has left, the next one that is opened finds.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::unique_ptr<Journal> OpenJournal() = 0;
  // After a journal was opened.
  virtual std::unique_ptr<JobIndex> OpenJobIndex() = 0;
  // Likewise.
  virtual std::unique_ptr<IdentityStore> OpenIdentityStore() = 0;
  virtual std::unique_ptr<CodeStore> OpenCodeStore() = 0;
  virtual std::unique_ptr<LogStore> OpenLogStore() = 0;
  virtual std::unique_ptr<MetricStore> OpenMetricStore() = 0;
  virtual std::unique_ptr<SampleStore> OpenSampleStore() = 0;
  virtual std::unique_ptr<Blobs> OpenBlobs() = 0;
};

struct EngineKind {
  std::string name;
  std::function<std::unique_ptr<Engine>()> make;
};
std::vector<EngineKind> EngineKinds();
// And those that only differ in how journal and index belong together.
std::vector<EngineKind> JournalKinds();
// And those that only differ in how logs and metrics are kept.
std::vector<EngineKind> LogKinds();
std::string NameOfKind(const testing::TestParamInfo<EngineKind>& info);

class StoreContract : public testing::TestWithParam<EngineKind> {
 protected:
  Engine& engine() { return *engine_; }

 private:
  const std::unique_ptr<Engine> engine_ = GetParam().make();
};

}  // namespace muster::coordinator
