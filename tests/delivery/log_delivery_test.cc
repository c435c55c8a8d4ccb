// Logs arrive exactly once, in order, across crashes: the worker's real forwarder and spool reader
// and the coordinator's real store, between a shim that writes spools and a link that breaks.
// `log_delivery_test files SEED` runs one seed and prints its faults, `log_delivery_test files FIRST COUNT`
// many; the first broken promise is printed with its seed, which reproduces it exactly. `files`: the store in a
// directory; `packs`: the one of an object store, with coordinators that replace each other.
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "tests/delivery/log_store_model.h"
#include "tests/delivery/pack_store_model.h"
#include "tests/sim/event_queue.h"
#include "worker/output/log_forwarder.h"

namespace muster::delivery {
namespace {

const worker::AttemptKey kKey{7, 2};
constexpr int64_t kEpochUs = 1'700'000'000'000'000;
constexpr int64_t kSettledMs = 600'000;

struct Counts {
  uint64_t bytes = 0, dropped = 0, chunks = 0, trims = 0;
  uint64_t cuts = 0, worker_kills = 0, crashes = 0;
};

// Nothing here needs a disk, and a sync in memory is free.
std::string MakeRoot() {
  std::string name = std::filesystem::exists("/dev/shm") ? "/dev/shm/mdXXXXXX" : "/tmp/mdXXXXXX";
  Expect(mkdtemp(name.data()) != nullptr, "cannot make " + name);
  return name;
}

class World {
 public:
  World(const std::string& kind, uint64_t seed, bool trace, Counts* counts)
      : queue_(seed),
        root_(MakeRoot()),
        worker_paths_(root_ + "/worker", root_),
        store_(Open(kind)),
        counts_(*counts) {
    queue_.trace = trace;
  }
  ~World() { std::filesystem::remove_all(root_); }

  void Run() {
    std::filesystem::create_directories(worker_paths_.SpoolDir(kKey));
    const auto ranks = static_cast<uint32_t>(queue_.Draw(1, 3));
    const bool flood = queue_.Chance(0.15);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      for (const auto which : {common::Stream::kStdout, common::Stream::kStderr}) {
        streams_.push_back(std::make_unique<SpooledStream>(
            first_rank_ + rank, which,
            common::SpoolPath(worker_paths_.SpoolDir(kKey), first_rank_ + rank, which)));
        streams_.back()->pieces_left = static_cast<int>(queue_.Draw(0, flood ? 400 : 60));
        WriteNext(*streams_.back());
      }
    }
    StartWorker();
    ScheduleFault();
    ScheduleRead();
    while (queue_.Step(kSettledMs)) {
    }
    CheckSettled();
  }

 private:
  std::unique_ptr<DeliveryStore> Open(const std::string& kind) {
    const auto acknowledge = [this](uint64_t link, const v1::LogAck& ack) {
      Acknowledge(link, ack);
    };
    if (kind == "packs")
      return std::make_unique<PackStoreModel>(queue_, root_ + "/coordinator", acknowledge);
    return std::make_unique<LogStoreModel>(queue_, root_ + "/coordinator", acknowledge);
  }

  // ---------------------------------------------------------------- the shim

  size_t PieceSize() {
    const int64_t kind = queue_.Draw(0, 99);
    const int64_t most = kind < 60 ? 200 : kind < 85 ? 5'000 : kind < 96 ? 70'000 : 400'000;
    return static_cast<size_t>(queue_.Draw(1, most));
  }
  int64_t NowUs() { return kEpochUs + queue_.now_ms() * 1'000 + queue_.Draw(0, 999); }

  void WriteNext(SpooledStream& stream) {
    queue_.After(queue_.Chance(0.7) ? queue_.Draw(0, 20) : queue_.Draw(0, 600), [this, &stream] {
      if (stream.pieces_left-- <= 0) return Close(stream);
      if (queue_.Chance(0.08)) {
        const auto dropped = static_cast<uint64_t>(queue_.Draw(1, 100'000));
        stream.Drop(dropped);
        counts_.dropped += dropped;
        if (queue_.Chance(0.5)) {
          stream.MarkDropped(NowUs());
          Grew();
        }
        return WriteNext(stream);
      }
      std::string bytes(PieceSize(), '\0');
      const auto salt = static_cast<uint64_t>(queue_.Draw(0, 1 << 30));
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(1 + (salt + i * 2654435761u) % 251);
      }
      counts_.bytes += bytes.size();
      stream.WriteBytes(std::move(bytes));
      queue_.After(queue_.Draw(0, 3), [this, &stream] {
        stream.WriteRecord(NowUs());
        Grew();
        WriteNext(stream);
      });
    });
  }

  void Close(SpooledStream& stream) {
    stream.Close(NowUs());
    Grew();
    if (queue_.Chance(0.7)) {
      WithWorker(queue_.Draw(0, 20), [this, &stream] { TellClosed(stream); });
    }
    for (const auto& other : streams_) {
      if (!other->closed) return;
    }
    attempt_ended_ = true;
    WithWorker(queue_.Draw(0, 50), [this] { forwarder_->Ended(kKey); });
  }

  void Grew() {
    WithWorker(queue_.Draw(0, 5), [this] { forwarder_->Grew(kKey); });
  }
  void TellClosed(SpooledStream& stream) {
    forwarder_->Closed(kKey, stream.rank, stream.stream, stream.truth.bytes.size());
  }

  // ---------------------------------------------------------------- the worker

  // What a worker that dies in the meantime never does.
  void WithWorker(int64_t delay_ms, std::function<void()> action) {
    queue_.After(delay_ms, [this, life = worker_life_, action = std::move(action)] {
      if (forwarder_ == nullptr || life != worker_life_) return;
      action();
      Pump();
    });
  }

  void StartWorker() {
    forwarder_ = std::make_unique<worker::LogForwarder>(
        worker_paths_, worker::LogForwarder::Source{"node-a", 1},
        worker::LogForwarder::Callbacks{
            [this] { return link_up_ && under_way_ < window_; },
            [](const worker::AttemptKey&) { return true; },
            [this](v1::LogChunk chunk) { Send(std::move(chunk)); },
            [this](const worker::AttemptKey&, uint32_t rank, common::Stream stream, uint64_t offset,
                   uint64_t records) { Trim(rank, stream, offset, records); },
            [this](const worker::AttemptKey&) { Drained(); },
            [](const std::string& note) { throw Broken(note); }});
    forwarder_->Add(kKey, first_rank_, static_cast<uint32_t>(streams_.size() / 2));
    // A shim sends a returning worker everything from the start.
    WithWorker(queue_.Draw(0, 100), [this] {
      for (const auto& stream : streams_) {
        if (stream->closed && queue_.Chance(0.8)) TellClosed(*stream);
      }
      if (attempt_ended_) forwarder_->Ended(kKey);
    });
    DialSoon();
  }

  void Pump() {
    const auto again = forwarder_->Pump(queue_.now_ms());
    if (!again || *again == next_pump_ms_) return;
    next_pump_ms_ = *again;
    WithWorker(*again - queue_.now_ms(), [this] { next_pump_ms_ = -1; });
  }

  void Trim(uint32_t rank, common::Stream which, uint64_t offset, uint64_t records) {
    ++counts_.trims;
    if (queue_.Chance(0.2)) return;  // the shim is gone, or its file system does not support holes
    for (const auto& stream : streams_) {
      if (stream->rank == rank && stream->stream == which) stream->Trim(offset, records);
    }
  }

  // The worker now forgets the attempt and its spools: nothing may be missing.
  void Drained() {
    for (const auto& stream : streams_) {
      Expect(store_->EndIsDurable(StoreKey(*stream), stream->truth.bytes.size()),
             "drained, but the end of rank " + std::to_string(stream->rank) + " stream " +
                 std::to_string(static_cast<int>(stream->stream)) + " at " +
                 std::to_string(stream->truth.bytes.size()) + " is not durable");
    }
    Expect(attempt_ended_, "drained before the attempt ended");
    drained_ = true;
  }

  // ---------------------------------------------------------------- the link

  void DialSoon() {
    WithWorker(queue_.Draw(1, 400), [this] {
      if (link_up_) return;
      if (!coordinator_up_) return DialSoon();
      link_up_ = true;
      window_ = static_cast<uint64_t>(queue_.Draw(1, 12));
      forwarder_->Restart();
    });
  }

  void CutLink() {
    if (!link_up_) return;
    late_[link_] = static_cast<uint64_t>(queue_.Draw(0, static_cast<int64_t>(under_way_)));
    ++link_;
    last_arrival_ms_ = 0;  // the next link's chunks may overtake them
    link_up_ = false;
    under_way_ = 0;
  }

  void Send(v1::LogChunk chunk) {
    ++counts_.chunks;
    ++under_way_;
    last_arrival_ms_ =
        std::max(last_arrival_ms_, queue_.now_ms() + queue_.Draw(0, queue_.Chance(0.1) ? 400 : 15));
    queue_.After(last_arrival_ms_ - queue_.now_ms(),
                 [this, link = link_, life = coordinator_life_, chunk = std::move(chunk)] {
                   // The first chunks of a broken link may still arrive.
                   if (life != coordinator_life_) return;
                   if (link != link_ && late_[link]-- == 0) return void(late_[link] = 0);
                   store_->Append(chunk, link);
                   if (link != link_) return;
                   --under_way_;
                   WithWorker(0, [] {});
                 });
  }

  void Acknowledge(uint64_t link, const v1::LogAck& ack) {
    last_ack_ms_ = std::max(last_ack_ms_, queue_.now_ms() + queue_.Draw(0, 15));
    for (int copies = queue_.Chance(0.05) ? 2 : 1; copies > 0; --copies) {
      WithWorker(last_ack_ms_ - queue_.now_ms(), [this, link, ack] {
        if (link == link_ && link_up_) forwarder_->OnAck(ack);
      });
    }
  }

  // ---------------------------------------------------------------- faults

  void ScheduleFault() {
    if (faults_left_-- == 0) return;
    queue_.After(queue_.Draw(1, 700), [this] {
      const int64_t kind = queue_.Draw(0, 9);
      if (kind < 4) {
        queue_.Trace("the link breaks");
        ++counts_.cuts;
        CutLink();
        if (forwarder_ != nullptr) DialSoon();
      } else if (kind < 7) {
        KillWorker();
      } else {
        CrashCoordinator();
      }
      ScheduleFault();
    });
  }

  void KillWorker() {
    if (forwarder_ == nullptr || drained_) return;
    queue_.Trace("the worker is killed");
    ++counts_.worker_kills;
    CutLink();
    forwarder_.reset();
    ++worker_life_;
    next_pump_ms_ = -1;
    queue_.After(queue_.Draw(1, 500), [this] { StartWorker(); });
  }

  void CrashCoordinator() {
    if (!coordinator_up_) return;
    const bool power = queue_.Chance(0.6);
    queue_.Trace(power ? "the coordinator loses power" : "the coordinator is killed");
    ++counts_.crashes;
    coordinator_up_ = false;
    ++coordinator_life_;
    CutLink();
    store_->Crash(power);
    if (forwarder_ != nullptr) DialSoon();
    queue_.After(queue_.Draw(1, 800), [this] {
      store_->Reopen();
      coordinator_up_ = true;
    });
  }

  // ---------------------------------------------------------------- a client

  // Of whatever is there, nothing is wrong.
  void ScheduleRead() {
    queue_.After(queue_.Draw(100, 900), [this] {
      if (drained_ || !coordinator_up_) return drained_ ? void() : ScheduleRead();
      const auto at =
          static_cast<size_t>(queue_.Draw(0, static_cast<int64_t>(streams_.size()) - 1));
      const SpooledStream& stream = *streams_[at];
      const Content read = store_->Read(StoreKey(stream), /*has_end=*/false);
      Content truth{stream.truth.bytes.substr(0, read.bytes.size()), {}};
      for (const auto& [offset, length] : stream.truth.gaps) {
        if (offset < read.bytes.size())
          truth.gaps.emplace_back(offset, std::min(length, read.bytes.size() - offset));
      }
      Expect(read == truth, "rank " + std::to_string(stream.rank) +
                                ": what can be read while it grows is not what was written");
      ScheduleRead();
    });
  }

  // ---------------------------------------------------------------- the end

  static coordinator::LogKey StoreKey(const SpooledStream& stream) {
    return {
        kKey.job, kKey.attempt, stream.rank,
        stream.stream == common::Stream::kStdout ? v1::LOG_STREAM_STDOUT : v1::LOG_STREAM_STDERR};
  }

  void CheckSettled() {
    Expect(drained_, "faults are over and nothing more happens, but not every stream is done");
    store_->Calm();
    store_->Crash(/*power=*/true);
    store_->Reopen();
    for (const auto& stream : streams_) {
      const Content stored = store_->Read(StoreKey(*stream), /*has_end=*/true);
      Expect(stored == stream->truth, "rank " + std::to_string(stream->rank) + " stream " +
                                          std::to_string(static_cast<int>(stream->stream)) + ": " +
                                          std::to_string(stored.bytes.size()) + " bytes and " +
                                          std::to_string(stored.gaps.size()) +
                                          " gaps are stored, " +
                                          std::to_string(stream->truth.bytes.size()) + " and " +
                                          std::to_string(stream->truth.gaps.size()) +
                                          " were written, or they differ in what they say");
    }
  }

  sim::EventQueue queue_;
  const std::string root_;
  const worker::Paths worker_paths_;
  const std::unique_ptr<DeliveryStore> store_;
  Counts& counts_;
  const uint32_t first_rank_ = 3;
  std::vector<std::unique_ptr<SpooledStream>> streams_;
  std::unique_ptr<worker::LogForwarder> forwarder_;
  uint64_t worker_life_ = 0;
  uint64_t coordinator_life_ = 0;
  bool coordinator_up_ = true;
  bool attempt_ended_ = false;
  bool drained_ = false;
  uint64_t link_ = 0;
  bool link_up_ = false;
  std::map<uint64_t, uint64_t> late_;  // chunks of a broken link that may still arrive
  uint64_t window_ = 4;
  uint64_t under_way_ = 0;
  int64_t last_arrival_ms_ = 0;
  int64_t last_ack_ms_ = 0;
  int64_t next_pump_ms_ = -1;
  int faults_left_ = static_cast<int>(queue_.Draw(0, 25));
};

int Main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "files";
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const uint64_t count = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : argc > 2 ? 1 : 300;
  Counts counts;
  const auto began = std::chrono::steady_clock::now();
  for (uint64_t seed = first; seed < first + count; ++seed) {
    try {
      World(kind, seed, /*trace=*/argc == 3, &counts).Run();
    } catch (const Broken& broken) {
      std::printf("seed %llu: %s\nagain: log_delivery_test %s %llu\n",
                  static_cast<unsigned long long>(seed), broken.what(), kind.c_str(),
                  static_cast<unsigned long long>(seed));
      return 1;
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf(
      "%llu seeds, %.1f MB written, %.1f MB dropped, %llu chunks, %llu trims, %llu broken links, "
      "%llu worker kills, %llu coordinator crashes in %.1f s\n",
      static_cast<unsigned long long>(count), static_cast<double>(counts.bytes) / 1e6,
      static_cast<double>(counts.dropped) / 1e6, static_cast<unsigned long long>(counts.chunks),
      static_cast<unsigned long long>(counts.trims), static_cast<unsigned long long>(counts.cuts),
      static_cast<unsigned long long>(counts.worker_kills),
      static_cast<unsigned long long>(counts.crashes), seconds);
  return 0;
}

}  // namespace
}  // namespace muster::delivery

int main(int argc, char** argv) { return muster::delivery::Main(argc, argv); }
