// Which checkpoint files the recorded jobs refer to.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace muster::coordinator {

struct BlobUse {
  uint64_t size = 0;
  uint64_t job = 0;  // one of those that refer to it
};

using BlobUses = std::map<std::string, BlobUse>;  // by SHA-256

}  // namespace muster::coordinator
