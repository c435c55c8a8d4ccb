// When checkpoints are written, and where; see muster/accelerator/accelerator.h.
#include <limits>
#include <stdexcept>

#include "accelerator/state.h"
#include "base/files.h"
#include "checkpoint/joint_step.h"
#include "muster/base/errors.h"

namespace muster {

// The worker's directory takes precedence: a checkpoint elsewhere would never reach the
// coordinator.
std::string Accelerator::State::checkpoint_dir() const {
  if (!worker.checkpoint_dir.empty()) return worker.checkpoint_dir;
  if (!options.checkpoint_dir.empty()) return options.checkpoint_dir;
  return options.project.project_dir.empty() ? "" : options.project.project_dir + "/checkpoints";
}

int64_t Accelerator::State::removable_up_to() const {
  if (worker.checkpoint_dir.empty()) return std::numeric_limits<int64_t>::max();
  return reporter.committed_step();
}

std::string Accelerator::checkpoint_dir() const { return state_->checkpoint_dir(); }

AsyncCheckpointer& Accelerator::State::open_checkpointer() {
  if (checkpointer) return *checkpointer;
  CheckpointPolicy policy = options.checkpoint.policy;
  if (policy.keep_last == 0) policy.keep_last = options.project.total_limit;
  const auto published = [this](int64_t step, const std::string&) {
    if (topology.local_rank == 0) reporter.checkpoint_saved(step);
  };
  // Asynchronous saves use a separate group, because their collectives run concurrently with
  // training's.
  if (options.checkpoint.asynchronous) {
    checkpoint_group = make_side_group(
        group, "checkpoint",
        {options.process_group_timeout, options.init_timeout, options.network_interfaces});
  }
  checkpointer.emplace(CheckpointWriterOptions{checkpoint_dir(), topology, policy,
                                               options.on_checkpoint_stage, published},
                       options.checkpoint.asynchronous ? checkpoint_group : group,
                       options.checkpoint.wait_timeout);
  return *checkpointer;
}

void Accelerator::State::prepare_saving() {
  if (!options.checkpoint.asynchronous || checkpoint_dir().empty()) return;
  AsyncCheckpointer& opened = open_checkpointer();
  CheckpointContent trained;
  add_own(trained);
  opened.reserve(trained);
}

void Accelerator::State::settle(int64_t step, const std::string& path) {
  settled = Settled{step, path, gradients->optimizer_steps, module_loads()};
}

std::optional<std::string> Accelerator::State::settled_path(int64_t step) {
  if (settled && settled->step == step) {
    const std::string error = error_of([&] { checkpointer->wait(); });
    if (!error.empty()) {
      settled.reset();
      throw CheckpointError(error);
    }
  }
  const bool known = checkpointer->published(step) || loaded_steps.contains(step);
  if (!collectives->any_rank(known)) return std::nullopt;
  const bool unchanged = settled && settled->step == step &&
                         settled->optimizer_steps == gradients->optimizer_steps &&
                         settled->module_loads == module_loads();
  if (collectives->any_rank(!unchanged)) {
    throw CheckpointError(
        "save_state: step " + std::to_string(step) +
        " was saved or loaded by this run, which has trained or loaded something since; a "
        "checkpoint may be in use already, so it is never replaced: save this state as another "
        "step, such as save_iteration(), " +
        std::to_string(next_iteration));
  }
  if (collectives->any_rank(!path_exists(settled->path))) {
    throw CheckpointError("save_state: step " + std::to_string(step) + " was saved as " +
                          settled->path +
                          ", which is gone: was it removed by the retention policy? Save this "
                          "state as another step");
  }
  return settled->path;
}

std::string Accelerator::save_state(int64_t step, const SaveOptions& options) {
  State& state = *state_;
  const std::string directory = checkpoint_dir();
  if (directory.empty()) {
    throw CheckpointError("save_state: no directory: set AcceleratorOptions::checkpoint_dir, or " +
                          std::string("run under Muster, which sets MUSTER_CHECKPOINT_DIR"));
  }
  if (step < 0) {
    throw std::invalid_argument("save_state: step " + std::to_string(step) + " is negative");
  }
  state.collectives->meet("save_state", "step " + std::to_string(step));
  const auto section = state.gradients->timer.measure(StepPart::checkpoint);
  state.follow_groups();
  AsyncCheckpointer& checkpointer = state.open_checkpointer();
  if (const auto saved = state.settled_path(step)) {
    state.reporter.clear_checkpoint_request();
    return *saved;
  }
  state.settled.reset();
  const CheckpointContent content = state.content(step, options);
  std::string path;
  if (state.options.checkpoint.asynchronous) {
    path = checkpointer.save(content, state.removable_up_to());
    if (options.wait) checkpointer.wait();
  } else {
    path = checkpointer.save_now(content, state.removable_up_to());
  }
  state.settle(step, path);
  state.next_iteration = step + 1;
  state.reporter.clear_checkpoint_request();
  return path;
}

int64_t Accelerator::save_iteration() const { return state_->next_iteration; }

void Accelerator::wait_for_checkpoint() {
  if (!state_->checkpointer) return;
  const auto section = state_->gradients->timer.measure(StepPart::checkpoint);
  try {
    state_->checkpointer->wait();
  } catch (const CheckpointError&) {
    state_->settled.reset();
    throw;
  }
}

}  // namespace muster
