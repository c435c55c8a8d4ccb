// Metrics, log lines and notices; see muster/accelerator/accelerator.h.
#include <cstdio>

#include "accelerator/state.h"
#include "base/lost_saves.h"
#include "base/stop_signal.h"
#include "checkpoint/joint_step.h"
#include "tracking/tensor_values.h"

namespace muster {
namespace {

constexpr char kDefaultProject[] = "muster";

}  // namespace

std::string Accelerator::State::logging_dir() const {
  const ProjectConfiguration& project = options.project;
  if (!project.logging_dir.empty()) return project.logging_dir;
  return project.project_dir.empty() ? "." : project.project_dir;
}

std::string Accelerator::logging_dir() const { return state_->logging_dir(); }

void Accelerator::State::start_trackers(const std::string& project, const TrackerConfig& config) {
  if (!trackers || trackers_started) return;
  trackers_started = true;
  trackers->start(project, config);
}

bool Accelerator::State::starts_trackers() {
  start_trackers(kDefaultProject, {});
  return trackers.has_value();
}

void Accelerator::init_trackers(const std::string& project_name, const TrackerConfig& config) {
  state_->start_trackers(project_name, config);
}

Tracker* Accelerator::get_tracker(std::string_view name) {
  return state_->trackers ? state_->trackers->find(std::string(name)) : nullptr;
}

void Accelerator::log(std::span<const ScalarValue> values, int64_t step,
                      const LogOptions& options) {
  if (!is_main_process() && !options.all_ranks) return;
  state_->reporter.log(values, step);
  if (!state_->starts_trackers()) return;
  state_->trackers->log(values, {.step = step, .all_ranks = options.all_ranks});
}

void Accelerator::log(std::initializer_list<ScalarValue> values, int64_t step,
                      const LogOptions& options) {
  log(std::span<const ScalarValue>(values.begin(), values.size()), step, options);
}

void Accelerator::log(std::string_view name, double value, int64_t step,
                      const LogOptions& options) {
  const ScalarValue one{name, value};
  log(std::span<const ScalarValue>(&one, 1), step, options);
}

void Accelerator::add_metric(std::string_view name, const at::Tensor& value, double weight) {
  state_->metrics->add(name, value, weight);
}

void Accelerator::add_metric(std::string_view name, double value, double weight) {
  state_->metrics->add(name, value, weight);
}

std::vector<std::pair<std::string, double>> Accelerator::log_metrics(int64_t step) {
  const MetricMeans means = state_->metrics->end_step();
  std::vector<ScalarValue> values;
  for (const auto& [name, mean] : means) values.push_back({name, mean});
  if (!values.empty()) log(values, step);
  return means;
}

void Accelerator::log_histogram(std::string_view name, const at::Tensor& values, int64_t step) {
  if (!is_main_process() || !state_->starts_trackers()) return;
  muster::log_histogram(*state_->trackers, std::string(name), values, {.step = step});
}

void Accelerator::log_image(std::string_view name, const at::Tensor& image, int64_t step,
                            ImageLayout layout) {
  if (!is_main_process() || !state_->starts_trackers()) return;
  muster::log_image(*state_->trackers, std::string(name), image, layout, {.step = step});
}

void Accelerator::log_text(std::string_view name, const std::string& text, int64_t step) {
  if (!is_main_process() || !state_->starts_trackers()) return;
  state_->trackers->text(std::string(name), text, {.step = step});
}

void Accelerator::log_hparams(const TrackerConfig& config,
                              const std::map<std::string, double>& metrics) {
  if (!is_main_process() || !state_->starts_trackers()) return;
  state_->trackers->hparams(config, metrics);
}

void Accelerator::progress(int64_t step, int64_t total) {
  if (is_main_process()) state_->reporter.progress(step, total);
}

uint64_t Accelerator::dropped_metrics() const {
  return state_->reporter.dropped() + (state_->trackers ? state_->trackers->dropped() : 0);
}

void Accelerator::print(const std::string& line) {
  if (!is_local_main_process()) return;
  std::fprintf(stdout, "%s\n", line.c_str());
  std::fflush(stdout);
}

Logger Accelerator::get_logger(const std::string& name) {
  return muster::get_logger(
      name, {.topology = topology(),
             .wait_for_everyone = [collectives = state_->collectives] { collectives->wait(); }});
}

bool Accelerator::stop_requested() const {
  return state_->reporter.stop_requested() || stop_signal_received();
}

bool Accelerator::should_stop() { return state_->collectives->any_rank(stop_requested()); }

bool Accelerator::should_checkpoint() {
  return state_->collectives->any_rank(state_->reporter.checkpoint_requested());
}

bool Accelerator::end_training() {
  const std::string error = error_of([&] { wait_for_checkpoint(); });
  if (!error.empty()) {
    state_->lost_a_save = true;
    std::fprintf(stderr, "muster: rank %d: %s\n", process_index(), error.c_str());
    note_lost_save(error);
  }
  if (state_->trackers) state_->trackers->finish();
  state_->reporter.close();
  return !state_->lost_a_save;
}

}  // namespace muster
