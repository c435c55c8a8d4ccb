// The coordinator's side: real log files, driven the way the log store's thread drives them (append
// on arrival; a delayed sync, then one acknowledgement per stream with new chunks), but in
// simulated time and with crashes that lose what was not synced.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "coordinator/local/log_stream_file.h"
#include "coordinator/stores/paths.h"
#include "tests/delivery/delivery_store.h"
#include "tests/sim/event_queue.h"

namespace muster::delivery {

class LogStoreModel final : public DeliveryStore {
 public:
  LogStoreModel(sim::EventQueue& queue, const std::string& root, Acknowledge acknowledge)
      : queue_(queue), paths_(root), acknowledge_(std::move(acknowledge)) {}

  void Append(const v1::LogChunk& chunk, uint64_t link) override;
  void Crash(bool power) override;
  void Reopen() override;
  bool EndIsDurable(const coordinator::LogKey& key, uint64_t end) const override;
  Content Read(const coordinator::LogKey& key, bool has_end) const override;

 private:
  struct Durable {
    uint64_t written = 0;
    bool ended = false;
    std::string file;  // the last segment, and as much of it as was synced
    uint64_t file_bytes = 0;
  };
  void SyncAfter(int64_t delay_ms);
  void Sync();
  void LoseUnsynced(const coordinator::LogKey& key, const Durable& durable);
  std::string LastFile(const coordinator::LogKey& key) const;

  sim::EventQueue& queue_;
  const coordinator::Paths paths_;
  const Acknowledge acknowledge_;
  std::map<coordinator::LogKey, coordinator::LogStreamFile> open_;
  std::map<coordinator::LogKey, std::set<uint64_t>> dirty_;  // links on which chunks arrived
  std::map<coordinator::LogKey, Durable> durable_;
  uint64_t dirty_bytes_ = 0;
  int64_t sync_due_ms_ = 0;  // 0: none
  uint64_t life_ = 0;
};

}  // namespace muster::delivery
