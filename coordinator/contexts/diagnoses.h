// Looks at the ranks of jobs: who asked for one, and which ranks have not answered yet. A look stops a
// rank for a moment; therefore a caller who asks within a second of another look gets that one's answers
// instead of a new look. A look is over for a caller when all ranks have answered, when the time is up, or
// when the caller leaves. Any thread; does not survive a restart of the coordinator.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/lru_map.h"
#include "coordinator/contexts/sink.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

class Diagnoses {
 public:
  using Stream = Sink<v1::DiagnoseJobUpdate>;
  using Time = std::chrono::steady_clock::time_point;
  // Requests at once, in all and of one principal. A request counts until its stream is gone, because
  // records that its client has not read take memory.
  // limit: looks at ranks: requests for ranks' records; refused (JC1308)
  static constexpr size_t kStreamsMax = 32;
  // limit: looks at ranks: the same of one principal; refused (JC1308)
  static constexpr size_t kStreamsOfOneMax = 2;
  // How long a look answers other callers. Its answers are kept meanwhile, up to this many bytes for all
  // looks.
  static constexpr std::chrono::seconds kShared{1};
  // limit: looks at ranks: records kept for other requests of the same job
  static constexpr size_t kKeptBytesMax = 64 << 20;
  // The audit has one entry per principal, job and minute; this many of them are remembered.
  static constexpr std::chrono::minutes kRecordedEvery{1};
  // limit: audit: callers × jobs whose looks are told apart in the audit; recorded again
  static constexpr size_t kRememberedMax = 4'096;

  struct Asked {
    std::string principal;
    Time now;
    Time until;
    std::shared_ptr<Stream> stream;
  };
  // Sends the attempt and what is known already to the stream. Returns the number to ask the nodes with,
  // never 0; none: another look that has just begun provides the answers. RESOURCE_EXHAUSTED (JC1308):
  // there are too many streams, or the answers of that look were too large to keep.
  absl::StatusOr<std::optional<uint64_t>> Open(v1::DiagnosedAttempt attempt, Asked asked);
  // A rank's answer, through its worker. Ignored if nothing is waiting for it. False: the rank does
  // not run on that node.
  bool Take(const std::string& node, v1::RankDiagnosis diagnosis);
  // Whether the audit must get an entry about this look.
  bool IsToRecord(const std::string& principal, uint64_t job, Time now);
  // True: call Expire soon, and again as long as it returns true. One caller at a time gets it.
  bool BeginExpiring();
  // Ends the requests whose time is up, and forgets looks that can no longer answer other callers. False:
  // none is left.
  bool Expire(Time now);

 private:
  using Update = std::shared_ptr<const v1::DiagnoseJobUpdate>;
  struct Asker {
    Time until;
    std::shared_ptr<Stream> stream;
  };
  struct Look {
    v1::DiagnosedAttempt attempt;
    Time began;
    std::map<uint64_t, Asker> askers;  // by slot
    std::set<uint32_t> answered;
    std::vector<Update> answers;
    size_t kept_bytes = 0;
    bool is_kept = true;  // false: its answers were too large
  };

  // With the lock held.
  absl::Status TakeSeat(const std::string& principal);
  // The number of a look whose answers can be shared; 0: there is none.
  uint64_t FindShared(const v1::DiagnosedAttempt& attempt, Time now) const;
  void Keep(Look& look, const Update& answer);
  void Forget(Look& look);
  static bool IsWhole(const Look& look);

  // Writes what the look has already, and adds the asker once it has seen all of that.
  void CatchUp(uint64_t number, uint64_t slot, const Asker& asker);
  // The stream is over.
  void Leave(uint64_t slot, const std::string& principal);

  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, Look> looks_;
  std::map<std::string, size_t> streams_;  // by principal
  size_t streams_in_all_ = 0;
  size_t kept_bytes_ = 0;
  common::LruMap<std::pair<std::string, uint64_t>, Time> recorded_{kRememberedMax};
  uint64_t last_number_ = 0;  // of looks and slots
  bool is_expiring_ = false;
};

}  // namespace muster::coordinator
