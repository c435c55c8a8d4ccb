// Uneven inputs: the protocol between ranks that still train and ranks that are done. On both
// sides, the order of collectives is that of torch's join.py and distributed.py.
#include <unistd.h>

#include <exception>
#include <stdexcept>

#include "parallel/data_parallel_state.h"

namespace muster {
namespace {

// Flags are reduced on the CPU: reading them never waits for a device's queue.
c10::intrusive_ptr<c10d::Work> start_all_reduce(
    const ProcessGroupPtr& group, at::Tensor tensor,
    const c10d::ReduceOp& operation = c10d::ReduceOp::SUM) {
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  c10d::AllreduceOptions options;
  options.reduceOp = operation;
  return group->getBackend(c10::kCPU)->allreduce(tensors, options);
}

double sum_over_ranks(const ProcessGroupPtr& group, double own) {
  const at::Tensor sum = at::full({1}, own);
  start_all_reduce(group, sum)->wait();
  return sum.item<double>();
}

std::string rank_of(const ProcessGroupPtr& group) {
  return "rank " + std::to_string(group->getRank());
}

// Joins one iteration of the ranks that still train, contributing zeros.
void shadow_iteration(DataParallel::State& state) {
  c10d::Reducer& reducer = *state.reducer;
  state.rebuild_buckets();
  if (state.sends_buffers()) send_buffers(state, false);
  state.buffers_are_due = sum_over_ranks(state.group, 0) != 0;
  if (!state.buffers_are_due) return;
  if (state.options.static_graph && !state.delay_is_queued) {
    throw CommunicationError(rank_of(state.group) +
                             " has no batch in the first iteration, in which static_graph records "
                             "the graph: give every rank one, or do not set static_graph");
  }
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> under_way;
  for (c10d::GradBucket& bucket : reducer.get_grad_buckets(/*return_zero_tensors=*/true)) {
    under_way.push_back(reducer.run_comm_hook(bucket));
  }
  for (const auto& reduction : under_way) reduction->waitAndThrow();
  if (state.options.find_unused_parameters && !state.options.static_graph) {
    std::vector<at::Tensor> used = {reducer.get_local_used_map_on_device()};
    state.group->allreduce(used)->wait();
  }
  reducer.push_rebuilt_params_for_all_indices();
}

}  // namespace

void announce_iteration(DataParallel::State& state) {
  auto& announcement = *state.join.announcement;
  if (state.join.is_first) {
    announcement = start_all_reduce(state.group, at::ones({1}));
    if (state.join.throw_on_early_termination && sum_over_ranks(state.group, 0) != 0) {
      throw UnevenInputsError(rank_of(state.group) +
                              ": another rank has exhausted its inputs; all ranks stop here");
    }
  }
  // Python sets this on the first model only, so the others divide by the world size.
  state.reducer->set_forward_pass_work_handle(announcement,
                                              state.join.divide_by_initial_world_size);
}

void announce_reduction(const DataParallel::State& state) {
  start_all_reduce(state.group, at::full({1}, state.reduces() ? 1.0 : 0.0));
}

int find_common_rank(const DataParallel::State& state, bool candidate) {
  const at::Tensor rank = at::full({1}, candidate ? state.group->getRank() : -1, at::kLong);
  start_all_reduce(state.group, rank, c10d::ReduceOp::MAX)->wait();
  return static_cast<int>(rank.item<int64_t>());
}

void send_buffers(const DataParallel::State& state, bool candidate) {
  const int root = state.join.enabled ? find_common_rank(state, candidate) : 0;
  state.broadcast_from(root, /*with_parameters=*/false, /*with_buffers=*/true);
}

JoinUnevenInputs::JoinUnevenInputs(std::vector<DataParallel*> models, const JoinOptions& options)
    : options_(options), exceptions_(std::uncaught_exceptions()), process_(::getpid()) {
  if (models.empty()) throw std::invalid_argument("JoinUnevenInputs needs at least one model");
  const ProcessGroupPtr& group = models.front()->state().group;
  for (const DataParallel* model : models) {
    if (model->state().group != group) {
      throw std::invalid_argument(
          "JoinUnevenInputs: the models belong to different groups of ranks");
    }
    if (model->state().join.enabled) {
      throw std::invalid_argument("JoinUnevenInputs: a model is already in such a scope");
    }
    if (model->state().sharded) {
      throw std::invalid_argument(
          "JoinUnevenInputs: a model is sharded, so its steps are collective: leave "
          "ShardingOptions::stage at none, or give all ranks the same number of batches");
    }
    if (group && !model->state().reducer) {
      throw std::invalid_argument("JoinUnevenInputs: a model has no trainable parameter");
    }
  }
  open_ = options_.enable && group;
  if (!open_) return;
  const auto announcement = std::make_shared<c10::intrusive_ptr<c10d::Work>>();
  for (const DataParallel* model : models) {
    models_.push_back(model->shared_state());
    model->state().join = {.enabled = true,
                           .is_first = model == models.front(),
                           .announcement = announcement,
                           .divide_by_initial_world_size = options_.divide_by_initial_world_size,
                           .throw_on_early_termination = options_.throw_on_early_termination};
  }
}

JoinUnevenInputs::~JoinUnevenInputs() noexcept(false) {
  if (!open_ || ::getpid() != process_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    leave();
  } else {
    finish();
  }
}

void JoinUnevenInputs::leave() {
  open_ = false;
  for (const auto& state : models_) {
    state->join = {};
    // Otherwise the reducer would keep dividing by the last iteration's count, which differs
    // between ranks.
    state->reducer->set_forward_pass_work_handle({}, /*useStaticWorldSize=*/true);
  }
}

void JoinUnevenInputs::finish() {
  if (!open_) return;
  try {
    follow();
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

void JoinUnevenInputs::follow() {
  const ProcessGroupPtr& group = models_.front()->group;
  bool was_last = true;
  while (sum_over_ranks(group, 0) != 0) {
    if (options_.throw_on_early_termination) {
      sum_over_ranks(group, 1);
      throw UnevenInputsError(rank_of(group) +
                              " has exhausted its inputs while others still have some: all ranks "
                              "stop here because of throw_on_early_termination");
    }
    for (const auto& state : models_) shadow_iteration(*state);
    was_last = false;
  }
  for (const auto& state : models_) {
    const int root = find_common_rank(*state, was_last);
    state->broadcast_from(root, /*with_parameters=*/true, state->options.broadcast_buffers);
  }
}

}  // namespace muster
