#include "tree/listing.h"

#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::tree {

void Listing::Add(std::string_view path, std::string_view why) {
  ++count_;
  if (first_.size() < kShownMax) {
    first_.push_back(common::StrCat(common::Printable(path), ": ", why));
  }
}

std::string Listing::Text() const {
  std::string text;
  for (const std::string& line : first_) common::StrAppend(&text, "\n  ", line);
  if (count_ > first_.size()) {
    common::StrAppend(&text, "\n  … and ", count_ - first_.size(), " more");
  }
  return text;
}

}  // namespace muster::tree
