#include "tests/coordinator/workers_daemon.h"

#include <utility>

#include "common/base/status.h"
#include "coordinator/audit/audit.h"
#include "coordinator/calls/transfers.h"
#include "coordinator/config/open_stores.h"
#include "coordinator/curves/curve_cache.h"
#include "coordinator/exec/exec.h"
#include "coordinator/identity/admission.h"
#include "coordinator/identity/directory.h"
#include "coordinator/local/audit_store.h"
#include "coordinator/loop/control_loop.h"
#include "coordinator/notify/notifier.h"
#include "coordinator/periodic/assessor.h"
#include "coordinator/periodic/lifetime.h"
#include "coordinator/periodic/log_usage.h"
#include "coordinator/services/bulk_streams.h"
#include "coordinator/services/control_stream.h"
#include "coordinator/services/streams.h"
#include "coordinator/store_parts/lived_clock.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::coordinator {
namespace {

using grpc::CallbackServerContext;

Caller CallerIn(const CallbackServerContext& context) {
  const auto as = context.client_metadata().find("as");
  if (as == context.client_metadata().end()) return {.principal = "peer:test"};
  return {.principal = std::string(as->second.data(), as->second.size()),
          .role = v1::ROLE_WORKER,
          .from = "test",
          .serial = "01"};
}

// As services/worker_service.cc, except for who is calling.
class ServiceUnderTest final : public v1::WorkerService::CallbackService {
 public:
  explicit ServiceUnderTest(Daemon& daemon) : daemon_(daemon) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Connect(
      CallbackServerContext* context) override {
    return BeginControlStream(daemon_, CallerIn(*context), nullptr);
  }
  grpc::ServerBidiReactor<v1::LogChunk, v1::LogAck>* UploadLogs(
      CallbackServerContext* context) override {
    return BeginLogUpload(daemon_, CallerIn(*context), nullptr);
  }
  grpc::ServerBidiReactor<v1::MetricBatch, v1::MetricAck>* UploadMetrics(
      CallbackServerContext* context) override {
    return BeginMetricUpload(daemon_, CallerIn(*context), nullptr);
  }
  grpc::ServerBidiReactor<v1::SampleBatch, v1::SampleReceipt>* UploadSamples(
      CallbackServerContext* context) override {
    return BeginSampleUpload(daemon_, CallerIn(*context), nullptr);
  }
  grpc::ServerUnaryReactor* BeginUpload(CallbackServerContext* context,
                                        const v1::BeginUploadRequest* request,
                                        v1::BeginUploadResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    coordinator::BeginUpload(daemon_.jobs, daemon_.stores, daemon_.gates, daemon_.traffic,
                             daemon_.process, CallerIn(*context), *request,
                             [reactor, response](absl::StatusOr<v1::BeginUploadResponse> answer) {
                               if (answer.ok()) *response = *std::move(answer);
                               reactor->Finish(ToGrpc(answer.status()));
                             });
    return reactor;
  }
  grpc::ServerReadReactor<v1::BlobChunk>* UploadBlob(CallbackServerContext* context,
                                                     v1::UploadBlobResponse* response) override {
    return BeginBlobUpload(daemon_, CallerIn(*context), nullptr, response);
  }
  grpc::ServerWriteReactor<v1::BlobChunk>* DownloadBlob(
      CallbackServerContext* context, const v1::DownloadBlobRequest* request) override {
    auto stream = ServerStream<v1::BlobChunk>::Make();
    coordinator::DownloadBlob(daemon_.jobs, daemon_.stores, daemon_.job_code, daemon_.gates,
                              daemon_.traffic, daemon_.process, CallerIn(*context), *request,
                              stream);
    return stream.get();
  }
  grpc::ServerWriteReactor<v1::CheckpointFiles>* ListResumeFiles(
      CallbackServerContext* context, const v1::ListResumeFilesRequest* request) override {
    auto stream = ServerStream<v1::CheckpointFiles>::Make();
    coordinator::ListResumeFiles(daemon_.jobs, daemon_.gates, daemon_.traffic, daemon_.process,
                                 CallerIn(*context), *request, stream);
    return stream.get();
  }

 private:
  Daemon& daemon_;
};

// Jobs restart at once.
Config ConfigIn(const std::string& directory) {
  Config config;
  config.data_dir = directory + "/data";
  config.settings.backoff_first_ms = config.settings.backoff_max_ms = 1;
  config.settings.same_quick_failures_max = 1'000;
  return config;
}

}  // namespace

struct WorkersDaemon::Parts {
  Parts(const std::string& directory, const std::string& audit_directory)
      : config(ConfigIn(directory)),
        paths(config.data_dir),
        notes(*OpenNotes(state)),
        clock(*notes),
        audit(
            audit_directory.empty() ? nullptr : std::make_unique<LocalAuditStore>(audit_directory),
            clock) {}

  void Open();
  void Serve(const std::string& address);

  const Config config;
  const Paths paths;
  const std::shared_ptr<SharedState> state = ShareState(config);
  const std::unique_ptr<NoteStore> notes;
  LivedClock clock;
  WorkPool pool{WorkersDaemon::kThreads};
  WorkPool reads{WorkersDaemon::kThreads};
  WorkPool files{WorkersDaemon::kThreads};
  WorkPool objects{WorkersDaemon::kThreads};
  WorkPool hashes{1};
  Stores stores;
  std::unique_ptr<ControlLoop> loop;
  Lifetime lifetime{false, pool, [] {}, [] { return size_t{0}; }};
  std::unique_ptr<Assessor> assessor;
  std::unique_ptr<CurveCache> curves;
  const Admission admission{{}};
  std::unique_ptr<Directory> directory;
  Audit audit;
  ExecBroker execs{[](std::chrono::milliseconds, const std::function<void()>&) {}};
  LogUsage log_usage;
  std::unique_ptr<Notifier> notifier;
  std::unique_ptr<Daemon> daemon;
  std::unique_ptr<ServiceUnderTest> service;
  std::unique_ptr<grpc::Server> server;
};

void WorkersDaemon::Parts::Open() {
  common::MakeDirectories(config.data_dir).IgnoreError();
  stores = *OpenStores(config, ShareDescriptors(), clock, state);
  loop = std::make_unique<ControlLoop>(*stores.journal, clock, config.settings);
  CHECK(loop->Recover(stores.index.get()).ok());
  CHECK(audit.Open().ok());
  directory = std::make_unique<Directory>(*stores.identities, clock);
  CHECK(directory->Load().ok());
  curves = std::make_unique<CurveCache>(*stores.metrics);
  assessor = std::make_unique<Assessor>(*stores.metrics, *stores.samples, config.findings_floor_ms);
  const auto denied = [this](const Denial& denial) { TellDenied(daemon->traffic, denial); };
  notifier =
      std::make_unique<Notifier>(Notifier::Options{.denied = denied}, *notes, *stores.index, clock);
  daemon.reset(
      new Daemon{.jobs = {.loop = *loop,
                          .index = *stores.index,
                          .assessor = *assessor,
                          .notifier = *notifier,
                          .execs = execs},
                 .stores = {.logs = *stores.logs,
                            .metrics = *stores.metrics,
                            .samples = *stores.samples,
                            .blobs = *stores.blobs,
                            .direct = nullptr,
                            .curves = *curves,
                            .log_usage = log_usage,
                            .stream_failures = *stores.stream_failures},
                 .job_code = {.store = *stores.code},
                 .access = {.admission = admission, .directory = *directory, .audit = audit},
                 .instance = {.lifetime = lifetime, .epoch = stores.journal->Epoch()},
                 .process = {.paths = paths,
                             .clock = clock,
                             .pool = pool,
                             .reads = reads,
                             .files = files,
                             .objects = objects,
                             .hashes = hashes}});
  stores.journal->Start({.durable = [this](uint64_t turn) { loop->OnDurable(turn); },
                         .disk_full = [](bool) {},
                         .stuck = [](const absl::Status&) {},
                         .failed = [](const absl::Status& why) { CHECK(why.ok()); }});
  loop->Start({.live_jobs = [](size_t) {},
               .unused_blobs = [](const std::vector<std::string>&) {},
               .denied = denied});
  CHECK(notifier->Start(*loop).ok());
}

void WorkersDaemon::Parts::Serve(const std::string& address) {
  service = std::make_unique<ServiceUnderTest>(*daemon);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(service.get());
  server = builder.BuildAndStart();
  CHECK(server != nullptr);
}

WorkersDaemon::WorkersDaemon(const std::string& directory, const std::string& audit)
    : parts_(std::make_unique<Parts>(directory, audit)) {
  const std::string address = "unix:" + directory + "/w.sock";
  parts_->Open();
  parts_->Serve(address);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

WorkersDaemon::~WorkersDaemon() {
  parts_->server->Shutdown(std::chrono::system_clock::now());
  parts_->notifier->Stop();
  parts_->loop->Stop();
  parts_->stores.journal->Stop().IgnoreError();
  parts_->reads.Stop();
  parts_->files.Stop();
  parts_->stores.logs->Stop();
  parts_->stores.metrics->Stop();
  parts_->stores.samples->Stop();
  parts_->pool.Stop();
}

Daemon& WorkersDaemon::daemon() { return *parts_->daemon; }

}  // namespace muster::coordinator
