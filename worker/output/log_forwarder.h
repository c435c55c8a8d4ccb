// Sends every rank's output to the coordinator, in order and exactly once, from the spools of all
// attempts on this node. I/O thread. Never blocks; knows nothing of gRPC. Unacknowledged output
// stays in the spools, so memory is bounded by credits, not by the ranks' output. Few files are
// open at a time. Ranks can access the spools: a damaged one ends only its own stream, as
// does one that cannot be read for ten minutes.
//
// Latency and batching: a stream with nothing in flight sends immediately; otherwise it waits for
// 64 KiB or 50 ms. Streams take turns, one chunk each, so that a rank that floods does not silence
// the others.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kernel/shim_protocol.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/base/open_files.h"
#include "worker/base/paths.h"
#include "worker/output/acked_file.h"
#include "worker/output/disk_trouble.h"
#include "worker/output/spool_reader.h"

namespace muster::worker {

class LogForwarder {
 public:
  struct Callbacks {
    std::function<bool()> can_send;
    // Whether this attempt's streams may continue (its copies on this node keep up).
    std::function<bool(const AttemptKey&)> keeps_up;
    std::function<void(v1::LogChunk)> send;
    // Everything below is durable at the coordinator.
    std::function<void(const AttemptKey&, uint32_t rank, common::Stream, uint64_t offset,
                       uint64_t index_records)>
        trim;
    std::function<void(const AttemptKey&)>
        drained;  // every stream of the attempt is delivered to its end
    std::function<void(const std::string&)> note;
  };
  struct Source {
    std::string node;
    uint64_t incarnation = 0;
  };

  // `open_max`: how many streams may have their files open at a time.
  LogForwarder(Paths paths, Source source, Callbacks callbacks, size_t open_max = 1'024);

  // Ranks [first_rank, first_rank + ranks); resumes from the offsets that were acknowledged before
  // a restart.
  void Add(const AttemptKey& key, uint32_t first_rank, uint32_t ranks);
  void Grew(const AttemptKey& key);
  // The stream is complete: nothing follows after `end`.
  void Closed(const AttemptKey& key, uint32_t rank, common::Stream stream, uint64_t end);
  // Nothing of the attempt is alive: streams without a reported end stop where their index ends.
  void Ended(const AttemptKey& key);
  void Remove(const AttemptKey& key);

  // A new stream to the coordinator: resend whatever is unacknowledged.
  void Restart();
  void OnAck(const v1::LogAck& ack);
  // Sends what may be sent. Returns when to call it again, or nullopt.
  std::optional<int64_t> Pump(int64_t now_ms);
  // Written but not yet acknowledged.
  uint64_t SpoolBytes();

 private:
  struct InFlight {
    SpoolPlace end;
    uint64_t bytes = 0;
    bool last = false;
  };
  struct Stream {
    AttemptKey key;
    uint32_t rank = 0;
    common::Stream stream = common::Stream::kStdout;
    std::unique_ptr<SpoolReader> reader;
    SpoolPlace acked;
    SpoolPlace kept;  // from here on, neither bytes nor their records were trimmed
    uint64_t trimmed = 0;
    std::optional<uint64_t> went_back_to;  // set when the coordinator last reported lost bytes
    std::deque<InFlight> in_flight;
    uint64_t in_flight_bytes = 0;
    // Chunks that were in flight when the last connection ended were not acknowledged. Then the stream
    // sends a single chunk, which uses no credit, and no other until the coordinator answers it: a stream
    // that the coordinator cannot store for now leaves all credit to the others.
    bool is_probing = false;
    std::optional<uint64_t> end;
    bool end_sent = false;
    bool done = false;
    bool ended = false;  // nothing of the attempt is alive: the index is complete
    int64_t waiting_since_ms = -1;
    DiskTrouble trouble;
    bool maybe_more = true;  // there was news since the end of the index was last reached
  };
  using StreamKey =
      std::pair<AttemptKey, std::pair<uint32_t, uint32_t>>;  // attempt, (rank, stream)

  enum class Ready { kNo, kYes, kLater };
  Ready Check(Stream& stream, int64_t now_ms);
  Ready AtEnd(Stream& stream, uint64_t end);
  Ready SendNext(Stream& stream, int64_t now_ms);
  void Send(Stream& stream, SpoolPiece piece);
  // After `stream.reader` was used: its files are now the most recently used.
  void Used(Stream& stream);
  // While the disk may recover, returns "later". Otherwise ends the stream.
  Ready WaitOrFail(Stream& stream, const absl::Status& status, int64_t now_ms);
  static Ready Later(Stream& stream);
  void Touch(const AttemptKey& key);
  void Fail(Stream& stream, const std::string& reason);
  void Finish(Stream& stream);
  void MaybeTrim(Stream& stream);
  // Acknowledged bytes were damaged on the coordinator's disk: resends those that are still here.
  void GoBack(Stream& stream, uint64_t durable_offset);

  const Paths paths_;
  const Source source_;
  const Callbacks callbacks_;
  std::map<StreamKey, Stream> streams_;
  std::map<AttemptKey, int> open_;  // unfinished streams
  std::map<AttemptKey, AckedFile> acked_;
  StreamKey turn_;  // the stream that sent last
  uint64_t in_flight_bytes_ = 0;
  OpenFiles open_files_;
};

}  // namespace muster::worker
