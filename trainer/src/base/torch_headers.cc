// Builds the precompiled header that all files with LibTorch share.
#include "torch_headers.h"
