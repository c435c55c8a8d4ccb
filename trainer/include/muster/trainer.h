// Muster's trainer SDK: distributed training on LibTorch, for C++. One include for everything.
#pragma once

#include "muster/accelerator.h"
#include "muster/compat.h"
#include "muster/data_parallel.h"
#include "muster/errors.h"
#include "muster/run_main.h"
#include "muster/safetensors.h"
#include "muster/sampler.h"
#include "muster/topology.h"
#include "muster/version.h"
