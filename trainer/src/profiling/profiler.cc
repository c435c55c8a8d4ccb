// Starts and stops LibTorch's profiler according to the schedule.
#include "muster/profiling/profiler.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <set>
#include <stdexcept>

#include "base/files.h"
#include "profiling/summary.h"

// Declared in torch/csrc/profiler/kineto_shim.h, which needs Kineto's own headers.
namespace torch::autograd::profiler {
TORCH_API void addMetadataJson(const std::string& key, const std::string& value);
}

namespace muster {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

ProfilerConfig config_of(const ProfileOptions& options) {
  torch::profiler::impl::ExperimentalConfig experimental;
  // Include Gloo's threads, loader workers and the checkpoint writer.
  experimental.profile_all_threads = true;
  return ProfilerConfig(ProfilerState::KINETO, options.record_shapes, options.profile_memory,
                        /*with_stack=*/false, /*with_flops=*/false, /*with_modules=*/false,
                        experimental);
}

std::set<ActivityType> activities() {
  std::set<ActivityType> types = {ActivityType::CPU};
  if (torch::cuda::is_available()) types.insert(ActivityType::CUDA);
  return types;
}

void check(const ProfileOptions& options) {
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"wait", options.wait},
                                    {"warmup", options.warmup},
                                    {"active", options.active},
                                    {"repeat", options.repeat},
                                    {"skip_first", options.skip_first}}) {
    if (value < 0) {
      throw std::invalid_argument("ProfileOptions::" + std::string(name) + " is " +
                                  std::to_string(value) + ", but must be 0 or more");
    }
  }
  if (options.active == 0 && options.wait + options.warmup + options.repeat > 0) {
    throw std::invalid_argument(
        "ProfileOptions::active is 0, so there are no cycles: leave wait, warmup and repeat at 0 "
        "too, or set how many steps to record");
  }
}

std::optional<ProfiledEvent> profiled(const kineto::KinetoEvent& event) {
  ProfiledEvent out;
  out.name = event.name();
  out.begin = static_cast<int64_t>(event.startNs());
  out.end = static_cast<int64_t>(event.endNs());
  if (event.deviceType() == c10::DeviceType::CPU) {
    out.thread = event.startThreadId();
    out.same_thread = event.startThreadId() == event.endThreadId();
    const auto scope = static_cast<at::RecordScope>(event.scope());
    out.kind = scope == at::RecordScope::FUNCTION || scope == at::RecordScope::BACKWARD_FUNCTION
                   ? ProfiledEvent::Kind::operation
                   : ProfiledEvent::Kind::annotation;
  } else {
    out.thread = static_cast<uint64_t>(event.deviceResourceId());
    out.kind = ProfiledEvent::Kind::kernel;
    // Kineto repeats annotations on the device's lanes.
    if (out.name.rfind("ProfilerStep#", 0) == 0) return std::nullopt;
  }
  return out;
}

}  // namespace

struct Profiler::Recording {
  enum class State { off, warm, on };

  Recording(const ProfileOptions& given, int rank, int world_size)
      : options(given), config(config_of(given)), types(activities()) {
    summary.rank = rank;
    summary.world_size = world_size;
  }

  void enter(ProfileAction next) {
    const bool records = next == ProfileAction::record || next == ProfileAction::record_and_save;
    if (state == State::on && (action == ProfileAction::record_and_save || !records)) finish();
    action = next;
    if (next == ProfileAction::none) return discard_warmup();
    if (state == State::off) {
      kineto::prepareProfiler(config, types);
      state = State::warm;
    }
    if (records && state == State::warm) begin();
    if (records) mark_step();
  }

  void begin() {
    kineto::enableProfiler(config, types);
    kineto::addMetadataJson("distributedInfo",
                            "{\"rank\": " + std::to_string(summary.rank) +
                                ", \"world_size\": " + std::to_string(summary.world_size) + "}");
    state = State::on;
    summary.first_step = step;
  }

  // Emits the annotation by which viewers recognize steps.
  void mark_step() {
    mark.emplace(at::RecordScope::USER_SCOPE);
    if (mark->isActive()) mark->before("ProfilerStep#" + std::to_string(step));
  }

  void discard_warmup() {
    if (state != State::warm) return;
    kineto::enableProfiler(config, types);
    kineto::disableProfiler();
    state = State::off;
  }

  void finish() {
    const auto result = kineto::disableProfiler();
    state = State::off;
    ProfileSummary done = summary;
    done.cycle = static_cast<int64_t>(summaries.size());
    done.steps = step - done.first_step;
    std::vector<ProfiledEvent> events;
    int64_t last = static_cast<int64_t>(result->trace_start_ns());
    for (const kineto::KinetoEvent& event : result->events()) {
      if (auto known = profiled(event)) events.push_back(std::move(*known));
      last = std::max(last, static_cast<int64_t>(event.endNs()));
    }
    done.seconds = static_cast<double>(last - static_cast<int64_t>(result->trace_start_ns())) / 1e9;
    summarize(events, options.operators_kept, done);
    char name[64];
    std::snprintf(name, sizeof(name), "-rank-%05d-cycle-%lld.json", done.rank,
                  static_cast<long long>(done.cycle));
    done.trace_file = options.directory + "/trace" + name;
    const std::string temporary = done.trace_file + ".tmp";
    result->save(temporary);
    move_into_place(temporary, done.trace_file);
    write_file_durably(options.directory + "/summary" + name, done.json());
    summaries.push_back(std::move(done));
    if (options.on_trace_ready) options.on_trace_ready(summaries.back());
  }

  const ProfileOptions options;
  const ProfilerConfig config;
  const std::set<ActivityType> types;
  State state = State::off;
  ProfileAction action = ProfileAction::none;
  int64_t step = 0;
  bool stopped = false;
  std::optional<at::RecordFunction> mark;
  ProfileSummary summary;  // of the cycle being recorded
  std::vector<ProfileSummary> summaries;
};

Profiler::Profiler(const ProfileOptions& options, int rank, int world_size) {
  check(options);
  // Kineto logs each start and stop to stderr at a level above its errors; it reads this variable
  // on first use.
  ::setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
  make_directories(options.directory);
  recording_ = std::make_unique<Recording>(options, rank, world_size);
  recording_->enter(profile_action(options, 0));
}

Profiler::~Profiler() {
  try {
    stop();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "muster: rank %d: could not write the last trace: %s\n",
                 recording_->summary.rank, error.what());
  }
}

void Profiler::step() {
  Recording& recording = *recording_;
  if (recording.stopped) return;
  recording.mark.reset();
  ++recording.step;
  recording.enter(profile_action(recording.options, recording.step));
}

void Profiler::stop() {
  Recording& recording = *recording_;
  if (recording.stopped) return;
  recording.stopped = true;
  recording.mark.reset();
  if (recording.state == Recording::State::on) recording.finish();
  recording.discard_warmup();
}

const std::vector<ProfileSummary>& Profiler::summaries() const { return recording_->summaries; }

}  // namespace muster
