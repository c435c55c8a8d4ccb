#include "coordinator/core/views/notice_text.h"

#include "absl/strings/str_cat.h"

namespace muster::coordinator {
namespace {

std::string DescribeNode(const v1::Asked& asked) {
  return absl::StrCat(asked.node(), ", which is drained", asked.why().empty() ? "" : ": ",
                      asked.why());
}

}  // namespace

std::string WhyItLeft(const v1::Notice& notice) {
  const v1::Asked& asked = notice.asked();
  if (asked.hold()) return absl::StrCat("stopped by ", asked.by());
  if (!asked.node().empty()) return absl::StrCat("left ", DescribeNode(asked));
  return absl::StrCat("gave way to ", notice.reason());
}

std::string WhyItLeaves(const v1::Notice& notice) {
  const v1::Asked& asked = notice.asked();
  if (asked.hold()) return absl::StrCat("asked by ", asked.by(), " to save and stop");
  if (!asked.node().empty()) return absl::StrCat("asked to save and leave ", DescribeNode(asked));
  return absl::StrCat("asked to save and give way to ", notice.reason());
}

}  // namespace muster::coordinator
