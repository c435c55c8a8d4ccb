// Which blobs are referred to: checkpoint files by recorded jobs, objects of code by projects.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/text/strings.h"

namespace muster::coordinator {

struct BlobUse {
  uint64_t size = 0;
  uint64_t job = 0;     // one of those that refer to it
  std::string project;  // if no job does: one that uploaded it
};

// "job 7 refers to it"
inline std::string TextOf(const BlobUse& use) {
  return use.job != 0 ? common::StrCat("job ", use.job, " refers to it")
                      : common::StrCat("project ", use.project, " uploaded it as code");
}

using BlobUses = std::map<std::string, BlobUse>;  // by SHA-256

}  // namespace muster::coordinator
