#include "common/job/precision.h"

#include "common/text/word_list.h"

namespace muster::job {

std::string PrecisionOf(const v1::JobSpec& spec) {
  const auto found = spec.env().find(kPrecisionVariable);
  if (found == spec.env().end() || !common::HasWord("bf16|fp16|fp8", found->second)) return "";
  return found->second;
}

bool IsPrecision(std::string_view value) { return common::HasWord("no|bf16|fp16|fp8", value); }

}  // namespace muster::job
