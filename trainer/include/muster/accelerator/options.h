// How an Accelerator behaves: plain values with the defaults that suit most runs.
//
//   muster::Accelerator accelerator({
//       .mixed_precision = muster::Precision::bf16,
//       .gradient_accumulation = {.num_steps = 4},
//       .log_with = {"tensorboard"},
//       .project = {.project_dir = "runs/first"}});
//
// The names are those of Python's Accelerate where it has them. Where its defaults surprise people
// ours differ, as said at each field; accelerate_compat() gives its exact behaviour.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/checkpoint/checkpoint_options.h"
#include "muster/data/sharding.h"
#include "muster/parallel/data_parallel.h"
#include "muster/precision/autocast.h"
#include "muster/precision/grad_scaler.h"
#include "muster/sharding/model_sharding.h"
#include "muster/tracking/tracker.h"

namespace muster {

// How the gradients of several micro-batches become one optimizer step; see
// Accelerator::accumulate.
struct GradientAccumulationPlugin {
  // Micro-batches per optimizer step, at least 1. 0: ACCELERATE_GRADIENT_ACCUMULATION_STEPS,
  // else 1.
  int num_steps = 0;
  // The last batch of an epoch ends its window, however short it is.
  bool sync_with_dataloader = true;
  // A short last window is divided by its own number of micro-batches, so that its step is the mean
  // of what it saw. False, as Accelerate: by num_steps, which makes the last step of an epoch
  // smaller.
  bool weight_short_window = true;
};

// Where a run leaves its files. Source: accelerate.utils.ProjectConfiguration.
struct ProjectConfiguration {
  // Checkpoints go to project_dir/checkpoints unless AcceleratorOptions::checkpoint_dir is set.
  std::string project_dir;
  // Trackers write below it; empty: project_dir, else the current directory.
  std::string logging_dir;
  // Checkpoints to keep; 0: as CheckpointOptions::policy says.
  int total_limit = 0;
  // Number that the first save_state() without a step gets.
  int64_t iteration = 0;
};

struct AcceleratorOptions {
  bool cpu = false;  // stay on the CPU where LibTorch has a device; ACCELERATE_USE_CPU=true too
  // The kind of device to compute on: "cpu", "cuda", or the name of a plug-in, whose library
  // libmuster_trainer_NAME.so is then loaded (muster/device/device_plugin.h). Empty: MUSTER_DEVICE; where
  // that is empty too, CUDA where there is a device, else the CPU. Throws DeviceError where it
  // cannot be had.
  std::string device;
  // prepare() leaves modules and batches where they are when false.
  bool device_placement = true;

  // The type that matrix products compute in; weights stay float32. Not set:
  // ACCELERATE_MIXED_PRECISION ("no", "bf16", "fp16"), else fp32. fp16 brings a GradScaler along.
  std::optional<Precision> mixed_precision;
  AutocastOptions autocast;
  GradScalerOptions grad_scaler;  // with fp16

  GradientAccumulationPlugin gradient_accumulation;
  DataLoaderConfiguration dataloader_config;
  DataParallelOptions data_parallel;
  // Shards optimizer state, gradients and parameters over the ranks; see model_sharding.h.
  ShardingOptions sharding;

  // A PreparedScheduler steps only where an optimizer really stepped. False: at each call.
  bool step_scheduler_with_optimizer = true;
  // Accelerate steps the schedule num_processes times per optimizer step (unless split_batches), so
  // that a schedule written for one process ends at the same epoch. Ours counts optimizer steps.
  bool step_scheduler_per_process = false;

  std::chrono::milliseconds process_group_timeout = std::chrono::minutes(30);  // one collective
  std::chrono::milliseconds init_timeout = std::chrono::minutes(5);  // until all ranks have met
  // Network interfaces that Gloo uses; empty: GLOO_SOCKET_IFNAME, else the one that leads to
  // MASTER_ADDR. Several share the work.
  std::vector<std::string> network_interfaces;
  // Before each collective of this class the ranks compare what they are about to do; the error
  // names the rank that differs. Costs a small collective each. ACCELERATE_DEBUG_MODE=1 too.
  bool debug = false;

  ProjectConfiguration project;
  // Where save_state writes when no worker says so in MUSTER_CHECKPOINT_DIR. Empty: below
  // project.project_dir; when that is empty too, save_state throws without a worker.
  std::string checkpoint_dir;
  // What load_state reads when no worker says so in MUSTER_RESUME_FROM. Empty: the newest whole
  // checkpoint of the checkpoint directory; refused when there are some and none is whole.
  std::string resume_from;
  CheckpointOptions checkpoint;
  // Called on each rank as it passes a stage of a save ("prepared", "shard", "parts", "manifest",
  // "published"), to trace or time it; from the background thread when saves are asynchronous.
  std::function<void(const char* stage)> on_checkpoint_stage;

  // Where log() goes besides the worker: "tensorboard", "jsonl", "csv", or trackers of one's own.
  std::vector<TrackerChoice> log_with;
  // Metrics are appended here as JSON lines ({"name","step","value","time_ms","rank"}); all ranks
  // may share one file. Empty: none.
  std::string metrics_file;
  size_t buffered_metrics_max = 65'536;  // points; more are dropped and counted
  int log_metrics_every = 10;            // steps between two reductions of Accelerator::log_metrics
  // Every so many optimizer steps the times of a step (time/step, time/data_wait, time/compute, …)
  // are logged; 0: never.
  int64_t log_step_times_every = 0;

  bool handle_sigterm = true;  // SIGTERM makes should_stop() true instead of ending the process
};

// The options with Accelerate's exact behaviour where ours differs: a short last accumulation
// window is divided by num_steps, the schedule steps once per process, a short last step is dealt
// out in runs of batch_size, and buffers are sent before evaluation forwards too.
AcceleratorOptions accelerate_compat(AcceleratorOptions options = {});

}  // namespace muster
