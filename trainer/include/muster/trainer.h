// Muster's trainer SDK: distributed training on LibTorch, for C++. Includes everything, LibTorch's
// torch/torch.h too. To compile a file in less time, precompile this header by
// muster_precompile_headers (docs/trainer.md), or include <muster/training_loop.h> and what the file
// uses besides: the headers of the areas include only what they need of LibTorch. A header lies in
// the folder of its area; areas are listed from the lowest layer up (docs/trainer-architecture.md),
// an area includes only lower ones.
#pragma once

#include <torch/torch.h>

#include "muster/base/compat.h"
#include "muster/base/errors.h"
#include "muster/base/refused.h"
#include "muster/base/run_main.h"
#include "muster/base/topology.h"
#include "muster/base/version.h"

#include "muster/values/nested.h"

#include "muster/device/random_state.h"

#include "muster/tracking/logger.h"
#include "muster/tracking/progress_bar.h"
#include "muster/tracking/step_timer.h"
#include "muster/tracking/tracker.h"

#include "muster/profiling/profiler.h"

#include "muster/diagnosis/flight_recorder.h"

#include "muster/memory/activation_checkpoint.h"
#include "muster/memory/deferred_init.h"

#include "muster/parallel/data_parallel.h"
#include "muster/parallel/local_sgd.h"
#include "muster/parallel/sync_batch_norm.h"

#include "muster/collectives/batch_plan.h"
#include "muster/collectives/executable_batch_size.h"
#include "muster/collectives/reduction.h"

#include "muster/checkpoint/checkpoint_options.h"
#include "muster/checkpoint/model_files.h"
#include "muster/checkpoint/safetensors.h"

#include "muster/sharding/memory_estimate.h"
#include "muster/sharding/model_sharding.h"

#include "muster/data/data_loader.h"
#include "muster/data/dataset.h"
#include "muster/data/file_datasets.h"
#include "muster/data/memory_mapped_file.h"
#include "muster/data/sampler.h"

#include "muster/optim/clip_grad.h"
#include "muster/optim/ema.h"
#include "muster/optim/optimizers.h"
#include "muster/optim/schedule.h"
#include "muster/optim/schedulers.h"

#include "muster/exported/exported_model.h"
#include "muster/exported/script_model.h"
#include "muster/interchange/torch_files.h"
#include "muster/precision/autocast.h"
#include "muster/precision/fp8.h"
#include "muster/precision/grad_scaler.h"

#include "muster/accelerator/accelerator.h"
#include "muster/accelerator/options.h"
#include "muster/accelerator/prepared.h"
#include "muster/accelerator/refused_calls.h"

#include "muster/training_loop.h"
