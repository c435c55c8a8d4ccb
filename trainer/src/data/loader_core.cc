// Runs a loader through its epochs; see loader_core.h.
#include "muster/data/loader_core.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "data/batch_maker.h"
#include "data/dispatch.h"
#include "data/epoch_order.h"
#include "data/read_ahead.h"
#include "data/step_reader.h"
#include "device/device_driver.h"
#include "parallel/communication_time.h"

namespace muster {
namespace {

using loader_detail::AnyBatch;
using loader_detail::BatchSource;

// One pass through (the rest of) an epoch. Each member depends on the ones above it.
struct Pass {
  std::unique_ptr<StepReader> steps;
  std::unique_ptr<BatchMaker> maker;  // null: this rank only receives
  std::unique_ptr<ReadAhead> ahead;   // null: the loop builds the batches
  std::optional<StepInfo> current;
  int64_t next_begin = 0;
  bool ended = false;  // no more steps

  std::optional<ReadyStep> take() {
    if (ahead) return ahead->take();
    std::exception_ptr error;
    std::optional<Step> step = maker->plan(error);
    if (error) return ReadyStep{.error = error};
    if (!step) return std::nullopt;
    return maker->make(std::move(*step), 0);
  }
};

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("DataLoader: " + what);
}

void check_options(const DataLoaderOptions& options, bool is_stream) {
  if (options.num_workers < 0) {
    refuse("num_workers is " + std::to_string(options.num_workers) + ", but must be 0 or more");
  }
  if (options.prefetch_factor < 1) {
    refuse("prefetch_factor is " + std::to_string(options.prefetch_factor) +
           ", but must be at least 1");
  }
  if (options.order && options.shuffle) {
    refuse("shuffle and order exclude each other: shuffle in your order, or set only one of them");
  }
  if (is_stream && (options.shuffle || options.order)) {
    refuse("shuffle and order are for map-style datasets: a stream keeps its own order");
  }
}

}  // namespace

namespace loader_detail {

void pin_tensor(at::Tensor& tensor) {
  if (tensor.defined() && tensor.is_cpu()) tensor = tensor.pin_memory();
}

void send_tensor(at::Tensor& tensor, at::Device device, bool non_blocking) {
  if (tensor.defined()) tensor = tensor.to(device, non_blocking);
}

void throw_no_tensors() {
  throw std::invalid_argument(
      "dispatch_batches: batches of this type cannot be scattered; use a Nested type (nested.h), "
      "or set dispatch_batches to false");
}

}  // namespace loader_detail

struct LoaderCore::State {
  State(const LoaderCore& own, std::unique_ptr<BatchSource> own_source,
        const DataLoaderOptions& own_options)
      : owner(own), source(std::move(own_source)), options(own_options), rule(rule_of(context)) {
    position.seed = options.seed;
  }

  ShardRule rule_of(const LoaderContext& place) const {
    const DataLoaderConfiguration& shared = place.configuration;
    const bool is_dispatched_there = shared.dispatch_batches.value_or(is_stream());
    return ShardRule({.batch_size = options.batch_size,
                      .world_size = place.world_size,
                      .drop_last = options.drop_last,
                      .split_batches = shared.split_batches,
                      .even_batches = shared.even_batches,
                      .accelerate_last_step = shared.accelerate_last_step && !is_dispatched_there});
  }

  bool dispatches() const {
    return context.configuration.dispatch_batches.value_or(false) && context.world_size > 1;
  }
  bool is_stream() const { return source->size() < 0; }
  int64_t epoch_size();
  const std::shared_ptr<const std::vector<int64_t>>& listed(int64_t epoch);
  std::unique_ptr<StepReader> make_steps();
  void begin_pass();
  void end_pass();
  std::optional<ReadyStep> take();
  std::unique_ptr<AnyBatch> next();
  bool is_last(const StepInfo& info) const {
    return info.next_taken == 0 || rule.share(info.next_taken, context.rank).count == 0;
  }

  const LoaderCore& owner;
  std::unique_ptr<BatchSource> source;
  const DataLoaderOptions options;
  LoaderContext context;
  ShardRule rule;
  DataPosition position;
  bool resume = false;  // the next pass begins at the position, not at the start of its epoch
  uint64_t passes = 0;
  std::unique_ptr<Pass> pass;
  // The last result of options.order.
  std::shared_ptr<const std::vector<int64_t>> list;
  int64_t list_epoch = -1;
};

const std::shared_ptr<const std::vector<int64_t>>& LoaderCore::State::listed(int64_t epoch) {
  if (list && list_epoch == epoch) return list;
  auto indices = std::make_shared<const std::vector<int64_t>>(options.order(epoch));
  const int64_t samples = source->size();
  for (const int64_t index : *indices) {
    if (index >= 0 && index < samples) continue;
    refuse("order returned index " + std::to_string(index) + " for epoch " + std::to_string(epoch) +
           ", but the dataset has " + std::to_string(samples) + " samples");
  }
  if (list && list->size() != indices->size()) {
    refuse("order returned " + std::to_string(indices->size()) + " samples for epoch " +
           std::to_string(epoch) + " and " + std::to_string(list->size()) + " for epoch " +
           std::to_string(list_epoch) + "; all epochs must have the same length");
  }
  list = std::move(indices);
  list_epoch = epoch;
  return list;
}

int64_t LoaderCore::State::epoch_size() {
  if (!options.order) return source->size();
  return static_cast<int64_t>((list ? list : listed(position.epoch))->size());
}

std::unique_ptr<StepReader> LoaderCore::State::make_steps() {
  const ProducedRanks ranks =
      dispatches() ? ProducedRanks{0, context.world_size} : ProducedRanks{context.rank, 1};
  if (is_stream()) return std::make_unique<StreamSteps>(*source, rule, ranks, position);
  const EpochOrder order = options.order ? EpochOrder::listed(listed(position.epoch))
                           : options.shuffle
                               ? EpochOrder::shuffled(source->size(), position.seed, position.epoch)
                               : EpochOrder::sequential(source->size());
  return std::make_unique<MapSteps>(order, rule, ranks, position.consumed);
}

void LoaderCore::State::begin_pass() {
  auto next = std::make_unique<Pass>();
  next->next_begin = position.consumed;
  if (!dispatches() || context.rank == 0) {
    const bool pins = !dispatches() && context.device && !context.device->is_cpu() &&
                      (options.pin_memory ? *options.pin_memory : has_pinned_memory());
    BatchMaker::Options making{
        .seed = position.seed, .epoch = position.epoch, .rank = context.rank};
    if (pins) making.pin_for = context.device;
    next->steps = make_steps();
    next->maker = std::make_unique<BatchMaker>(*source, *next->steps, making);
    source->prepare_workers(std::max(options.num_workers, 1));
    if (options.num_workers > 0) {
      next->ahead = std::make_unique<ReadAhead>(
          *next->maker, options.num_workers,
          static_cast<int64_t>(options.num_workers) * options.prefetch_factor);
    }
  }
  pass = std::move(next);
  ++passes;
  if (context.on_active) context.on_active(owner, true);
}

void LoaderCore::State::end_pass() {
  if (!pass) return;
  pass.reset();
  if (context.on_active) context.on_active(owner, false);
}

std::optional<ReadyStep> LoaderCore::State::take() {
  if (pass->ended) return std::nullopt;
  if (!dispatches()) return pass->take();
  if (context.rank > 0) return receive_part(*context.collectives, *source, pass->next_begin);
  return deal_out(*context.collectives, *source, pass->take());
}

std::unique_ptr<AnyBatch> LoaderCore::State::next() {
  std::optional<ReadyStep> ready = take();
  if (ready && ready->error) std::rethrow_exception(ready->error);
  if (!ready || !ready->batch) {
    position = {position.seed, position.epoch + 1, 0};
    end_pass();
    return nullptr;
  }
  if (context.device) {
    ready->batch->send(*context.device, context.configuration.non_blocking);
  }
  const StepInfo& info = ready->info;
  pass->next_begin = info.begin + info.taken;
  pass->ended = info.next_taken == 0;
  pass->current = info;
  position.consumed = pass->next_begin;
  return std::move(ready->batch);
}

LoaderCore::LoaderCore(std::unique_ptr<BatchSource> source, const DataLoaderOptions& options) {
  check_options(options, source->size() < 0);
  state_ = std::make_unique<State>(*this, std::move(source), options);
}

// A pass may be in progress, which others have been told of.
LoaderCore::~LoaderCore() { state_->end_pass(); }

void LoaderCore::attach(LoaderContext context) {
  if (context.world_size < 1 || context.rank < 0 || context.rank >= context.world_size) {
    refuse("rank " + std::to_string(context.rank) + " does not exist in a world of " +
           std::to_string(context.world_size));
  }
  if (context.configuration.dispatch_batches.value_or(false) && context.world_size > 1 &&
      !context.collectives) {
    refuse(
        "dispatch_batches needs the process group of an Accelerator: prepare the loader with it");
  }
  const ShardRule rule = state_->rule_of(context);
  state_->end_pass();
  state_->rule = rule;
  state_->context = std::move(context);
}

const LoaderContext& LoaderCore::context() const { return state_->context; }
const DataLoaderOptions& LoaderCore::options() const { return state_->options; }
DataPosition LoaderCore::position() const { return state_->position; }

void LoaderCore::set_position(const DataPosition& position) {
  const int64_t samples = state_->epoch_size();
  if (position.epoch < 0 || position.consumed < 0 ||
      (samples >= 0 && position.consumed > samples)) {
    refuse("the position epoch " + std::to_string(position.epoch) + ", sample " +
           std::to_string(position.consumed) + " lies outside the dataset of " +
           std::to_string(samples) + " samples: is it from another dataset?");
  }
  state_->end_pass();
  state_->position = position;
  state_->resume = true;
}

void LoaderCore::set_epoch(int64_t epoch) {
  if (epoch < 0) refuse("epoch " + std::to_string(epoch) + " is negative");
  if (epoch != state_->position.epoch) set_position({state_->position.seed, epoch, 0});
}

void LoaderCore::skip_batches(int64_t batches) {
  if (batches < 0) refuse("cannot skip " + std::to_string(batches) + " batches");
  DataPosition position = state_->position;
  if (!state_->resume) position.consumed = 0;
  const int64_t samples = state_->epoch_size();
  position.consumed += batches * state_->rule.step_size();
  if (samples >= 0) position.consumed = std::min(position.consumed, samples);
  set_position(position);
}

int64_t LoaderCore::dataset_size() const { return state_->epoch_size(); }

int64_t LoaderCore::batches_per_epoch() const {
  const int64_t samples = state_->epoch_size();
  return samples < 0 ? -1 : state_->rule.batches(samples, state_->context.rank);
}

int64_t LoaderCore::total_batch_size() const { return state_->rule.step_size(); }

bool LoaderCore::active() const { return state_->pass != nullptr; }

bool LoaderCore::end_of_dataloader() const {
  return active() && state_->pass->current && state_->is_last(*state_->pass->current);
}

int64_t LoaderCore::remainder() const {
  if (!active() || !state_->pass->current) return -1;
  const int64_t taken = state_->pass->current->taken;
  return taken < state_->rule.step_size() ? taken : -1;
}

int64_t LoaderCore::batches_left() const {
  if (!active() || !state_->pass->current) return 0;
  if (state_->is_stream()) return end_of_dataloader() ? 1 : -1;
  const int64_t left = state_->epoch_size() - state_->pass->current->begin;
  return state_->rule.batches(left, state_->context.rank);
}

uint64_t LoaderCore::start(bool resume) {
  state_->end_pass();
  if (!resume && !state_->resume) state_->position.consumed = 0;
  state_->resume = false;
  state_->begin_pass();
  return state_->passes;
}

std::unique_ptr<AnyBatch> LoaderCore::next(uint64_t pass) {
  if (pass != state_->passes) {
    throw std::logic_error(
        "DataLoader: another pass over this loader began while this one was in use; loops over one "
        "loader cannot be nested: create a second DataLoader");
  }
  if (!active()) return nullptr;
  const auto began = std::chrono::steady_clock::now();
  const int64_t communication_ns = CommunicationTime::of_thread().waited_ns();
  std::unique_ptr<AnyBatch> batch;
  try {
    batch = state_->next();
  } catch (...) {
    state_->end_pass();
    throw;
  }
  if (batch && state_->context.on_wait) {
    // A dispatching loader also communicates, which is measured separately.
    const std::chrono::duration<double> waited =
        std::chrono::steady_clock::now() - began -
        std::chrono::nanoseconds(CommunicationTime::of_thread().waited_ns() - communication_ns);
    state_->context.on_wait(waited.count());
  }
  return batch;
}

void LoaderCore::abandon(uint64_t pass) noexcept {
  if (pass == state_->passes) state_->end_pass();
}

}  // namespace muster
