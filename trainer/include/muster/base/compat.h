// Differences between the LibTorch releases that the SDK supports (2.11 to 2.14).
//
// Constructor signatures are detected from the type itself (see make_reducer in data_parallel.cc),
// because release notes do not list their changes. This file rejects releases that are too old.
#pragma once

#include <torch/version.h>

static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11,
              "the Muster trainer SDK needs LibTorch 2.11 or newer");
