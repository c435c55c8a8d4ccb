// What a training loop needs of the SDK: the Accelerator, data loaders, optimizers, schedules and
// run_main. Of LibTorch it includes torch::nn::Module, torch::optim::Optimizer and the tensors
// alone, so a file compiles in two thirds of the time that <muster/trainer.h> takes, precompiled in
// a quarter (docs/trainer.md). Include the modules that the file uses:
//
//   #include <muster/training_loop.h>
//   #include <torch/nn/modules/linear.h>
#pragma once

#include "muster/accelerator/accelerator.h"
#include "muster/accelerator/options.h"
#include "muster/accelerator/prepared.h"
#include "muster/base/errors.h"
#include "muster/base/run_main.h"
#include "muster/data/data_loader.h"
#include "muster/data/dataset.h"
#include "muster/optim/clip_grad.h"
#include "muster/optim/optimizers.h"
#include "muster/optim/schedule.h"
#include "muster/optim/schedulers.h"
#include "muster/values/nested.h"
