// Training state in files of Python's torch.save, both ways: a run that Python began continues in C++, and back, with the same
// numbers.
//
//   muster::load_torch("run.pt", {.model = &*net, .optimizer = &adamw, .scheduler = &scheduler, .generator = true});
//   muster::save_torch("run.pt", {.model = &*net, .optimizer = &adamw, .scheduler = &scheduler, .generator = true});
//
// In Python:
//
//   saved = torch.load("run.pt", weights_only=True)
//   net.load_state_dict(saved["model"])
//   optimizer.load_state_dict(saved["optimizer"])
//   scheduler.load_state_dict(saved["scheduler"])
//   torch.set_rng_state(saved["rng_state"])
//
// Given the same batches, losses continue bit for bit if the optimizer's implementation is the same on both sides, and the schedule
// is one that Python computes in closed form (muster/optim/schedule.h). docs/formats-checkpoint.md tells which files are read and
// what is written. Nothing here is collective, and sharded models and optimizers are neither loaded nor saved: load before prepare(),
// which divides the state of Muster's optimizers with the parameters; save weights within Accelerator::full_parameters, and an
// optimizer's state from a run without sharding, which resumes from the same checkpoint. Training thread.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/checkpoint/model_files.h"
#include "muster/optim/schedulers.h"

namespace muster {

// What a file is to hold, or to be read into. Null: not that part.
struct TorchParts {
  torch::nn::Module* model = nullptr;
  // Any that a checkpoint can hold: muster's, and torch::optim's Adam, AdamW, SGD, RMSprop and Adagrad. Needs the model, for the
  // names of its parameters.
  torch::optim::Optimizer* optimizer = nullptr;
  LrScheduler* scheduler = nullptr;
  bool generator = false;                       // the default one of the CPU
  std::map<std::string, int64_t> numbers = {};  // to save besides: {"epoch", 3}
};

// Writes a file that torch.load(weights_only=True) reads, also with mmap=True: a dict with "model", "optimizer", "scheduler",
// "rng_state" and the numbers; of a model alone its state_dict, without a dict around it. Optimizer state has the order of the
// groups' parameters, and their names in "param_names". The file is durable, and replaces an earlier one, when it is complete.
// Throws CheckpointError on a disk error or for an optimizer that cannot be saved, FormatError for a tensor that the format
// cannot represent.
void save_torch(const std::string& path, const TorchParts& parts);

struct LoadTorchOptions {
  // Names of the optimizer's parameters in the order of its groups, for a file that does not have them.
  std::vector<std::string> parameter_names = {};
  // Muster's optimizers step as the file's did: fused, foreach, or plain. False: as they were made.
  bool keep_implementation = true;
};

struct LoadedTorch {
  LoadReport model;
  std::map<std::string, int64_t> numbers;  // the whole numbers at the file's top
};

// Reads what parts names. The model is as load_model reads it, and strict. The optimizer's state is found under "optimizer",
// "optimizer_state_dict" or "optimizer_states" (Lightning), the schedule's under "scheduler", "lr_scheduler",
// "scheduler_state_dict" or "lr_schedulers", the generator's under "rng_state". State is matched by the parameters' names, which
// the file has in "param_names" (Python: AdamW(net.named_parameters())), or, if all of the model is in one group, in the order of
// its state_dict, which is that of net.parameters(); files without either are refused with the Python line that adds them. The
// options of the groups (rates, betas, decay) become the file's, as in Python; a schedule's own are the program's, and must give the
// file's rates. Throws CheckpointError naming what is missing or does not fit; then nothing is loaded.
LoadedTorch load_torch(const std::string& path, const TorchParts& parts,
                       const LoadTorchOptions& options = {});

}  // namespace muster
