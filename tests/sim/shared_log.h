// The log in etcd as an onlooker sees it who misses nothing: the truth that the heads' copies are compared with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/election/pieces.h"
#include "etcd/rpc.pb.h"
#include "muster/v1/event.pb.h"
#include "tests/sim/ledger.h"
#include "tests/sim/sim_etcd.h"

namespace muster::sim {

inline constexpr char kLeaderKey[] = "/sim/leader";
inline constexpr char kLogPrefix[] = "/sim/log/";
std::string PieceKey(uint64_t number);

// What a leader commits in one transaction: some turns, or a new epoch.
struct Entry {
  uint64_t epoch = 0;
  std::vector<v1::Event> events;
  std::vector<v1::JobRecord> finished;
  std::vector<uint64_t> notes;  // what other stores than the journal commit: numbers of a client's
  std::optional<v1::Snapshot> snapshot;  // of the state after the events

  std::string Pack() const;
  static Entry Unpack(const std::string& bytes);
};

class SharedLog {
 public:
  explicit SharedLog(Ledger& ledger) : ledger_(ledger) {}

  // Before any piece of this writer.
  void Begins(uint64_t writer, int64_t term) { term_of_[writer] = term; }
  // A key is about to be written.
  void Written(const SimEtcd& etcd, const etcdserverpb::PutRequest& put);
  uint64_t position() const { return position_; }
  const std::set<uint64_t>& notes() const { return notes_; }

  // A coordinator of this term answers a heartbeat or a read, or releases a command. At most one at a time may.
  void Acts(int64_t term, const std::string& name, const char* what);
  uint64_t acts() const { return acts_; }

 private:
  Ledger& ledger_;
  coordinator::election::Gathering gathering_;
  std::map<uint64_t, int64_t> term_of_;  // by writer
  uint64_t position_ = 0;                // of the last entry that is whole
  uint64_t pieces_ = 0;
  std::set<uint64_t> notes_;
  int64_t acting_term_ = 0;
  std::string acting_;
  uint64_t acts_ = 0;
};

}  // namespace muster::sim
