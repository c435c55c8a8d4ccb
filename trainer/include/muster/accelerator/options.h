// Options of an Accelerator: plain values with defaults that suit most runs.
//
//   muster::Accelerator accelerator({
//       .mixed_precision = muster::Precision::bf16,
//       .gradient_accumulation = {.num_steps = 4},
//       .log_with = {"tensorboard"},
//       .project = {.project_dir = "runs/first"}});
//
// Names follow Python's Accelerate. A few defaults differ where Accelerate's are surprising, as
// noted at each field; accelerate_compat() restores its exact behavior.
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

// Gradient accumulation: several micro-batches per optimizer step; see Accelerator::accumulate.
struct GradientAccumulationPlugin {
  // Micro-batches per optimizer step, at least 1. 0: ACCELERATE_GRADIENT_ACCUMULATION_STEPS,
  // else 1.
  int num_steps = 0;
  // The last batch of an epoch ends the accumulation window, however short it is.
  bool sync_with_dataloader = true;
  // Divides the losses of a short last window by its own number of micro-batches, so that its step
  // uses their mean. False, as in Accelerate: by num_steps, which makes the last step of an epoch
  // smaller.
  bool weight_short_window = true;
  // Gradients are reduced in every micro-batch, not only in the last one of a window: with DDP and
  // zero1, by the numbers of Accelerate's option of this name, for more communication; with zero2
  // and zero3 it is ShardingOptions::reduce_every_micro_batch, which saves memory.
  bool sync_each_batch = false;
};

// Where a run writes its files. Source: accelerate.utils.ProjectConfiguration.
struct ProjectConfiguration {
  // Checkpoints go to project_dir/checkpoints unless AcceleratorOptions::checkpoint_dir is set.
  std::string project_dir;
  // Trackers write below this directory; empty: project_dir, else the current directory.
  std::string logging_dir;
  // Checkpoints to keep; 0: CheckpointOptions::policy decides.
  int total_limit = 0;
  // The step number of the first save_state() without a step.
  int64_t iteration = 0;
};

struct AcceleratorOptions {
  bool cpu = false;  // use the CPU even if there is a device; also set by ACCELERATE_USE_CPU=true
  // The kind of device to compute on: "cpu", "cuda", or the NAME of a plug-in, whose library
  // libmuster_trainer_NAME.so is then loaded (muster/device/device_plugin.h). Empty: MUSTER_DEVICE;
  // if that is empty too, CUDA if there is a GPU, else the CPU. DeviceError if it is not available.
  std::string device;
  // False: prepare() leaves modules and batches where they are.
  bool device_placement = true;

  // The dtype in which matrix products are computed; weights stay float32. Not set:
  // ACCELERATE_MIXED_PRECISION ("no", "bf16", "fp16"), else fp32. fp16 adds a GradScaler.
  // Also as a string: .mixed_precision = "bf16".
  PrecisionChoice mixed_precision;
  AutocastOptions autocast;
  GradScalerOptions grad_scaler;  // with fp16
  // True: each optimizer's step() updates the scale at once and clipping unscales all optimizers, as
  // in Accelerate: with two optimizers the second one's gradients are divided by another scale than
  // they were multiplied by. False: the next backward() updates it, once for all that have stepped.
  bool update_scale_at_each_step = false;

  GradientAccumulationPlugin gradient_accumulation;
  DataLoaderConfiguration dataloader_config;
  DataParallelOptions data_parallel;
  // Shards optimizer state, gradients and parameters across the ranks; see model_sharding.h.
  ShardingOptions sharding;

  // A PreparedScheduler steps only if an optimizer actually stepped. False: at each call.
  bool step_scheduler_with_optimizer = true;
  // True: steps the schedule num_processes times per optimizer step (unless split_batches), as
  // Accelerate does, so that a schedule written for one process ends at the same epoch. False: once
  // per optimizer step.
  bool step_scheduler_per_process = false;
  // True: a one_cycle_schedule past its total_steps stays where it is, as Accelerate's does unless
  // split_batches. False: the step that is too many throws.
  bool stop_schedule_at_end = false;

  std::chrono::milliseconds process_group_timeout = std::chrono::minutes(30);  // per collective
  std::chrono::milliseconds init_timeout = std::chrono::minutes(5);            // for the rendezvous
  // Network interfaces that Gloo uses; several share the traffic. Empty: GLOO_SOCKET_IFNAME, else
  // the interface on the route to MASTER_ADDR.
  std::vector<std::string> network_interfaces;
  // Before each collective of the Accelerator, the ranks compare what they are about to do; the
  // error names the rank that differs. Costs a small collective each time. Also set by
  // ACCELERATE_DEBUG_MODE=1.
  bool debug = false;

  ProjectConfiguration project;
  // Where save_state writes unless a worker sets MUSTER_CHECKPOINT_DIR. Empty: below
  // project.project_dir; if that is empty too, save_state throws when run without a worker.
  std::string checkpoint_dir;
  // What load_state reads unless a worker sets MUSTER_RESUME_FROM. Empty: the newest intact
  // checkpoint in the checkpoint directory; load_state throws if there are checkpoints but none is
  // intact.
  std::string resume_from;
  CheckpointOptions checkpoint;
  // Called on each rank after each stage of a save ("prepared", "shard", "parts", "manifest",
  // "published"), to trace or time it; on the background thread if saves are asynchronous.
  std::function<void(const char* stage)> on_checkpoint_stage;

  // Where log() goes in addition to the worker: "tensorboard", "jsonl", "csv", or your own
  // trackers.
  std::vector<TrackerChoice> log_with;
  // A file to append metrics to as JSON lines ({"name","step","value","time_ms","rank"}); all ranks
  // may share one file. Empty: none.
  std::string metrics_file;
  size_t buffered_metrics_max = 65'536;  // points; more are dropped and counted
  int log_metrics_every = 10;            // steps between reductions in Accelerator::log_metrics
  // Logs step times (time/step, time/data_wait, time/forward, …) every this many optimizer steps, on
  // rank 0. 0: only to the worker, if there is one, from every rank, about once a second, so that
  // Muster can tell where the time went. Negative: never.
  int64_t log_step_times_every = 0;

  bool handle_sigterm = true;  // SIGTERM makes should_stop() true instead of killing the process
};

// The options with Accelerate's exact behavior wherever the SDK's default differs: a short last
// accumulation window is divided by num_steps, the schedule steps once per process, a short last
// step is split in runs of batch_size, buffers are broadcast before evaluation forwards too, each of
// several optimizers updates the fp16 scale, and a one-cycle schedule stops at its end.
AcceleratorOptions accelerate_compat(AcceleratorOptions options = {});

}  // namespace muster
