// The precompiled header of the SDK's sources. Not all of torch/torch.h: whatever templates its inline
// functions name, the compiler instantiates again in each file, 3 s of it for torch::nn's modules.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
