// The precompiled header of the SDK's tests: the SDK's, and all of LibTorch.
#pragma once

#include "trainer/src/base/torch_headers.h"

#include <torch/torch.h>
