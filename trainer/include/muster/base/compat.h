// What differs between the LibTorch releases that the SDK is written for (2.11 to 2.14).
//
// Differences of a constructor's form are asked of the type itself (see make_reducer in
// data_parallel.cc), because release notes do not list them; this file refuses what is too old.
#pragma once

#include <torch/version.h>

static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11,
              "the Muster trainer SDK needs LibTorch 2.11 or newer");
