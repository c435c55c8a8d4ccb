// Simulated workers for `./dev bench scale`: ENDPOINT COUNT. The links are those of muster-worker, each with a connection
// of its own; what they say of attempts is made up: ports are held and ranks start at once, a rank of "true" succeeds, any
// other one runs until it is stopped.
// Reads commands from standard input and answers each with a line of JSON:
//   registered       when all are
//   lost             when none is
//   gang             a job with a rank on each of them, and one-rank jobs meanwhile, one after the other
//   cancel           of that gang, until it is over
//   submits COUNT    one-rank jobs, one after the other
//   nodes COUNT      lists of all nodes
//   write COUNT      that many ranks of the gang send output, metrics and samples; one-rank jobs meanwhile
#include <grpcpp/create_channel.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/freed_memory.h"
#include "common/base/lock_checks.h"
#include "common/base/version.h"
#include "common/text/strings.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "scale_writers.h"
#include "worker/base/mailbox.h"
#include "worker/links/coordinator_link.h"

namespace {

using namespace muster;
using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

// Of all workers. Written by the loop's thread.
struct Counts {
  std::atomic<int> ready{0};     // registered, their hosts clear
  std::atomic<int> launched{0};  // parts of gangs
};

class SimulatedWorker {
 public:
  SimulatedWorker(int number, const std::string& endpoint, worker::Mailbox* loop, Counts* counts)
      : counts_(counts),
        name_(common::StrCat("node", number)),
        link_(
            {// Named twice: a worker that knows several coordinators has a connection for each of its streams.
             .heads = [endpoint] { return std::vector<std::string>(2, endpoint); },
             .route =
                 [](const std::string& address) {
                   return worker::Route{.endpoint = address, .credentials = nullptr};
                 }},
            loop,
            {.up = [this] { Register(); },
             .message = [this](const v1::CoordinatorMessage& message) { Obey(message); },
             .down = [this] { LoseStream(); },
             .note = [](const std::string&) {}},
            static_cast<uint64_t>(number)),
        number_(number) {}

  // Its part of the gang. Not before that was launched.
  const bench::Writing& gang() const { return gang_; }

  void Poll(int64_t now_ms) {
    link_.MaybeDial(now_ms);
    if (heartbeat_ms_ == 0 || now_ms < next_heartbeat_ms_) return;
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_number(++heartbeats_);
    link_.Send(std::move(message));
    next_heartbeat_ms_ = now_ms + heartbeat_ms_;
  }

 private:
  void Register() {
    v1::WorkerMessage message;
    v1::NodeFacts& facts = *message.mutable_register_()->mutable_facts();
    facts.set_name(name_);
    facts.set_incarnation(1);
    facts.set_boot_id("boot");
    facts.set_machine_id(name_);
    facts.set_process(static_cast<uint64_t>(number_) + 1);
    facts.set_version(common::kVersion);
    facts.set_protocol(common::kProtocol);
    facts.set_advertise(common::StrCat("10.0.", number_ / 250, ".", number_ % 250 + 1));
    for (uint32_t index = 0; index < 2; ++index) {
      v1::Device& device = *facts.add_devices();
      device.set_kind("cpu");
      device.set_index(index);
    }
    for (const v1::AttemptStatus& status : held_)
      *message.mutable_register_()->add_attempts() = status;
    link_.Send(std::move(message));
  }

  void LoseStream() {
    if (is_ready_) --counts_->ready;
    is_ready_ = false;
    heartbeat_ms_ = 0;
  }

  void BeReady() {
    if (!is_ready_) ++counts_->ready;
    is_ready_ = true;
  }

  void Obey(const v1::CoordinatorMessage& message) {
    if (message.has_registered()) {
      link_.Confirm();
      heartbeat_ms_ = message.registered().heartbeat_ms();
      // Not all in step.
      next_heartbeat_ms_ = common::MonotonicMs() + number_ * 7919LL % heartbeat_ms_;
      if (!message.registered().clear()) return BeReady();
      v1::WorkerMessage cleared;
      cleared.mutable_cleared();
      for (const v1::AttemptStatus& status : held_) {
        v1::Cleared::Held& held = *cleared.mutable_cleared()->add_held();
        held.set_job(status.job());
        held.set_attempt(status.attempt());
      }
      link_.Send(std::move(cleared));
      BeReady();
    } else if (message.has_prepare()) {
      v1::AttemptStatus& status = Held(message.prepare().job(), message.prepare().attempt());
      status.set_phase(v1::ATTEMPT_PHASE_HOLDING);
      status.set_ready(true);
      if (message.prepare().count() > 0) status.set_master_port(20'000);
      Report(status);
    } else if (message.has_launch()) {
      Launch(message.launch());
    } else if (message.has_stop()) {
      v1::AttemptStatus& status = Held(message.stop().job(), message.stop().attempt());
      End(status, 15);
    } else if (message.has_forget()) {
      std::erase_if(held_, [&](const v1::AttemptStatus& status) {
        return status.job() == message.forget().job();
      });
    }
  }

  void Launch(const v1::LaunchAttempt& order) {
    v1::AttemptStatus& status = Held(order.job(), order.attempt());
    status.set_phase(v1::ATTEMPT_PHASE_RUNNING);
    status.set_ranks_started(order.part().local_world_size());
    first_rank_ = order.part().first_rank();
    Report(status);
    if (order.spec().command(0) == "true") return End(status, 0);
    gang_ = {order.job(), order.attempt(), first_rank_, name_};
    ++counts_->launched;
  }

  void End(v1::AttemptStatus& status, int signal) {
    status.set_phase(v1::ATTEMPT_PHASE_ENDED);
    status.set_logs_drained(true);
    status.set_how_ended("simulated");
    v1::RankExit& exit = *status.add_exits();
    exit.set_rank(first_rank_);
    exit.set_signal(signal);
    exit.set_stopped_by_us(signal > 0);
    Report(status);
  }

  v1::AttemptStatus& Held(uint64_t job, uint32_t attempt) {
    for (v1::AttemptStatus& status : held_) {
      if (status.job() == job && status.attempt() == attempt) return status;
    }
    v1::AttemptStatus& status = held_.emplace_back();
    status.set_job(job);
    status.set_attempt(attempt);
    return status;
  }

  void Report(const v1::AttemptStatus& status) {
    v1::WorkerMessage message;
    *message.mutable_attempt_status() = status;
    link_.Send(std::move(message));
  }

  Counts* const counts_;
  const std::string name_;
  worker::CoordinatorLink link_;
  const int number_;
  std::vector<v1::AttemptStatus> held_;
  bench::Writing gang_;
  bool is_ready_ = false;
  uint32_t first_rank_ = 0;
  int64_t heartbeat_ms_ = 0;  // 0: not registered
  int64_t next_heartbeat_ms_ = 0;
  uint64_t heartbeats_ = 0;
};

using Workers = std::vector<std::unique_ptr<SimulatedWorker>>;

// All of them, on the calling thread.
[[noreturn]] void RunWorkers(const Workers& workers, worker::Mailbox& mailbox) {
  int64_t next_look_ms = 0;
  for (;;) {
    const int64_t now_ms = common::MonotonicMs();
    // Few looks: each passes over all workers.
    if (now_ms >= next_look_ms) {
      for (const auto& each : workers) each->Poll(now_ms);
      next_look_ms = now_ms + 20;
    }
    pollfd ready{mailbox.fd(), POLLIN, 0};
    poll(&ready, 1, static_cast<int>(std::clamp<int64_t>(next_look_ms - now_ms, 0, 20)));
    mailbox.RunWaiting();
  }
}

class Driver {
 public:
  Driver(const std::string& endpoint, const Workers& all, Counts* counts)
      : endpoint_(endpoint), all_(all), workers_(static_cast<int>(all.size())), counts_(counts) {
    grpc::ChannelArguments arguments;
    arguments.SetString("grpc.default_authority", "localhost");
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::JobService::NewStub(channel_);
  }

  void Obey(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    int count = 100;
    words >> command >> count;
    if (command == "registered") return Registered(workers_);
    if (command == "lost") return Registered(0);
    if (command == "gang") return Gang();
    if (command == "cancel") return Cancel();
    if (command == "submits") return Submits(count);
    if (command == "nodes") return Nodes(count);
    if (command == "write") return Write(count);
    Fail(common::StrCat("unknown command ", command));
  }

 private:
  [[noreturn]] static void Fail(const std::string& what) {
    std::fprintf(stderr, "bench_scale: %s\n", what.c_str());
    std::_Exit(1);
  }
  static void Check(const grpc::Status& status) {
    if (!status.ok()) Fail(status.error_message());
  }
  static void WaitUntil(const std::function<bool()>& done) {
    const Clock::time_point since = Clock::now();
    while (!done()) {
      if (MsSince(since) > 60'000) Fail("not within a minute");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void Registered(int count) {
    WaitUntil([&] { return counts_->ready == count; });
    std::printf("{}\n");
  }

  std::string Submit(const std::string& program, uint32_t nodes) {
    v1::SubmitRequest request;
    v1::JobSpec& spec = *request.mutable_spec();
    spec.set_name(program == "true" ? "one" : "gang");
    spec.add_command(program);
    spec.set_workdir("/");
    v1::Shape& shape = *spec.mutable_shape();
    shape.set_processes(nodes);
    if (nodes > 1) {
      shape.set_per_node(1);
      shape.set_min_nodes(nodes);
      shape.set_max_nodes(nodes);
      shape.set_processes(0);
    }
    grpc::ClientContext context;
    v1::SubmitResponse response;
    Check(stub_->Submit(&context, request, &response));
    return response.name();
  }

  v1::JobState StateOf(const std::string& name) {
    v1::ListJobsRequest request;
    request.set_name_has(name);
    request.set_limit(1);
    grpc::ClientContext context;
    v1::ListJobsResponse response;
    Check(stub_->ListJobs(&context, request, &response));
    return response.jobs_size() == 1 ? response.jobs(0).state() : v1::JOB_STATE_UNSPECIFIED;
  }

  std::vector<double> SubmitUntil(const std::function<bool(size_t)>& done) {
    std::vector<double> took_ms;
    while (!done(took_ms.size())) {
      const Clock::time_point since = Clock::now();
      Submit("true", 1);
      took_ms.push_back(MsSince(since));
    }
    std::sort(took_ms.begin(), took_ms.end());
    return took_ms;
  }
  static std::string Percentiles(const std::vector<double>& sorted_ms) {
    if (sorted_ms.empty()) return "\"count\": 0";
    char text[128];
    std::snprintf(text, sizeof text, "\"count\": %zu, \"p50_ms\": %.2f, \"p99_ms\": %.2f",
                  sorted_ms.size(), sorted_ms[sorted_ms.size() / 2],
                  sorted_ms[sorted_ms.size() * 99 / 100]);
    return text;
  }

  void Gang() {
    const int launched = counts_->launched;
    std::atomic<bool> is_running = false;
    std::vector<double> others_ms;
    const Clock::time_point since = Clock::now();
    gang_ = Submit("hold", static_cast<uint32_t>(workers_));
    std::thread others([&] { others_ms = SubmitUntil([&](size_t) { return is_running.load(); }); });
    WaitUntil([&] { return counts_->launched >= launched + workers_; });
    const double released_ms = MsSince(since);
    WaitUntil([&] { return StateOf(gang_) == v1::JOB_STATE_RUNNING; });
    const double running_ms = MsSince(since);
    is_running = true;
    others.join();
    std::printf("{\"released_ms\": %.1f, \"running_ms\": %.1f, %s}\n", released_ms, running_ms,
                Percentiles(others_ms).c_str());
  }

  void Cancel() {
    const Clock::time_point since = Clock::now();
    v1::CancelJobsRequest request;
    request.add_jobs(gang_);
    grpc::ClientContext context;
    v1::BulkResponse response;
    Check(stub_->CancelJobs(&context, request, &response));
    WaitUntil([&] { return StateOf(gang_) == v1::JOB_STATE_CANCELLED; });
    std::printf("{\"ms\": %.1f}\n", MsSince(since));
  }

  void Submits(int count) {
    const std::vector<double> took_ms =
        SubmitUntil([&](size_t done) { return done == static_cast<size_t>(count); });
    std::printf("{%s}\n", Percentiles(took_ms).c_str());
  }

  void Nodes(int count) {
    std::vector<double> took_ms;
    for (int i = 0; i < count; ++i) {
      const Clock::time_point since = Clock::now();
      grpc::ClientContext context;
      v1::ListNodesResponse response;
      Check(stub_->ListNodes(&context, {}, &response));
      if (response.nodes_size() != workers_) Fail("not all nodes are listed");
      took_ms.push_back(MsSince(since));
    }
    std::sort(took_ms.begin(), took_ms.end());
    std::printf("{%s}\n", Percentiles(took_ms).c_str());
  }

  void Write(int count) {
    std::vector<bench::Writing> who;
    for (int number = 0; number < std::min(count, workers_); ++number)
      who.push_back(all_[static_cast<size_t>(number)]->gang());
    bench::Writers writers(endpoint_, who);
    std::atomic<bool> is_over = false;
    std::vector<double> others_ms;
    std::thread others([&] { others_ms = SubmitUntil([&](size_t) { return is_over.load(); }); });
    const Clock::time_point since = Clock::now();
    if (!writers.Run()) Fail("not everything that was written was acknowledged");
    const double ms = MsSince(since);
    is_over = true;
    others.join();
    const double bytes =
        static_cast<double>(who.size()) * bench::kPiecesEach * bench::kOutputPieceBytes;
    std::printf(
        "{\"pieces\": %zu, \"ms\": %.1f, \"output_mb_per_s\": %.1f, \"batches_per_s\": %.0f, "
        "%s}\n",
        3 * who.size() * bench::kPiecesEach, ms, bytes / 1e3 / ms,
        1e3 * static_cast<double>(who.size()) * bench::kPiecesEach / ms,
        Percentiles(others_ms).c_str());
  }

  const std::string endpoint_;
  const Workers& all_;
  const int workers_;
  Counts* const counts_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::string gang_;
};

}  // namespace

int main(int argc, char** argv) {
  common::KeepFreedMemory();
  common::LeaveOutLockChecks();
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_scale ENDPOINT COUNT\n");
    return 2;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const int count = std::atoi(argv[2]);
  Counts counts;
  worker::Mailbox mailbox;
  Workers all;
  all.reserve(static_cast<size_t>(count));
  for (int number = 0; number < count; ++number)
    all.push_back(std::make_unique<SimulatedWorker>(number, argv[1], &mailbox, &counts));
  Driver driver(argv[1], all, &counts);
  std::thread workers([&] { RunWorkers(all, mailbox); });
  for (std::string line; std::getline(std::cin, line);) {
    driver.Obey(line);
    std::fflush(stdout);
  }
  std::_Exit(0);  // thousands of streams need not be closed one by one
}
