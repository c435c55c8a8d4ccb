// The recorder's thread: sleeps until a request arrives or a hang check is due.
#include "muster/diagnosis/flight_recorder.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/files.h"
#include "diagnosis/flight_record.h"

namespace muster {
namespace {

using Clock = CollectiveLog::Clock;

std::atomic<bool> recorder_exists{false};

std::string directory_of(const FlightRecorderOptions& options) {
  if (!options.directory.empty()) return options.directory;
  const char* named = std::getenv("MUSTER_DIAGNOSTICS_DIR");
  return named != nullptr && *named != '\0' ? named : "diagnostics";
}

}  // namespace

struct FlightRecorder::Watch {
  struct Request {
    std::string reason;
    bool is_failure = false;
    std::function<void(const std::string&)> done;
  };

  explicit Watch(const FlightRecorderOptions& given)
      : options(given),
        directory(directory_of(given)),
        wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        signalled(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake.valid() || !signalled.valid()) {
      throw_errno("create", "an eventfd for the flight recorder");
    }
    if (recorder_exists.exchange(true)) {
      throw std::logic_error("FlightRecorder: this process already has one");
    }
    has_stacks = install_stack_signal(signalled.get());
    // Leave signals to the program's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Watch() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      closing = true;
    }
    ::eventfd_write(wake.get(), 1);
    thread.join();
    if (has_stacks) install_stack_signal(-1);
    recorder_exists.store(false);
  }

  void add(Request request) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      requests.push_back(std::move(request));
    }
    ::eventfd_write(wake.get(), 1);
  }

  void write_and_wait(const std::string& reason, bool is_failure) noexcept {
    try {
      auto written = std::make_shared<std::binary_semaphore>(0);
      add({reason, is_failure, [written](const std::string&) { written->release(); }});
      written->acquire();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "muster: no flight record: %s\n", error.what());
    }
  }

  void run() {
    while (true) {
      look_for_hang();
      const bool asked_by_signal = wait();
      std::vector<Request> taken;
      bool last = false;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        std::swap(taken, requests);
        last = closing;
      }
      if (!taken.empty()) {
        answer(taken);
      } else if (asked_by_signal) {
        record("a signal", {});
      }
      if (last) return;
    }
  }

  // Waits for a request, the next check or a signal: then returns true.
  bool wait() {
    int timeout_ms = -1;
    if (next_look) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(*next_look - Clock::now()).count();
      timeout_ms = left < 0 ? 0 : left >= INT_MAX ? INT_MAX : static_cast<int>(left) + 1;
    }
    pollfd fds[2] = {{wake.get(), POLLIN, 0}, {signalled.get(), POLLIN, 0}};
    ::poll(fds, 2, timeout_ms);
    eventfd_t raised = 0;
    ::eventfd_read(wake.get(), &raised);
    return ::eventfd_read(signalled.get(), &raised) == 0;
  }

  void look_for_hang() {
    if (options.hang_after.count() <= 0) return;
    const HangCheck check =
        check_for_hang(CollectiveLog::of_process().snapshot(), options.hang_after);
    // Without a group, or if the hang is already recorded, nothing else can be due earlier.
    next_look = check.look_again.value_or(Clock::now() + options.hang_after);
    if (!check.sign || check.sign->since == recorded_hang) return;
    recorded_hang = check.sign->since;
    record(check.sign->reason, {});
  }

  void answer(const std::vector<Request>& asked) {
    const bool known =
        std::all_of(asked.begin(), asked.end(), [](const Request& r) { return r.is_failure; }) &&
        hang_is_recorded();
    if (!known) return record(asked.front().reason, asked);
    for (const Request& request : asked) request.done("");
  }

  // Whether the newest record shows the hang of a collective that has failed since.
  bool hang_is_recorded() const {
    if (!recorded_hang) return false;
    const auto entries = CollectiveLog::of_process().snapshot().entries;
    return std::any_of(entries.begin(), entries.end(), [&](const CollectiveLog::Entry& entry) {
      return entry.state == CollectiveLog::State::failed && entry.begin == *recorded_hang;
    });
  }

  void record(const std::string& reason, const std::vector<Request>& asked) {
    FlightRecord record;
    record.rank = options.rank;
    record.world_size = options.world_size;
    record.pid = ::getpid();
    record.time_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    char host[HOST_NAME_MAX + 1] = {};
    ::gethostname(host, sizeof(host) - 1);
    record.host = host;
    record.reason = reason;
    record.collectives = CollectiveLog::of_process().snapshot();
    if (has_stacks) record.threads = capture_stacks();
    for (const auto& [name, trace] : record.collectives.library_traces) {
      record.library_traces[name] = trace();
    }
    try {
      char name[32];
      std::snprintf(name, sizeof(name), "rank-%05d", options.rank);
      make_directories(directory);
      const std::string path = directory + "/flight-" + name + ".json";
      write_file_atomically(directory + "/stacks-" + name + ".txt", stacks_text(record));
      write_file_atomically(path, full_json(record));
      std::fprintf(stderr, "muster: %s (%s; %s)\n", sentence(record).c_str(), reason.c_str(),
                   path.c_str());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "muster: %s (%s; no file: %s)\n", sentence(record).c_str(),
                   reason.c_str(), error.what());
    }
    if (asked.empty()) return;
    const std::string compact = compact_json(record);
    for (const Request& request : asked) {
      if (request.done) request.done(compact);
    }
  }

  const FlightRecorderOptions options;
  const std::string directory;
  FileDescriptor wake, signalled;
  bool has_stacks = false;
  std::optional<Clock::time_point> next_look;
  std::optional<Clock::time_point> recorded_hang;

  std::mutex mutex;  // guards the members below, except the thread
  std::vector<Request> requests;
  bool closing = false;

  std::thread thread;  // last
};

FlightRecorder::FlightRecorder(const FlightRecorderOptions& options)
    : watch_(std::make_unique<Watch>(options)) {}

FlightRecorder::~FlightRecorder() = default;

void FlightRecorder::request(const std::string& reason,
                             std::function<void(const std::string& record)> done) {
  watch_->add({reason, false, std::move(done)});
}

void FlightRecorder::write(const std::string& reason) noexcept {
  watch_->write_and_wait(reason, /*is_failure=*/false);
}

void FlightRecorder::write_failure(const std::string& error) noexcept {
  watch_->write_and_wait(error, /*is_failure=*/true);
}

const std::string& FlightRecorder::directory() const { return watch_->directory; }

bool FlightRecorder::exists() { return recorder_exists.load(); }

}  // namespace muster
