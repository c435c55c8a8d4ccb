// The reporter thread and its connection to the worker. Only the reporter thread uses what is below
// "thread side"; it shares `incoming_` with the training thread, under `mutex_`.
#include "tracking/reporter.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/files.h"
#include "tracking/trainer_lines.h"
#include "tracking/unix_socket.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLineBytesMax = 1 << 20;      // docs/protocol.md
constexpr size_t kOutputBytesMax = 256 << 10;  // no batch is encoded while more than this is unsent
constexpr std::chrono::milliseconds kReconnectFirst{50};
constexpr std::chrono::milliseconds kReconnectMost{1'000};

struct Batch {
  int64_t seq;
  std::vector<MetricPoint> points;
};

struct Progress {
  int64_t step;
  int64_t total;
};

int64_t wall_time_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Without it, the worker answers what is missing; training continues.
std::string token_in(const std::string& path) {
  constexpr uint64_t kTokenBytesMax = 4'096;
  if (path.empty()) return {};
  try {
    return read_file(path, kTokenBytesMax);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

class Reporter::Connection {
 public:
  using DiagnoseHandler = std::function<void(int64_t number, const std::string& reason)>;

  Connection(Reporter& reporter, const ReporterOptions& options);
  ~Connection() { close(); }

  // Training-thread side.
  void add_points(std::span<const ScalarValue> values, int64_t step);
  void set_progress(const Progress& progress);
  void add_checkpoint(int64_t step);
  void add_diagnosis(std::string line);
  void set_diagnose_handler(DiagnoseHandler handler);
  void close();

 private:
  struct Incoming {
    std::vector<MetricPoint> points;
    std::optional<Progress> progress;
    std::optional<int64_t> checkpoint;
    std::string diagnoses;  // lines
    bool closing = false;
  };

  // Thread side.
  void run();
  void take_incoming();
  void append_to_file(const std::vector<MetricPoint>& points);
  void maybe_connect();
  void disconnect();
  void encode();
  void flush_output();
  void read_input();
  void handle_line(std::string_view line);
  void handle_welcome(int64_t metrics_seq);
  void forget_acknowledged(int64_t metrics_seq);
  void wait();
  bool finished() const;

  Reporter& reporter_;
  const ReporterOptions options_;
  std::atomic<size_t> buffered_points_{0};
  FileDescriptor wake_;

  std::mutex mutex_;
  Incoming incoming_;
  std::mutex diagnose_mutex_;  // guards the members below; held while the handler runs
  DiagnoseHandler diagnose_;
  std::optional<WorkerLine> early_diagnose_;  // arrived before there was a handler

  FileDescriptor file_;
  FileDescriptor socket_;
  Clock::time_point next_connect_{};
  std::chrono::milliseconds reconnect_delay_ = kReconnectFirst;
  bool welcomed_ = false;       // on this connection
  bool ever_welcomed_ = false;  // on any connection: numbering has begun
  std::string input_;
  std::string output_;
  int64_t next_seq_ = 1;
  std::deque<MetricPoint> unsent_;
  std::deque<Batch> unacknowledged_;
  std::optional<Progress> progress_;
  bool progress_is_new_ = false;
  std::optional<int64_t> checkpoint_;
  std::string diagnoses_;
  uint64_t dropped_reported_ = 0;
  bool closing_ = false;
  Clock::time_point close_deadline_{};

  std::thread thread_;  // last: starts after all other members exist
};

Reporter::Connection::Connection(Reporter& reporter, const ReporterOptions& options)
    : reporter_(reporter), options_(options), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!options_.metrics_file.empty()) {
    file_.reset(
        ::open(options_.metrics_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!file_.valid()) throw_errno("open the metrics file", options_.metrics_file);
  }
  // Leave signals to the training thread: a handler must not run here.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Reporter::Connection::add_points(std::span<const ScalarValue> values, int64_t step) {
  const size_t count = values.size();
  if (buffered_points_.fetch_add(count, std::memory_order_relaxed) + count >
      options_.buffered_points_max) {
    buffered_points_.fetch_sub(count, std::memory_order_relaxed);
    reporter_.dropped_.fetch_add(count, std::memory_order_relaxed);
    return;
  }
  const int64_t now_ms = wall_time_ms();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const ScalarValue& value : values) {
    incoming_.points.push_back({clean_metric_name(value.name), value.value, step, now_ms});
  }
}

void Reporter::Connection::set_progress(const Progress& progress) {
  const std::lock_guard<std::mutex> lock(mutex_);
  incoming_.progress = progress;
}

void Reporter::Connection::add_checkpoint(int64_t step) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    incoming_.checkpoint = step;
  }
  ::eventfd_write(wake_.get(), 1);
}

void Reporter::Connection::add_diagnosis(std::string line) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    incoming_.diagnoses += line;
  }
  ::eventfd_write(wake_.get(), 1);
}

void Reporter::Connection::set_diagnose_handler(DiagnoseHandler handler) {
  const std::lock_guard<std::mutex> lock(diagnose_mutex_);
  diagnose_ = std::move(handler);
  if (diagnose_ && early_diagnose_) diagnose_(early_diagnose_->number, early_diagnose_->message);
  early_diagnose_.reset();
}

void Reporter::Connection::close() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    incoming_.closing = true;
  }
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

// ---- thread side ----

void Reporter::Connection::run() {
  while (true) {
    take_incoming();
    maybe_connect();
    encode();
    flush_output();
    if (finished()) return;
    wait();
    read_input();
  }
}

void Reporter::Connection::take_incoming() {
  Incoming taken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(taken, incoming_);
  }
  if (taken.progress) {
    progress_ = taken.progress;
    progress_is_new_ = true;
  }
  if (taken.checkpoint) checkpoint_ = taken.checkpoint;
  if (!options_.socket_path.empty()) diagnoses_ += taken.diagnoses;
  if (taken.closing) {
    closing_ = true;
    close_deadline_ = Clock::now() + options_.close_timeout;
  }
  if (taken.points.empty()) return;
  append_to_file(taken.points);
  if (options_.socket_path.empty()) {
    buffered_points_.fetch_sub(taken.points.size(), std::memory_order_relaxed);
    return;
  }
  for (MetricPoint& point : taken.points) unsent_.push_back(std::move(point));
}

// Ranks may share the file: one write in append mode keeps a block of lines together.
void Reporter::Connection::append_to_file(const std::vector<MetricPoint>& points) {
  if (!file_.valid()) return;
  std::string lines;
  for (const MetricPoint& point : points) lines += file_line(point, options_.rank);
  for (size_t written = 0; written < lines.size();) {
    const ssize_t bytes = ::write(file_.get(), lines.data() + written, lines.size() - written);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) {
      // A full disk must not stop training: count the block as dropped and continue.
      reporter_.dropped_.fetch_add(points.size(), std::memory_order_relaxed);
      return;
    }
    written += static_cast<size_t>(bytes);
  }
}

void Reporter::Connection::maybe_connect() {
  if (options_.socket_path.empty() || socket_.valid() || Clock::now() < next_connect_) return;
  socket_ = connect_unix_socket(options_.socket_path);
  if (!socket_.valid()) {
    next_connect_ = Clock::now() + reconnect_delay_;
    reconnect_delay_ = std::min(2 * reconnect_delay_, kReconnectMost);
    return;
  }
  output_ += hello_line(
      {options_.job, options_.attempt, options_.rank, ::getpid(), token_in(options_.token_file)});
}

void Reporter::Connection::disconnect() {
  socket_.reset();
  welcomed_ = false;
  input_.clear();
  output_.clear();
  progress_is_new_ = progress_.has_value();
  dropped_reported_ = 0;
  next_connect_ = Clock::now() + reconnect_delay_;
  reconnect_delay_ = std::min(2 * reconnect_delay_, kReconnectMost);
}

void Reporter::Connection::encode() {
  if (!welcomed_) return;
  while (!unsent_.empty() && output_.size() < kOutputBytesMax) {
    Batch batch{next_seq_++, {}};
    size_t bytes = 0;
    while (!unsent_.empty() && batch.points.size() < options_.batch_points_max &&
           bytes < kBatchBytesMax) {
      bytes += unsent_.front().bytes_bound();
      batch.points.push_back(std::move(unsent_.front()));
      unsent_.pop_front();
    }
    output_ += metrics_line(batch.seq, batch.points);
    unacknowledged_.push_back(std::move(batch));
  }
  if (progress_is_new_) {
    output_ += progress_line(progress_->step, progress_->total);
    progress_is_new_ = false;
  }
  if (checkpoint_) {
    output_ += checkpoint_line(*checkpoint_);
    checkpoint_.reset();
  }
  output_ += std::exchange(diagnoses_, {});
  const uint64_t dropped = reporter_.dropped();
  if (dropped != dropped_reported_) {
    output_ += dropped_line(dropped);
    dropped_reported_ = dropped;
  }
}

void Reporter::Connection::flush_output() {
  while (socket_.valid() && !output_.empty()) {
    const ssize_t bytes = ::send(socket_.get(), output_.data(), output_.size(), MSG_NOSIGNAL);
    if (bytes >= 0) {
      output_.erase(0, static_cast<size_t>(bytes));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      disconnect();
    }
  }
}

void Reporter::Connection::wait() {
  pollfd fds[2] = {{wake_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  if (!output_.empty()) fds[1].events |= POLLOUT;
  int timeout_ms = static_cast<int>(options_.flush_interval.count());
  if (closing_) timeout_ms = std::min(timeout_ms, 10);
  ::poll(fds, socket_.valid() ? 2 : 1, timeout_ms);
  eventfd_t ignored;
  ::eventfd_read(wake_.get(), &ignored);
}

void Reporter::Connection::read_input() {
  char piece[16 << 10];
  while (socket_.valid()) {
    const ssize_t bytes = ::recv(socket_.get(), piece, sizeof(piece), 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (bytes <= 0) return disconnect();
    input_.append(piece, static_cast<size_t>(bytes));
    size_t begin = 0;
    for (size_t end; (end = input_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      handle_line(std::string_view(input_).substr(begin, end - begin));
    }
    input_.erase(0, begin);
    if (input_.size() > kLineBytesMax) return disconnect();
  }
}

void Reporter::Connection::handle_line(std::string_view text) {
  const WorkerLine line = parse_worker_line(text);
  switch (line.kind) {
    case WorkerLine::Kind::welcome:
      return handle_welcome(line.metrics_seq);
    case WorkerLine::Kind::ack:
      return forget_acknowledged(line.metrics_seq);
    case WorkerLine::Kind::stop:
      return reporter_.stop_requested_.store(true);
    case WorkerLine::Kind::checkpoint_request:
      return reporter_.checkpoint_requested_.store(true);
    case WorkerLine::Kind::committed:
      if (line.step > reporter_.committed_step()) reporter_.committed_step_.store(line.step);
      return;
    case WorkerLine::Kind::diagnose: {
      const std::lock_guard<std::mutex> lock(diagnose_mutex_);
      if (!diagnose_) {
        early_diagnose_ = line;
      } else {
        diagnose_(line.number, line.message);
      }
      return;
    }
    case WorkerLine::Kind::error:
      std::fprintf(stderr, "muster: rank %d: the worker rejected a message: %s\n", options_.rank,
                   line.message.c_str());
      return;
    case WorkerLine::Kind::unknown:
      return;
  }
}

void Reporter::Connection::handle_welcome(int64_t metrics_seq) {
  // An earlier process of this (attempt, rank) may have sent batches: continue their numbering.
  if (!ever_welcomed_) next_seq_ = std::max<int64_t>(metrics_seq, 0) + 1;
  welcomed_ = ever_welcomed_ = true;
  reconnect_delay_ = kReconnectFirst;
  forget_acknowledged(metrics_seq);
  // Resend unacknowledged batches, in order and with the same numbers.
  for (const Batch& batch : unacknowledged_) output_ += metrics_line(batch.seq, batch.points);
}

void Reporter::Connection::forget_acknowledged(int64_t metrics_seq) {
  while (!unacknowledged_.empty() && unacknowledged_.front().seq <= metrics_seq) {
    buffered_points_.fetch_sub(unacknowledged_.front().points.size(), std::memory_order_relaxed);
    unacknowledged_.pop_front();
  }
}

bool Reporter::Connection::finished() const {
  if (!closing_) return false;
  const bool all_sent = output_.empty() && unsent_.empty() && unacknowledged_.empty() &&
                        !checkpoint_ && !progress_is_new_;
  return options_.socket_path.empty() || all_sent || Clock::now() >= close_deadline_;
}

// ---- public side ----

Reporter::Reporter(const ReporterOptions& options) {
  if (options.socket_path.empty() && options.metrics_file.empty()) return;
  connection_ = std::make_unique<Connection>(*this, options);
}

Reporter::~Reporter() { close(); }

void Reporter::log(std::span<const ScalarValue> values, int64_t step) {
  if (connection_) connection_->add_points(values, step);
}

void Reporter::progress(int64_t step, int64_t total) {
  if (connection_) connection_->set_progress({step, total});
}

void Reporter::checkpoint_saved(int64_t step) {
  if (connection_) connection_->add_checkpoint(step);
}

void Reporter::on_diagnose(Connection::DiagnoseHandler handler) {
  if (connection_) connection_->set_diagnose_handler(std::move(handler));
}

void Reporter::diagnosis(int64_t number, const std::string& record) {
  if (connection_) connection_->add_diagnosis(diagnosis_line(number, record));
}

void Reporter::close() {
  if (connection_) connection_->close();
}

}  // namespace muster
