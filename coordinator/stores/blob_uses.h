// Which blobs are referred to: checkpoint files by recorded jobs, objects of code by projects, parts of the archive.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/text/strings.h"

namespace muster::coordinator {

struct BlobUse {
  static constexpr uint64_t kUnknownSize = UINT64_MAX;
  uint64_t size = 0;
  uint64_t job = 0;     // one of those that refer to it
  std::string project;  // if no job does: one that uploaded it
  // It is a part of the archive.
  enum class Archived { kNo, kJob, kAudit };
  Archived archived = Archived::kNo;
};

// "job 7 refers to it"
inline std::string TextOf(const BlobUse& use) {
  if (use.archived == BlobUse::Archived::kAudit) return "entries of the audit are in it";
  if (use.archived == BlobUse::Archived::kJob)
    return common::StrCat("the record of job ", use.job, " is in it");
  return use.job != 0 ? common::StrCat("job ", use.job, " refers to it")
                      : common::StrCat("project ", use.project, " uploaded it as code");
}

using BlobUses = std::map<std::string, BlobUse>;  // by SHA-256

}  // namespace muster::coordinator
