// io_thread: poll, run what was posted, pump, scan twice a second.
#include "worker/io_thread.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/strings.h"
#include "worker/checkpoint_directory.h"

namespace muster::worker {
namespace {

constexpr int64_t kScanMs = 500;
constexpr int64_t kCountMs = 2'000;
constexpr char kProgressSource[] = "progress";

int64_t NowMs() { return common::SystemClock().Read().mono_ms; }

}  // namespace

IoThread::IoThread(Paths paths, LogForwarder::Source source, Events events, uint64_t jitter_seed)
    : paths_(paths),
      events_(std::move(events)),
      bulk_(&mailbox_,
            {[this] { logs_.Restart(); }, [this] { metrics_.Restart(); },
             [this](const v1::LogAck& ack) { logs_.OnAck(ack); },
             [this](const v1::MetricAck& ack) { metrics_.OnAck(ack); }, [] {}},
            jitter_seed),
      copies_(events_.note),
      logs_(paths, std::move(source),
            {[this] { return bulk_.CanSendLogs(); },
             [this](v1::LogChunk chunk) {
               copies_.Write(chunk);
               bulk_.SendLogs(std::move(chunk));
             },
             events_.trim,
             [this](const AttemptKey& key) {
               if (Watched* watched = Find(key)) watched->logs_drained = true;
               MaybeDrained(key);
             },
             events_.note}),
      metrics_(paths, {[this] { return bulk_.CanSendMetrics(); },
                       [this](v1::MetricBatch batch) { bulk_.SendMetrics(std::move(batch)); },
                       [this](const AttemptKey& key) {
                         if (Watched* watched = Find(key)) watched->metrics_drained = true;
                         MaybeDrained(key);
                       },
                       events_.note}),
      trainers_(SocketDoors()),
      thread_([this] { Run(); }) {}

IoThread::~IoThread() { Shutdown(); }

void IoThread::Shutdown() {
  if (!thread_.joinable()) return;
  mailbox_.Post([this] { running_ = false; });
  thread_.join();
  bulk_.Shutdown();
}

TrainerSocket::Doors IoThread::SocketDoors() {
  return {[this](const AttemptKey& key, uint32_t rank) {
            return metrics_.LastSeq(key, rank, "socket");
          },
          [this](const AttemptKey& key, uint32_t rank, v1::MetricBatch batch) {
            if (Watched* watched = Find(key)) batch.set_dropped(watched->dropped[rank]);
            return metrics_.Append(key, rank, std::move(batch));
          },
          [this](const AttemptKey& key, uint32_t rank, int64_t step, uint64_t total) {
            if (Watched* watched = Find(key)) watched->progress[rank] = {step, total};
          },
          [this](const AttemptKey& key, uint32_t rank, uint64_t dropped) {
            Watched* watched = Find(key);
            if (watched == nullptr || watched->dropped[rank] == dropped) return;
            watched->dropped[rank] = dropped;
            watched->progress.try_emplace(rank, 0, 0);
          },
          [this](const AttemptKey& key) {
            if (Watched* watched = Find(key)) ScanCheckpoints(key, *watched);
          },
          [this](const AttemptKey& key, uint32_t rank, uint64_t number, std::string record) {
            events_.input(DiagnosisInput{key, rank, number, std::move(record)});
          }};
}

IoThread::Watched* IoThread::Find(const AttemptKey& key) {
  auto found = attempts_.find(key);
  return found == attempts_.end() ? nullptr : &found->second;
}

void IoThread::Run() {
  while (running_) Turn();
}

void IoThread::Turn() {
  int64_t now = NowMs();
  bulk_.MaybeDial(now);
  std::optional<int64_t> wake = logs_.Pump(now);
  metrics_.Pump();
  ScanAll(now);
  const auto consider = [&wake](int64_t at) { wake = wake ? std::min(*wake, at) : at; };
  if (const auto dial = bulk_.NextDialMs()) consider(*dial);
  if (!attempts_.empty()) consider(next_scan_ms_);

  std::vector<pollfd> fds{{mailbox_.fd(), POLLIN, 0}};
  trainers_.AppendPollFds(&fds);
  now = NowMs();
  const int timeout = wake ? static_cast<int>(std::clamp<int64_t>(*wake - now, 0, 60'000)) : -1;
  if (poll(fds.data(), fds.size(), timeout) < 0) return;
  for (size_t i = 1; i < fds.size(); ++i) {
    if (fds[i].revents != 0) trainers_.OnReady(fds[i]);
  }
  if (fds[0].revents != 0) mailbox_.RunWaiting();
}

void IoThread::ScanAll(int64_t now_ms) {
  if (now_ms < next_scan_ms_) return;
  next_scan_ms_ = now_ms + kScanMs;
  for (auto& [key, watched] : attempts_) {
    if (watched.ended) continue;
    if (watched.tailer->Scan()) next_scan_ms_ = now_ms;  // a long file: go on after the next poll
    PassProgress(key, watched);
    ScanCheckpoints(key, watched);
  }
  if (now_ms >= next_count_ms_) {
    next_count_ms_ = now_ms + kCountMs;
    spool_bytes_ = logs_.SpoolBytes();
  }
}

void IoThread::ScanCheckpoints(const AttemptKey& key, Watched& watched) {
  const auto steps = FindSteps(paths_.CheckpointsDir(key));
  if (!steps.ok()) return;
  for (const FoundStep& found : *steps) {
    if (!watched.seen_steps.insert(found.step).second) continue;
    if (!found.problem.empty()) {
      events_.input(CheckpointRefusedInput{key, found.step, found.problem});
    } else {
      events_.input(CheckpointFoundInput{key, found.step, found.part, found.parts});
    }
  }
}

// The newest word of each trainer, at most twice a second.
void IoThread::PassProgress(const AttemptKey& key, Watched& watched) {
  for (const auto& [rank, at] : watched.progress) {
    v1::MetricBatch batch;
    batch.set_source(kProgressSource);
    batch.set_seq(metrics_.LastSeq(key, rank, kProgressSource) + 1);
    batch.set_progress_step(at.first);
    batch.set_progress_total(at.second);
    batch.set_dropped(watched.dropped[rank]);
    if (!metrics_.Append(key, rank, std::move(batch)).ok()) return;
  }
  watched.progress.clear();
}

std::unique_ptr<EventTailer> IoThread::MakeTailer(const AttemptKey& key,
                                                  const v1::LaunchAttempt& launch) {
  const std::string& workdir = launch.spec().workdir();
  std::vector<TailRoot> roots{{paths_.TensorboardDir(key), "", false}};
  if (!workdir.empty()) {
    roots.push_back({workdir + "/runs", "runs/", true});
    roots.push_back({workdir + "/lightning_logs", "lightning_logs/", true});
  }
  for (const std::string& extra : launch.spec().tensorboard_dirs()) {
    const bool absolute = !extra.empty() && extra[0] == '/';
    roots.push_back({absolute ? extra : workdir + "/" + extra, extra + "/", true});
  }
  struct stat info {};
  const int64_t since_ms = stat(paths_.Launch(key).c_str(), &info) == 0
                               ? info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1'000'000
                               : common::SystemClock().Read().wall_ms;
  const uint32_t first = launch.part().first_rank();
  const uint32_t ranks = launch.part().local_world_size();
  EventTailer::Doors doors;
  doors.known = [this, key, first, ranks](const std::string& source) {
    for (uint32_t rank = first; rank < first + ranks; ++rank) {
      if (const uint64_t seq = metrics_.LastSeq(key, rank, source); seq > 0) {
        return std::pair<uint64_t, int64_t>(seq, rank);
      }
    }
    return std::pair<uint64_t, int64_t>(0, -1);
  };
  doors.batch = [this, key](uint32_t rank, v1::MetricBatch batch) {
    return metrics_.Append(key, rank, std::move(batch)).ok();
  };
  doors.note = events_.note;
  return std::make_unique<EventTailer>(key, std::move(roots), since_ms, first, std::move(doors));
}

void IoThread::OpenNow(const AttemptKey& key, const v1::LaunchAttempt& launch,
                       common::UniqueFd listener) {
  if (attempts_.count(key) > 0) return;
  const uint32_t first = launch.part().first_rank();
  const uint32_t ranks = launch.part().local_world_size();
  Watched& watched = attempts_[key];
  watched.launch = launch;
  copies_.Open(key, launch);
  logs_.Add(key, first, ranks);
  metrics_.Add(key, first, ranks);
  watched.tailer = MakeTailer(key, launch);
  if (listener.valid()) trainers_.Add({key, first, ranks}, std::move(listener));
  next_scan_ms_ = 0;
}

void IoThread::EndNow(const AttemptKey& key) {
  Watched* watched = Find(key);
  if (watched == nullptr) {  // nothing was ever started
    events_.input(FinalScanDoneInput{key});
    return events_.input(OutputDrainedInput{key});
  }
  if (watched->ended) return;
  watched->ended = true;
  trainers_.Drain();
  trainers_.Remove(key);
  while (watched->tailer->Scan()) {
  }
  PassProgress(key, *watched);
  ScanCheckpoints(key, *watched);
  events_.input(FinalScanDoneInput{key});
  logs_.Ended(key);
  metrics_.Ended(key);
}

void IoThread::MaybeDrained(const AttemptKey& key) {
  const Watched* watched = Find(key);
  if (watched == nullptr || !watched->logs_drained || !watched->metrics_drained) return;
  events_.input(OutputDrainedInput{key});
}

void IoThread::Open(const AttemptKey& key, const v1::LaunchAttempt& launch,
                    common::UniqueFd listener) {
  auto fd = std::make_shared<common::UniqueFd>(std::move(listener));
  mailbox_.Post([this, key, launch, fd] { OpenNow(key, launch, std::move(*fd)); });
}
void IoThread::SetBulkEndpoint(const std::string& endpoint) {
  mailbox_.Post([this, endpoint] { bulk_.SetEndpoint(endpoint); });
}
void IoThread::RankStarted(const AttemptKey& key, uint32_t rank, int64_t pid) {
  mailbox_.Post([this, key, rank, pid] {
    if (Watched* watched = Find(key)) watched->tailer->SetPid(rank, pid);
  });
}
void IoThread::SpoolGrew(const AttemptKey& key) {
  mailbox_.Post([this, key] { logs_.Grew(key); });
}
void IoThread::StreamClosed(const AttemptKey& key, uint32_t rank, common::Stream stream,
                            uint64_t end) {
  mailbox_.Post([this, key, rank, stream, end] { logs_.Closed(key, rank, stream, end); });
}
void IoThread::Ended(const AttemptKey& key) {
  mailbox_.Post([this, key] { EndNow(key); });
}
void IoThread::Remove(const AttemptKey& key) {
  mailbox_.Post([this, key] {
    trainers_.Remove(key);
    logs_.Remove(key);
    copies_.Close(key);
    metrics_.Remove(key);
    attempts_.erase(key);
  });
}
void IoThread::Broadcast(const AttemptKey& key, std::string line) {
  mailbox_.Post([this, key, line = std::move(line)] { trainers_.Broadcast(key, line); });
}

}  // namespace muster::worker
