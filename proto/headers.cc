// The precompiled header needs a source.
#include "proto/headers.h"
