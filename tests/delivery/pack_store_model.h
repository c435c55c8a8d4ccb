// The coordinator's side with an object store: the real store of packs, over real object files that fail at times, in
// simulated time. A coordinator that is killed, or deposed and continues for a while, is followed by another one that has only
// what the state and the objects say.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/object_files/object_files.h"
#include "coordinator/packs/log_store.h"
#include "coordinator/packs/packs.h"
#include "tests/delivery/delivery_store.h"
#include "tests/sim/event_queue.h"
#include "tests/stores/memory_pack_names.h"

namespace muster::delivery {

class PackStoreModel final : public DeliveryStore {
 public:
  PackStoreModel(sim::EventQueue& queue, const std::string& root, Acknowledge acknowledge);

  void Append(const v1::LogChunk& chunk, uint64_t link) override;
  void Crash(bool power) override;
  void Reopen() override;
  bool EndIsDurable(const coordinator::LogKey& key, uint64_t end) const override;
  Content Read(const coordinator::LogKey& key, bool has_end) const override;
  void Calm() override { is_calm_ = true; }

 private:
  class Turns;
  class Names;
  class FailingObjects;
  class Uploader;
  // One coordinator's term.
  struct Term {
    std::unique_ptr<coordinator::PackNames> names;
    std::unique_ptr<coordinator::LogStore> logs;
    std::map<uint64_t, std::shared_ptr<coordinator::LogUploader>> uploaders;  // by link
  };

  coordinator::StreamEnd RecordedEnd(const coordinator::LogKey& key) const;
  void Acknowledged(uint64_t link, const v1::LogAck& ack);
  bool Fails() { return !is_calm_ && queue_.Chance(0.08); }

  sim::EventQueue& queue_;
  const coordinator::Paths paths_;
  const Acknowledge acknowledge_;
  const std::unique_ptr<coordinator::Objects> objects_;
  const std::unique_ptr<coordinator::Objects> failing_;
  const std::shared_ptr<coordinator::MemoryPacks> state_ =
      std::make_shared<coordinator::MemoryPacks>();
  uint64_t terms_ = 0;
  std::unique_ptr<Term> term_;
  std::vector<std::unique_ptr<Term>> deposed_;  // that do not know it yet
  std::map<coordinator::LogKey, uint64_t> acknowledged_;
  bool is_calm_ = false;
};

}  // namespace muster::delivery
