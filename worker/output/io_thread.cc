// io_thread: poll, run posted tasks, pump, scan the attempts twice a second.
#include "worker/output/io_thread.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/text/strings.h"
#include "worker/base/descriptor_budget.h"
#include "worker/base/json_lines.h"
#include "worker/confinement/rank_account.h"
#include "worker/containers/rank_containers.h"
#include "worker/sampling/store_watch.h"

namespace muster::worker {
namespace {

constexpr int64_t kScanMs = 500;
constexpr int64_t kCountMs = 2'000;
// limit: event files: the final scans of an attempt that ended; the job is told
constexpr int64_t kLastLooksMs = 3'000;
constexpr int64_t kSecondMs = 1'000;
constexpr uint32_t kDiagnosesPerRank = 4;  // per second
constexpr char kProgressSource[] = "progress";

// Their working directory as ranks see it, for the names of event files in it.
std::string SeenWorkdir(const Paths& paths, const AttemptKey& key, const v1::JobSpec& spec) {
  return spec.container().image().empty() ? FindWorkdir(paths, key, spec).Text() : spec.workdir();
}

}  // namespace

IoThread::IoThread(Paths paths, LogForwarder::Source source, JobThreads* threads,
                   Callbacks callbacks, uint64_t jitter_seed)
    : paths_(paths),
      callbacks_(std::move(callbacks)),
      threads_(threads),
      bulk_(&mailbox_,
            {.logs_up = [this] { logs_.Restart(); },
             .metrics_up = [this] { metrics_.Restart(); },
             .log_ack = [this](const v1::LogAck& ack) { logs_.OnAck(ack); },
             .metric_ack = [this](const v1::MetricAck& ack) { metrics_.OnAck(ack); },
             .writable = [] {}},
            jitter_seed),
      copies_(paths, threads,
              {.in_loop = [this](std::function<void()> task) { mailbox_.Post(std::move(task)); },
               .note = callbacks_.note}),
      logs_(paths, source,
            {.can_send = [this] { return bulk_.CanSendLogs(); },
             .keeps_up = [this](const AttemptKey& key) { return copies_.KeepsUp(key); },
             .send =
                 [this](v1::LogChunk chunk) {
                   copies_.Write(chunk, common::MonotonicMs());
                   bulk_.SendLogs(std::move(chunk));
                 },
             .trim = callbacks_.trim,
             .drained =
                 [this](const AttemptKey& key) {
                   if (Watched* watched = Find(key)) watched->logs_drained = true;
                   MaybeDrained(key);
                 },
             .note = callbacks_.note},
            BudgetOfThisProcess().streams),
      metrics_(paths,
               {.can_send = [this] { return bulk_.CanSendMetrics(); },
                .send = [this](v1::MetricBatch batch) { bulk_.SendMetrics(std::move(batch)); },
                .drained =
                    [this](const AttemptKey& key) {
                      if (Watched* watched = Find(key)) watched->metrics_drained = true;
                      MaybeDrained(key);
                    },
                .note = callbacks_.note},
               BudgetOfThisProcess().metric_files),
      samples_(
          source.node, threads,
          {.in_loop = [this](std::function<void()> task) { mailbox_.Post(std::move(task)); },
           .can_send = [this] { return bulk_.CanSendSamples(); },
           .send = [this](v1::SampleBatch batch) { bulk_.SendSamples(std::move(batch)); },
           .framework =
               [this](const AttemptKey& key, const FrameworkVersions& versions) {
                 callbacks_.input(FrameworkSeenInput{key, versions.framework, versions.toolkit});
               }}),
      trainers_(SocketCallbacks(), BudgetOfThisProcess().connections),
      outside_([this](const AttemptKey& key, const LookTarget& target) { StartLook(key, target); }),
      thread_([this] { Run(); }) {}

IoThread::~IoThread() { Shutdown(); }

void IoThread::Shutdown() {
  if (!thread_.joinable()) return;
  mailbox_.Post([this] { running_ = false; });
  thread_.join();
  bulk_.Shutdown();
}

TrainerSocket::Callbacks IoThread::SocketCallbacks() {
  return {.last_seq = [this](const AttemptKey& key,
                             uint32_t rank) { return metrics_.LastSeq(key, rank, "socket"); },
          .metrics =
              [this](const AttemptKey& key, uint32_t rank, v1::MetricBatch batch) {
                if (Watched* watched = Find(key)) batch.set_dropped(watched->dropped[rank]);
                NoteStep(key, rank, batch);
                return metrics_.Append(key, rank, std::move(batch));
              },
          .progress =
              [this](const AttemptKey& key, uint32_t rank, int64_t step, uint64_t total) {
                if (Watched* watched = Find(key)) watched->progress[rank] = {step, total};
                samples_.NoteStep(key, rank, step, common::MonotonicMs());
              },
          .dropped =
              [this](const AttemptKey& key, uint32_t rank, uint64_t dropped) {
                Watched* watched = Find(key);
                if (watched == nullptr || watched->dropped[rank] == dropped) return;
                watched->dropped[rank] = dropped;
                watched->progress.try_emplace(rank, 0, 0);
              },
          .checkpoint_hint =
              [this](const AttemptKey& key) {
                if (Watched* watched = Find(key)) Look(key, *watched);
              },
          .diagnosis =
              [this](const AttemptKey& key, uint32_t rank, uint64_t number, std::string record) {
                OnDiagnosis(key, rank, number, std::move(record));
              }};
}

// Each is sent to the coordinator: a rank that floods must not fill the node's only stream.
void IoThread::OnDiagnosis(const AttemptKey& key, uint32_t rank, uint64_t number,
                           std::string record) {
  Watched* watched = Find(key);
  if (watched == nullptr) return;
  const int64_t now = common::MonotonicMs();
  if (now - watched->diagnosed_ms >= kSecondMs) {
    watched->diagnosed_ms = now;
    watched->diagnoses = 0;
  }
  if (++watched->diagnoses > kDiagnosesPerRank * watched->ranks) return;
  outside_.Answered(key, rank, number);
  callbacks_.input(DiagnosisInput{key, rank, number, std::move(record)});
}

void IoThread::StartLook(const AttemptKey& key, const LookTarget& target) {
  threads_->Post(key, Work::kLook, [this, key, target] {
    std::string record = LookFromOutside(target, ReadAccount(paths_.Account(key)));
    mailbox_.Post([this, key, rank = target.rank, record = std::move(record)] {
      OnLookedAt(key, rank, record);
    });
  });
}

void IoThread::OnLookedAt(const AttemptKey& key, uint32_t rank, const std::string& record) {
  for (const uint64_t number : outside_.Finished(key, rank)) {
    if (!record.empty()) callbacks_.input(DiagnosisInput{key, rank, number, record});
  }
}

IoThread::Watched* IoThread::Find(const AttemptKey& key) {
  auto found = attempts_.find(key);
  return found == attempts_.end() ? nullptr : &found->second;
}

void IoThread::Run() {
  while (running_) Turn();
}

void IoThread::Turn() {
  int64_t now = common::MonotonicMs();
  bulk_.MaybeDial(now);
  std::optional<int64_t> wake = logs_.Pump(now);
  const std::optional<int64_t> metrics_due = metrics_.Pump(now);
  OnTime(now);
  samples_.OnTime(now);
  samples_.Pump();
  bulk_.WantSamples(samples_.IsNeeded());
  outside_.OnTime(now);
  const auto consider = [&wake](int64_t at) { wake = wake ? std::min(*wake, at) : at; };
  if (metrics_due.has_value()) consider(*metrics_due);
  if (const auto dial = bulk_.NextDialMs()) consider(*dial);
  if (!attempts_.empty()) consider(next_scan_ms_);
  if (const auto sample = samples_.NextMs()) consider(*sample);
  if (const auto accept = trainers_.NextAcceptMs()) consider(*accept);
  if (const auto look = outside_.NextMs()) consider(*look);

  std::vector<pollfd> fds{{mailbox_.fd(), POLLIN, 0}};
  now = common::MonotonicMs();
  trainers_.BeginTurn(now, &fds);
  const int timeout = wake ? static_cast<int>(std::clamp<int64_t>(*wake - now, 0, 60'000)) : -1;
  if (poll(fds.data(), fds.size(), timeout) < 0) return;
  for (size_t i = 1; i < fds.size(); ++i) {
    if (fds[i].revents != 0) trainers_.OnReady(fds[i], now);
  }
  if (fds[0].revents != 0) mailbox_.RunWaiting();
}

void IoThread::OnTime(int64_t now_ms) {
  if (now_ms < next_scan_ms_) return;
  next_scan_ms_ = now_ms + kScanMs;
  copies_.OnTime(now_ms);
  for (auto& [key, watched] : attempts_) {
    if (watched.ended && !watched.closed && now_ms >= watched.look_until_ms) {
      callbacks_.note(common::StrCat(
          "the final scan of event files and checkpoints was cut short job=", key.job,
          " attempt=", key.attempt, " reason=\"",
          watched.order.not_taken.empty() ? "it took longer than " : "no space for metrics for ",
          kLastLooksMs / 1000, " s\""));
      CloseNow(key, watched);
    }
    if (watched.ended && watched.order.not_taken.empty()) continue;
    if (!watched.ended) PassProgress(key, watched);
    Look(key, watched);
  }
  if (now_ms >= next_count_ms_) {
    next_count_ms_ = now_ms + kCountMs;
    spool_bytes_ = logs_.SpoolBytes();
  }
}

// On the attempt's own thread, one at a time.
void IoThread::Look(const AttemptKey& key, Watched& watched) {
  if (watched.closed) return;
  watched.look_again = watched.looking;
  if (watched.looking) return;
  watched.looking = true;
  watched.order.final = watched.ended;
  for (const AttemptKey& rival : watched.rivals) {
    const Watched* other = Find(rival);
    watched.order.crowded |= other != nullptr && !other->ended;
  }
  threads_->Post(key, Work::kScan,
                 [this, key, scanner = watched.scanner, order = std::exchange(watched.order, {})] {
                   auto found = std::make_shared<Findings>();
                   {
                     const ActAs acting(ReadAccount(paths_.Account(key)));
                     *found = scanner->Look(order);
                   }
                   mailbox_.Post([this, key, found] { OnLooked(key, std::move(*found)); });
                 });
}

void IoThread::OnLooked(const AttemptKey& key, Findings findings) {
  Watched* watched = Find(key);
  if (watched == nullptr || watched->closed) return;
  watched->looking = false;
  for (const std::string& line : findings.notes) callbacks_.note(line);
  TakeBatches(key, *watched, findings);
  for (const FoundStep& found : findings.steps) {
    if (!found.problem.empty()) {
      callbacks_.input(CheckpointRefusedInput{key, found.step, found.problem});
    } else {
      callbacks_.input(CheckpointFoundInput{key, found.step, found.part, found.parts});
    }
  }
  const bool again = findings.more || watched->look_again;
  const bool kept = watched->order.not_taken.empty();  // otherwise OnTime retries
  if (watched->ended && findings.final && !again && kept) return CloseNow(key, *watched);
  if (again || (watched->ended && !findings.final)) Look(key, *watched);
}

// A source with a batch that could not be stored (no space) is read again from there.
void IoThread::TakeBatches(const AttemptKey& key, Watched& watched, Findings& findings) {
  for (auto& [rank, batch] : findings.batches) {
    const std::string source = batch.source();
    NoteStep(key, rank, batch);
    if (watched.order.not_taken.count(source) > 0) continue;
    if (metrics_.Append(key, rank, std::move(batch)).ok()) continue;
    watched.order.not_taken[source] = metrics_.LastSeq(key, rank, source);
    findings.more = false;  // not immediately: a full disk stays full for a while
  }
}

void IoThread::NoteStep(const AttemptKey& key, uint32_t rank, const v1::MetricBatch& batch) {
  if (batch.points().empty()) return;
  int64_t newest = 0;
  for (const v1::MetricPoint& point : batch.points()) newest = std::max(newest, point.step());
  samples_.NoteStep(key, rank, newest, common::MonotonicMs());
}

// The latest progress of each trainer, at most twice a second.
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

std::shared_ptr<AttemptScanner> IoThread::MakeScanner(const AttemptKey& key,
                                                      const v1::LaunchAttempt& launch) {
  const v1::NodePart& part = launch.part();
  return std::make_shared<AttemptScanner>(AttemptScanner::Setup{
      {key, EventRoots(paths_, key, launch), paths_.EventLedger(key), part.first_rank(),
       part.local_world_size() == launch.world_size(), SeenWorkdir(paths_, key, launch.spec()),
       [paths = paths_, key, spec = launch.spec()](const std::string& path) {
         return FindOnNode(paths, key, spec, path).Text();
       }},
      paths_.CheckpointsDir(key),
      metrics_.Known(key)});
}

// Attempts whose programs may write event files into the same directories; those of one job are
// never alive at once. Includes attempts that have ended: they may have been alive while the
// existing files were recorded.
void IoThread::FindRivals(const AttemptKey& key, Watched& watched) {
  for (auto& [other_key, other] : attempts_) {
    if (other_key.job == key.job || !Overlap(watched.roots, other.roots)) continue;
    watched.rivals.insert(other_key);
    other.rivals.insert(key);
    watched.order.crowded = other.order.crowded = true;
    watched.order.rival_pids.insert(other.pids.begin(), other.pids.end());
  }
}

// For their next scans.
void IoThread::CrowdRivals(const Watched& watched) {
  for (const AttemptKey& rival : watched.rivals) {
    if (Watched* other = Find(rival)) other->order.crowded = true;
  }
}

void IoThread::OpenSamples(const AttemptKey& key, const v1::LaunchAttempt& launch) {
  const bool has_store = launch.rendezvous() == v1::RENDEZVOUS_KIND_MUSTER;
  std::function<void(v1::RankSample*)> look;
  if (has_store && launch.world_size() > 1) {
    look = [watch = std::make_shared<StoreWatch>(paths_, key, launch.part())](
               v1::RankSample* sample) { watch->Look(sample); };
  }
  // The store knows who has come to it; there is no need to search for connections.
  const bool looks = !has_store && launch.world_size() > 1;
  samples_.Open(key, launch.part(), looks ? launch.master_port() : 0, paths_.Account(key),
                std::move(look));
}

void IoThread::OpenNow(const AttemptKey& key, const v1::LaunchAttempt& launch,
                       common::UniqueFd listener, RankPass pass) {
  if (attempts_.count(key) > 0) return;
  const uint32_t first = launch.part().first_rank();
  const uint32_t ranks = launch.part().local_world_size();
  Watched& watched = attempts_[key];
  watched.ranks = ranks;
  copies_.Open(key, launch);
  logs_.Add(key, first, ranks);
  metrics_.Add(key, first, ranks);
  OpenSamples(key, launch);
  watched.scanner = MakeScanner(key, launch);
  watched.roots = EventRoots(paths_, key, launch);
  FindRivals(key, watched);
  if (listener.valid()) trainers_.Add({key, first, ranks, std::move(pass)}, std::move(listener));
  next_scan_ms_ = 0;
}

void IoThread::EndNow(const AttemptKey& key) {
  Watched* watched = Find(key);
  if (watched == nullptr) {  // nothing was ever started
    callbacks_.input(FinalScanDoneInput{key});
    return callbacks_.input(OutputDrainedInput{key});
  }
  if (watched->ended) return;
  watched->ended = true;
  samples_.Close(key);
  CrowdRivals(*watched);
  watched->look_until_ms = common::MonotonicMs() + kLastLooksMs;
  trainers_.Drain(key);
  trainers_.Remove(key);
  Look(key, *watched);
}

void IoThread::CloseNow(const AttemptKey& key, Watched& watched) {
  watched.closed = true;
  PassProgress(key, watched);
  callbacks_.input(FinalScanDoneInput{key});
  logs_.Ended(key);
  metrics_.Ended(key);
}

void IoThread::MaybeDrained(const AttemptKey& key) {
  const Watched* watched = Find(key);
  if (watched == nullptr || !watched->logs_drained || !watched->metrics_drained) return;
  callbacks_.input(OutputDrainedInput{key});
}

void IoThread::Open(const AttemptKey& key, const v1::LaunchAttempt& launch,
                    common::UniqueFd listener, RankPass pass) {
  auto fd = std::make_shared<common::UniqueFd>(std::move(listener));
  mailbox_.Post([this, key, launch, fd, pass = std::move(pass)]() mutable {
    OpenNow(key, launch, std::move(*fd), std::move(pass));
  });
}
void IoThread::SetBulkRoute(const Route& route) {
  mailbox_.Post([this, route] { bulk_.SetRoute(route); });
}
void IoThread::RankStarted(const AttemptKey& key, uint32_t rank, pid_t pid, uint64_t start_ticks) {
  mailbox_.Post([this, key, rank, pid, start_ticks] {
    Watched* watched = Find(key);
    if (watched == nullptr) return;
    if (start_ticks > 0) samples_.RankStarted(key, {rank, pid, start_ticks});
    outside_.RankStarted(key, rank, pid, start_ticks);
    watched->order.pids[rank] = pid;
    watched->pids.insert(pid);
    for (const AttemptKey& rival : watched->rivals) {
      if (Watched* other = Find(rival)) other->order.rival_pids.insert(pid);
    }
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
    samples_.Close(key);
    outside_.Remove(key);
    attempts_.erase(key);
    for (auto& [other_key, other] : attempts_) other.rivals.erase(key);
  });
}
void IoThread::Broadcast(const AttemptKey& key, std::string line) {
  mailbox_.Post([this, key, line = std::move(line)] { trainers_.Broadcast(key, line); });
}

void IoThread::Diagnose(const AttemptKey& key, uint64_t number, std::string reason) {
  mailbox_.Post([this, key, number, reason = std::move(reason)] {
    trainers_.Broadcast(key, DiagnoseLine(number, reason));
    outside_.Ask(key, number, reason, trainers_.Speakers(key), common::MonotonicMs());
  });
}

}  // namespace muster::worker
