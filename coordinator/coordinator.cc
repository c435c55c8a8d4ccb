#include "coordinator/coordinator.h"

#include <malloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/files/private_directory.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/audit/audit.h"
#include "coordinator/base/data_lock.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/base/headroom.h"
#include "coordinator/calls/assess.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/calls/sealed_environment.h"
#include "coordinator/calls/submit.h"
#include "coordinator/calls/watch.h"
#include "coordinator/config/open_stores.h"
#include "coordinator/curves/curve_cache.h"
#include "coordinator/exec/exec.h"
#include "coordinator/gates/reach.h"
#include "coordinator/http/admission/token_file.h"
#include "coordinator/http/http_service.h"
#include "coordinator/http/sign_in/http_identities.h"
#include "coordinator/http_secret.h"
#include "coordinator/identity/admission.h"
#include "coordinator/identity/cluster.h"
#include "coordinator/identity/directory.h"
#include "coordinator/net/listener.h"
#include "coordinator/notify/notifier.h"
#include "coordinator/periodic/archive_keeper.h"
#include "coordinator/periodic/assessor.h"
#include "coordinator/periodic/garbage.h"
#include "coordinator/periodic/lifetime.h"
#include "coordinator/periodic/log_usage.h"
#include "coordinator/periodic/object_garbage.h"
#include "coordinator/periodic/object_mark.h"
#include "coordinator/periodic/object_move.h"
#include "coordinator/periodic/output_move.h"
#include "coordinator/periodic/stray_output.h"
#include "coordinator/private_worker.h"
#include "coordinator/services/server.h"
#include "coordinator/store_parts/lived_clock.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {
namespace {

using common::LogInfo;
using common::StrCat;

constexpr int kPoolThreads = 3;
constexpr int kReadThreads = 3;
constexpr int kFileThreads = 2;
constexpr int kObjectThreads = 8;  // each may wait for the object store
constexpr int kHashNiceness = 5;
constexpr size_t kHttpConnectionsLeast = 4;
constexpr size_t kHttpConnectionsMost = 1'024;
constexpr std::chrono::seconds kCheckAgainAfter{5};
constexpr std::chrono::milliseconds kLockTimeout{1'000};
// If several private coordinators are started at once, all but the first exit immediately.
constexpr std::chrono::milliseconds kNoTimeout{0};
constexpr std::chrono::seconds kLivedKeptEvery{5};
// A warning about free space appears below the first percentage and ends above the second.
constexpr uint64_t kLowPercent = 10;
constexpr uint64_t kRoomyPercent = 12;
// If calls in progress took more than this at some time, that was a burst.
constexpr size_t kBurstBytes = 64 << 20;
constexpr size_t kBurstJobs = 1'000;

// A private coordinator runs as its user, who may call anything anyway.
std::vector<Network> MayBeNotified(const Config& config) {
  if (!config.is_private) return config.notify_allowed;
  return {*ParseNetwork("0.0.0.0/0"), *ParseNetwork("::/0")};
}

std::string NoClusterFix(const Config& config) {
  return config.is_private ? std::string("choose a cluster's context: jobctl context ls")
                           : StrCat("make one: muster-coordinator init --data-dir ",
                                    config.data_dir, " --name CLUSTER");
}

// Facts about callers from the directory.
Admission::People PeopleOf(const Directory& directory) {
  return {
      .user = [&directory](std::string_view name) { return directory.FindUser(name); },
      .is_revoked = [&directory](std::string_view serial) { return directory.IsRevoked(serial); }};
}

// HTTP's share of the connections.
size_t HttpConnectionsOf(const Config& config, const DescriptorShares& shares) {
  if (config.http.empty()) return 0;
  return std::clamp(shares.connections / 4, kHttpConnectionsLeast, kHttpConnectionsMost);
}

}  // namespace

// Constructed in this order, destroyed in reverse (Shutdown).
struct Coordinator::Parts {
  Parts(const Config& settings, std::unique_ptr<Cluster> of,
        std::function<void(const absl::Status&)> on_stop, const Leading* leads,
        std::shared_ptr<SharedState> shared, std::unique_ptr<NoteStore> kept)
      : config(settings),
        leading(leads),
        cluster(std::move(of)),
        stop(std::move(on_stop)),
        paths(settings.data_dir),
        state(std::move(shared)),
        notes(std::move(kept)),
        clock(*notes),
        pool(kPoolThreads),
        reads(kReadThreads),
        files(kFileThreads),
        objects(config.objects.empty() ? 0 : kObjectThreads),
        object_care(config.objects.empty() ? 0 : 1),
        hashes(1, kHashNiceness),
        lifetime(
            settings.is_private, pool, [this] { stop(absl::OkStatus()); },
            [this] {
              return stores.logs->UnendedStreams() + (notifier ? notifier->Untried() : 0);
            }) {}
  // Work that is still in the pools uses the other parts.
  ~Parts() {
    if (front != nullptr) front->Stop();
    for (WorkPool* each : {&pool, &reads, &files, &hashes}) each->Stop();
  }

  void CheckDatabase();
  absl::Status Open(common::UniqueFd data_lock);
  void Serve();
  absl::Status OpenHttp();
  absl::Status ShareSecret(Note note, const std::string& path);
  absl::Status OpenHttpIdentities();
  void CareForObjects();
  // Runs now and every few seconds, until the pool stops.
  void KeepLived();
  void ReturnMemory();
  // Reports when the disk has become almost full, and when it has space again.
  void TellDiskSpace();

  const Config config;
  const Leading* const leading;            // null: this coordinator is alone
  const std::unique_ptr<Cluster> cluster;  // null: there are no identities
  const std::function<void(const absl::Status&)> stop;
  const Paths paths;
  const std::shared_ptr<SharedState> state;
  const std::unique_ptr<NoteStore> notes;
  LivedClock clock;
  common::UniqueFd lock;
  WorkPool pool;
  WorkPool reads;
  WorkPool files;
  WorkPool objects;
  WorkPool object_care;  // what may take hours
  WorkPool hashes;
  const DescriptorShares shares = ShareDescriptors();
  Stores stores;
  std::unique_ptr<http::HttpIdentities> identities;  // null: there are no identities
  std::unique_ptr<http::HttpService> front;  // the loop may still deliver answers after its Stop
  std::unique_ptr<ControlLoop> loop;
  Lifetime lifetime;
  ExecBroker execs{[this](std::chrono::milliseconds pause, std::function<void()> task) {
    pool.PostAfter(pause, std::move(task));
  }};
  std::unique_ptr<Assessor> assessor;
  std::unique_ptr<CurveCache> curves;
  std::unique_ptr<LogUsage> log_usage;
  std::unique_ptr<ObjectGarbage> object_garbage;  // null: there is no object store
  std::unique_ptr<ObjectMove> object_move;        // likewise
  std::unique_ptr<ArchiveKeeper> archive_keeper;  // null: this coordinator is alone
  std::unique_ptr<Notifier> notifier;
  std::unique_ptr<Directory> directory;
  std::unique_ptr<Audit> audit;
  std::unique_ptr<Admission> admission;
  std::unique_ptr<Daemon> daemon;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<PrivateWorker> worker;
  std::atomic<size_t> live_jobs = 0, most_live_jobs = 0;  // the most since memory was returned
  std::optional<bool> disk_is_low;  // used by KeepLived; empty: not reported yet
  bool is_down = false;
};

absl::Status Coordinator::Parts::Open(common::UniqueFd data_lock) {
  lock = std::move(data_lock);
  ASSIGN_OR_RETURN(stores, OpenStores(config, shares, clock, state));
  coordinator::Settings rules = config.settings;
  rules.cluster_id = stores.journal->ClusterId();
  // With an object store every coordinator has all checkpoints.
  if (leading != nullptr && stores.objects == nullptr) rules.head = leading->name;
  rules.job_outputs_bytes_max = config.job_outputs.Of(stores.disk_bytes);
  loop = std::make_unique<ControlLoop>(*stores.journal, clock, rules);
  RETURN_IF_ERROR(loop->Recover(stores.index.get()));
  stores.stream_failures->OnFirst([this](const StreamFailures::Failure& failure) {
    StreamFailedInput input{.job = failure.job, .attempt = failure.attempt};
    common::CopyDetail(common::MakeProblem(absl::StatusCode::kUnavailable, failure.problem),
                       &input.error);
    loop->Say(std::move(input));
  });
  curves = std::make_unique<CurveCache>(*stores.metrics);
  assessor = std::make_unique<Assessor>(*stores.metrics, *stores.samples, config.findings_floor_ms);
  notifier = std::make_unique<Notifier>(
      Notifier::Options{
          .cluster_id = rules.cluster_id,
          .allowed = MayBeNotified(config),
          .first_pause_ms = config.settings.backoff_first_ms,
          .denied = [this](const Denial& denial) { TellDenied(daemon->traffic, denial); },
          .open_environment =
              [this](v1::JobSpec& spec) { return OpenEnvironment(cluster.get(), &spec); }},
      *notes, *stores.index, clock);
  directory = std::make_unique<Directory>(*stores.identities, clock);
  RETURN_IF_ERROR(directory->Load());
  std::unique_ptr<AuditStore> entries;
  if (!config.is_private) {
    ASSIGN_OR_RETURN(entries, OpenAuditStore(state));
  }
  audit = std::make_unique<Audit>(std::move(entries), clock);
  RETURN_IF_ERROR(audit->Open());
  admission = std::make_unique<Admission>(
      Admission::Options{.is_private = config.is_private,
                         .own_uid = getuid(),
                         .cluster = cluster == nullptr ? "" : cluster->name(),
                         .people = PeopleOf(*directory)});
  // A private coordinator has one user, who owns the disk.
  const auto of_one = [this](const DiskShare& share) {
    return config.is_private ? 0 : share.Of(stores.disk_bytes);
  };
  log_usage = std::make_unique<LogUsage>(of_one(config.person_logs));
  daemon.reset(new Daemon{.jobs = {.loop = *loop,
                                   .index = *stores.index,
                                   .assessor = *assessor,
                                   .notifier = *notifier,
                                   .execs = execs},
                          .stores = {.logs = *stores.logs,
                                     .metrics = *stores.metrics,
                                     .samples = *stores.samples,
                                     .blobs = *stores.blobs,
                                     .direct = stores.direct.get(),
                                     .curves = *curves,
                                     .log_usage = *log_usage,
                                     .stream_failures = *stores.stream_failures,
                                     .signs_for_clients = config.objects_direct},
                          .job_code = {.store = *stores.code,
                                       .quota_bytes = config.code_quota.Of(stores.disk_bytes),
                                       .person_quota_bytes = of_one(config.person_code)},
                          .access = {.admission = *admission,
                                     .directory = *directory,
                                     .audit = *audit,
                                     .cluster = cluster.get(),
                                     .no_cluster_fix = NoClusterFix(config)},
                          .instance = {.lifetime = lifetime,
                                       .epoch = stores.journal->Epoch(),
                                       .started_ms = clock.Read().wall_ms,
                                       .is_private = config.is_private,
                                       .leading = leading},
                          .process = {.paths = paths,
                                      .clock = clock,
                                      .pool = pool,
                                      .reads = reads,
                                      .files = files,
                                      .objects = objects,
                                      .hashes = hashes}});
  return absl::OkStatus();
}

// Nothing is moved into a store that is not the cluster's, or deleted there.
void Coordinator::Parts::CareForObjects() {
  constexpr std::chrono::seconds kAgainAfter{5};
  const absl::Status is_ours =
      CheckObjectMark(*stores.objects, *stores.object_names, stores.object_prefix);
  if (absl::IsFailedPrecondition(is_ours)) return stop(is_ours);
  if (!is_ours.ok()) {
    common::LogWarning(StrCat("objects: the store is not known yet: ", common::MessageOf(is_ours)));
    return object_care.PostAfter(kAgainAfter, [this] { CareForObjects(); });
  }
  stores.release_packs();
  CollectObjects(*object_garbage, clock, object_care);
  MoveIntoObjects(*object_move, object_care);
  MoveOutputIntoObjects(*stores.file_move, *stores.index, object_care);
}

absl::Status Coordinator::Parts::OpenHttpIdentities() {
  if (cluster == nullptr) return absl::OkStatus();
  const std::string& tcp = daemon->instance.tcp_endpoint;
  Enrolment::Place place{.endpoint = tcp.empty() ? "" : tcp.substr(tcp.rfind(':')),
                         .worker_lives_ms = config.worker_certificate_ms,
                         .user_lives_ms = config.person_certificate_ms,
                         .state = config.head.state,
                         .secrets_key = cluster->SecretsKeyText()};
  ASSIGN_OR_RETURN(identities, http::HttpIdentities::Open(
                                   *cluster, *directory,
                                   [this](const std::vector<std::string>& serials) {
                                     if (daemon->access.cut) daemon->access.cut(serials);
                                   },
                                   std::move(place)));
  identities->certificate().Keep(pool, clock);
  return absl::OkStatus();
}

// The first leader's secret becomes everybody's.
absl::Status Coordinator::Parts::ShareSecret(Note note, const std::string& path) {
  const absl::StatusOr<std::string> shared = notes->Read(note);
  if (shared.ok()) {
    ASSIGN_OR_RETURN(const std::string secret, OpenHttpSecret(cluster.get(), *shared));
    return common::WriteFileDurably(path, secret + "\n", 0600);
  }
  if (!absl::IsNotFound(shared.status())) return shared.status();
  ASSIGN_OR_RETURN(const std::string own, http::LoadOrMakeToken(path));
  return notes->Write(note, SealHttpSecret(cluster.get(), own));
}

absl::Status Coordinator::Parts::OpenHttp() {
  RETURN_IF_ERROR(OpenHttpIdentities());
  if (config.http.empty()) return absl::OkStatus();
  if (leading != nullptr) {
    RETURN_IF_ERROR(ShareSecret(Note::kHttpSecret, paths.HttpToken()));
    RETURN_IF_ERROR(ShareSecret(Note::kMetricsSecret, paths.HttpMetricsToken()));
  }
  std::optional<oidc::Client> client;
  if (!config.oidc.issuer.empty()) {
    ASSIGN_OR_RETURN(client, oidc::ReadClient(config.oidc));
  }
  std::function<void()> must_lead;
  if (leading != nullptr) must_lead = [this] { leading->MustLead(); };
  absl::StatusOr<std::unique_ptr<http::HttpService>> opened = http::HttpService::Open(
      *daemon, {.listen = config.http,
                .host_names = config.http_hosts,
                .connections = HttpConnectionsOf(config, shares),
                .journal_pending_bytes = [this] { return stores.journal->PendingBytes(); },
                .tls = identities == nullptr ? nullptr : identities->certificate().tls(),
                .enrolment = identities == nullptr ? nullptr : &identities->enrolment(),
                .oidc = std::move(client),
                .advertised = leading == nullptr ? "" : leading->http,
                .before_sending = std::move(must_lead)});
  if (!opened.ok()) {
    if (!config.is_private) return opened.status();
    // Its jobs do not need it.
    common::LogWarning(StrCat("HTTP is not served: ", common::MessageOf(opened.status())));
    return absl::OkStatus();
  }
  front = *std::move(opened);
  daemon->instance.http_address = front->Address();
  daemon->instance.sign_in_link = [this](const Caller& caller, std::string_view path) {
    return front->SignInLink(caller, path);
  };
  return absl::OkStatus();
}

void Coordinator::Parts::KeepLived() {
  clock.Keep();
  struct statvfs disk {};
  if (statvfs(paths.Root().c_str(), &disk) == 0) {
    daemon->instance.disk_bytes = uint64_t{disk.f_blocks} * disk.f_frsize;
    daemon->instance.disk_free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
    TellDiskSpace();
  }
  ReturnMemory();
  pool.PostAfter(kLivedKeptEvery, [this] { KeepLived(); });
}

// Of a burst of calls or jobs to the system, because the allocator would keep it.
void Coordinator::Parts::ReturnMemory() {
  const bool jobs_ended = most_live_jobs > kBurstJobs && live_jobs < most_live_jobs / 2;
  if (jobs_ended) most_live_jobs = live_jobs.load();
  if (daemon->traffic.budget.TakePeak() > kBurstBytes || jobs_ended) malloc_trim(0);
}

void Coordinator::Parts::TellDiskSpace() {
  const uint64_t total = daemon->instance.disk_bytes, free = daemon->instance.disk_free_bytes;
  const uint64_t border = total / 100 * (disk_is_low.value_or(false) ? kRoomyPercent : kLowPercent);
  const bool is_low = free < border;
  if (disk_is_low == is_low) return;
  disk_is_low = is_low;
  DiskSpaceInput input;
  input.space.set_low(is_low);
  input.space.set_free_bytes(free);
  input.space.set_total_bytes(total);
  loop->Say(std::move(input));
}

void Coordinator::Parts::Serve() {
  stores.journal->Start({.durable = [this](uint64_t turn) { loop->OnDurable(turn); },
                         .disk_full =
                             [this](bool full) {
                               stores.gate->SetFull(full);
                               loop->OnDiskFull(full);
                               common::LogWarning(
                                   full ? "the disk is full: new jobs are refused"
                                        : "the disk has room again: jobs are accepted");
                             },
                         .stuck = [this](const absl::Status& why) { loop->OnStuck(why); },
                         .failed = stop});
  LoopCallbacks callbacks;
  callbacks.live_jobs = [this](size_t live) {
    lifetime.SetLiveJobs(live);
    live_jobs = live;
    if (live > most_live_jobs) most_live_jobs = live;
  };
  callbacks.unused_blobs = [this](const std::vector<std::string>& blobs_unused) {
    CollectBlobs(daemon->jobs, daemon->stores, daemon->job_code, daemon->process, blobs_unused);
  };
  callbacks.denied = [this](const Denial& denial) { TellDenied(daemon->traffic, denial); };
  callbacks.decorate = [this](v1::JobSummary& summary) { stores.metrics->Decorate(summary); };
  loop->Start(std::move(callbacks));
  loop->Ask([this](const LoopView& view) -> std::function<void()> {
    for (const auto& [id, job] : view.state.jobs) {
      TellStores(daemon->stores, id, job.spec());
      reads.Post([this, job = id] { stores.metrics->Warm(job); });
    }
    return [live = view.state.jobs.size(), this] { lifetime.SetLiveJobs(live); };
  });
  pool.Post([this] { KeepLived(); });
  if (const absl::Status started = notifier->Start(*loop); !started.ok())
    common::LogWarning(StrCat("notify delivers nothing: ", common::MessageOf(started)));
  CancelAbandonedRuns(daemon->jobs, daemon->instance, daemon->process);
  CollectGarbage(daemon->jobs, daemon->stores, daemon->job_code, daemon->gates, daemon->access,
                 daemon->process, config.retention);
  if (stores.objects != nullptr) {
    const auto has_no_pack = [this](const std::vector<std::string>& keys) {
      return stores.pack_names->Unknown(keys);
    };
    object_garbage = std::make_unique<ObjectGarbage>(
        *stores.objects, *stores.object_names, stores.object_prefix,
        std::vector<ObjectGarbage::Kept>{
            {PackPrefix(stores.pack_prefix, PackKind::kLogs), has_no_pack},
            {PackPrefix(stores.pack_prefix, PackKind::kMetrics), has_no_pack}});
    object_move = std::make_unique<ObjectMove>(stores.object_blobs, Paths(stores.before_objects));
    object_care.Post([this] { CareForObjects(); });
  }
  if (stores.archive != nullptr) {
    archive_keeper =
        std::make_unique<ArchiveKeeper>(*stores.archive, config.head.state_bytes, files,
                                        [this] { return !notifier->NeedsOldEvents(); });
    archive_keeper->Keep();
  }
  daemon->jobs.project_mirror.Mirror(daemon->jobs, daemon->access.directory);
  KeepLogUsage(daemon->jobs, daemon->stores, daemon->process);
  KeepSweepingOutput(daemon->jobs, daemon->stores, daemon->process);
  KeepAssessing(daemon->jobs, daemon->stores, daemon->traffic, daemon->process);
  if (stores.index->NeedsWholeCheck()) {
    files.Post([this] { CheckDatabase(); });
  }
}

void Coordinator::Parts::CheckDatabase() {
  const absl::Status status = stores.index->CheckWhole();
  // Without a free descriptor nothing could be checked so far.
  if (IsShortage(status)) {
    files.PostAfter(kCheckAgainAfter, [this] { CheckDatabase(); });
  } else if (!status.ok()) {
    stop(status);
  }
}

Coordinator::Coordinator(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Coordinator::~Coordinator() { Shutdown(); }

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(
    const Config& config, std::function<void(const absl::Status&)> stop, const Leading* leading) {
  const auto began = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(common::MakePrivateDirectory(config.data_dir));
  const Paths paths(config.data_dir);
  ASSIGN_OR_RETURN(
      std::unique_ptr<Cluster> cluster,
      Cluster::Open(config.data_dir, config.keys_dir, common::SystemClock().Read().wall_ms));
  absl::StatusOr<common::UniqueFd> lock =
      LockDataDirectory(paths.Lock(), config.is_private ? kNoTimeout : kLockTimeout);
  // A single user loses nothing by waiting for room; a cluster's coordinator tries anyway.
  if (config.is_private && (lock.ok() || absl::IsResourceExhausted(lock.status()))) {
    RETURN_IF_ERROR(Headroom(paths.Headroom()).CheckRoom());
  }
  RETURN_IF_ERROR(lock.status());
  if (!config.socket.empty()) RETURN_IF_ERROR(PrepareSocket(config.socket, config.is_private));
  TcpPort port;
  if (leading != nullptr && leading->port != nullptr) {
    port = std::move(*leading->port);
  } else if (!config.listen.empty()) {
    ASSIGN_OR_RETURN(port, ListenOnPort(config.listen));
  }
  const std::shared_ptr<SharedState> state =
      leading == nullptr ? ShareState(config)
                         : ShareState(config, {.log = &leading->log, .head = leading->name});
  ASSIGN_OR_RETURN(std::unique_ptr<NoteStore> notes, OpenNotes(state));
  auto parts = std::make_unique<Parts>(config, std::move(cluster), std::move(stop), leading, state,
                                       std::move(notes));
  RETURN_IF_ERROR(parts->Open(*std::move(lock)));
  parts->daemon->instance.tcp_endpoint = port.endpoint;
  // The worker first: it starts up in parallel, and gRPC has no threads yet.
  if (config.is_private) {
    parts->worker = std::make_unique<PrivateWorker>(config.worker_state_dir, config.socket);
    parts->worker->Start();
  }
  RETURN_IF_ERROR(parts->OpenHttp());
  parts->Serve();
  const size_t connections = parts->shares.connections - HttpConnectionsOf(config, parts->shares);
  ASSIGN_OR_RETURN(parts->server, RpcServer::Start(*parts->daemon, {.socket = config.socket,
                                                                    .port = std::move(port),
                                                                    .connections = connections,
                                                                    .cluster = parts->cluster.get(),
                                                                    .leading = leading}));
  parts->daemon->instance.endpoint = parts->server->Endpoint();
  if (parts->front != nullptr) parts->front->Serve();
  parts->lifetime.Begin();
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - began);
  const std::string& http_address = parts->daemon->instance.http_address;
  LogInfo(StrCat("serving endpoint=", parts->daemon->instance.endpoint,
                 http_address.empty() ? "" : " http=", http_address,
                 " epoch=", parts->daemon->instance.epoch, " data_dir=", config.data_dir,
                 parts->daemon->instance.tcp_endpoint.empty() ? "" : " tcp=",
                 parts->daemon->instance.tcp_endpoint, " started_in_ms=", took.count()));
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(parts)));
}

void Coordinator::Shutdown() {
  if (std::exchange(parts_->is_down, true)) return;
  parts_->daemon->instance.stopping = true;
  parts_->stores.logs->Settle();
  if (parts_->stores.objects_stop != nullptr) *parts_->stores.objects_stop = true;
  // The worker stops first, so that its last reports still arrive.
  StopWorker();
  if (parts_->server != nullptr) parts_->server->Stop();
  if (parts_->front != nullptr) parts_->front->Stop();
  parts_->notifier->Stop();
  parts_->loop->Stop();
  const absl::Status closed = parts_->stores.journal->Stop();
  if (!closed.ok()) common::LogError(std::string(closed.message()));
  parts_->reads.Stop();
  parts_->files.Stop();
  parts_->objects.Stop();
  parts_->object_care.Stop();
  parts_->stores.logs->Stop();
  parts_->stores.metrics->Stop();
  parts_->stores.samples->Stop();
  parts_->pool.Stop();
  parts_->audit->Stop();
  parts_->clock.Keep();
  if (!parts_->config.socket.empty()) unlink(parts_->config.socket.c_str());
  LogInfo("shut down cleanly");
}

absl::Status Coordinator::CannotRecord() const { return parts_->loop->WhyStuck(); }

void Coordinator::StopWorker() {
  if (parts_->worker != nullptr) parts_->worker->Stop();
}

std::string Coordinator::Endpoint() const { return parts_->daemon->instance.endpoint; }

}  // namespace muster::coordinator
