// Messages from clients and workers through the coordinator's core. Input: pieces whose first byte
// selects the type of the rest: a SubmitRequest, a worker's registration, another message of the
// worker, or passing time. What was decided is replayed from its events, and snapshots survive a
// round trip. What holds of the state after every event is checked (core/state/invariants.h).
#include <google/protobuf/util/message_differencer.h>

#include <vector>

#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/core/state/timers.h"
#include "coordinator/core/turn.h"
#include "fuzz/harness.h"

namespace muster::coordinator {
namespace {

constexpr char kNode[] = "node1";

class Cluster {
 public:
  void Take(std::string_view piece) {
    if (piece.empty()) return;
    const int kind = piece[0] & 3;
    piece.remove_prefix(1);
    const int size = static_cast<int>(piece.size());
    if (kind == 0) {
      SubmitInput input{.caller = {"uid:1000"}};
      if (input.request.ParseFromArray(piece.data(), size)) Turn({std::move(input)});
    } else if (kind == 1) {
      WorkerRegisteredInput input{.session = ++session_};
      if (!input.message.ParseFromArray(piece.data(), size)) return;
      input.message.mutable_facts()->set_name(kNode);  // its session has already checked the name
      Turn({std::move(input)});
    } else if (kind == 2) {
      WorkerSaidInput input{.session = session_, .node = kNode};
      if (input.message.ParseFromArray(piece.data(), size)) Turn({std::move(input)});
    } else {
      now_.mono_ms += 1'000 * (1 + static_cast<int64_t>(piece.size()));
      Turn({TickInput{}});
    }
  }

  void Check() {
    const v1::Snapshot snapshot = MakeSnapshot(state_);
    v1::Snapshot parsed;
    FUZZ_EXPECT(parsed.ParseFromString(snapshot.SerializeAsString()));
    for (v1::NodeRecord& node : *parsed.mutable_nodes())
      node.set_connected(false);  // as after a restart
    ClusterState restored;
    FUZZ_EXPECT(ReplaySnapshot(restored, parsed, now_).ok());
    FUZZ_EXPECT(Same(MakeSnapshot(restored), parsed));

    ClusterState replayed;
    for (const v1::Event& event : journal_) FUZZ_EXPECT(ReplayEvent(replayed, event, now_).ok());
    TakeFinished(replayed);
    FUZZ_EXPECT(replayed.jobs.size() == state_.jobs.size());
    FUZZ_EXPECT(replayed.nodes.size() == state_.nodes.size());
  }

 private:
  static bool Same(const v1::Snapshot& a, const v1::Snapshot& b) {
    return google::protobuf::util::MessageDifferencer::Equals(a, b);
  }

  void Turn(std::vector<Input> inputs) {
    const coordinator::Turn turn = TakeTurn(state_, inputs, now_, CheckInvariants);
    FUZZ_EXPECT(turn.replies.size() == inputs.size());
    for (const v1::Event& event : turn.events) {
      v1::Event parsed;  // the journal stores it as a message
      FUZZ_EXPECT(parsed.ParseFromString(event.SerializeAsString()));
      if (IsJournaled(event)) journal_.push_back(std::move(parsed));
    }
    (void)NextDeadlineMonoMs(state_);
  }

  ClusterState state_;
  common::Now now_{1'000'000, 1'700'000'000'000, 1'000};
  uint64_t session_ = 0;
  std::vector<v1::Event> journal_;
};

}  // namespace
}  // namespace muster::coordinator

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  coordinator::Cluster cluster;
  testing::Pieces input(testing::Text(data, size));
  int taken = 0;
  for (std::string_view piece; input.Next(&piece) && taken < 64; ++taken) cluster.Take(piece);
  cluster.Check();
  return 0;
}
