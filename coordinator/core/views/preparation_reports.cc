#include "coordinator/core/views/preparation_reports.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text/text.h"

namespace muster::coordinator {
namespace {

constexpr size_t kDoingBytesMax = 200;
constexpr size_t kSetupOutputBytesMax = 8 * 1024;
constexpr size_t kImageBytesMax = 200;
// Records of jobs with thousands of parts and many attempts stay small.
constexpr int kSetupOutputsKept = 4;

}  // namespace

std::string BoundDoing(const v1::Preparation& said) {
  return common::Printable(said.doing().substr(0, kDoingBytesMax));
}

v1::Preparation BoundPreparation(const v1::Attempt& attempt, const v1::Preparation& said) {
  v1::Preparation bound;
  bound.set_fetched_bytes(said.fetched_bytes());
  bound.set_ran_setup(said.ran_setup());
  bound.set_setup_failed(said.setup_failed());
  bound.set_setup_ms(std::max<int64_t>(said.setup_ms(), 0));
  bound.set_image(common::Printable(said.image().substr(0, kImageBytesMax)));
  const auto kept = std::count_if(
      attempt.parts().begin(), attempt.parts().end(),
      [](const v1::NodePart& part) { return !part.preparation().setup_output().empty(); });
  if (kept < kSetupOutputsKept) {
    const std::string& output = said.setup_output();
    bound.set_setup_output(common::Printable(
        output.substr(output.size() - std::min(output.size(), kSetupOutputBytesMax)),
        /*keep_layout=*/true));
  }
  return bound;
}

std::string DescribePreparing(const v1::Attempt& attempt) {
  const v1::NodePart* first = nullptr;
  int more = 0;
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.ended() || part.preparation().doing().empty()) continue;
    if (first == nullptr) {
      first = &part;
    } else {
      ++more;
    }
  }
  if (first == nullptr) return "";
  std::string text = absl::StrCat(first->node(), ": ", first->preparation().doing());
  if (more == 1) absl::StrAppend(&text, " (1 more node is preparing)");
  if (more > 1) absl::StrAppend(&text, " (", more, " more nodes are preparing)");
  return text;
}

}  // namespace muster::coordinator
