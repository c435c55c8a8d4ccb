// A search of a rank's output with a client's pattern: what is found in blocks of any size is what is
// found when everything is there at once.
#include <algorithm>
#include <deque>
#include <memory>

#include "common/lines/line_search.h"
#include "fuzz/harness.h"

namespace muster::common {
namespace {

struct Found {
  std::string bytes;
  uint64_t matches = 0;
  bool operator==(const Found&) const = default;
};

Found InBlocks(const std::shared_ptr<const LineMatcher>& matcher, std::string_view text,
               size_t block) {
  SearchShare share(matcher);
  std::deque<FoundLines> found;
  Found all;
  {
    LineSearch search(share, 0);
    for (size_t at = 0; at < text.size(); at += block) {
      const std::string next = search.Kept() + std::string(text.substr(at, block));
      search.Run(next, {{search.Kept().size(), static_cast<int64_t>(at)}},
                 at + block >= text.size(), found);
    }
    FUZZ_EXPECT(search.SearchedTo() == text.size());
    all.matches = search.TakeCount();
  }
  FUZZ_EXPECT(share.kept_bytes == 0);
  uint64_t behind = 0;
  for (const FoundLines& lines : found) {
    FUZZ_EXPECT(lines.offset >= behind && lines.end - lines.offset >= lines.bytes.size());
    behind = lines.end;
    all.bytes += lines.bytes;
    all.matches += lines.matches;
  }
  FUZZ_EXPECT(behind <= text.size());
  return all;
}

}  // namespace
}  // namespace muster::common

// One byte of options, one for the size of a block, the pattern, the text.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::common;
  if (size < 2) return 0;
  muster::testing::Pieces pieces(muster::testing::Text(data + 2, size - 2));
  std::string_view pattern;
  if (!pieces.Next(&pattern)) return 0;
  LineQuery query{.grep = std::string(pattern)};
  query.ignore_case = (data[0] & 1) != 0;
  query.invert = (data[0] & 2) != 0;
  query.errors = (data[0] & 4) != 0;
  if ((data[0] & 8) != 0) query.least_level = LineLevel::kWarn;
  query.lines_before = (data[0] >> 4) & 3;
  query.lines_after = data[0] >> 6;
  const auto matcher = LineMatcher::Make(query);
  if (!matcher.ok() || !query.SelectsLines()) return 0;
  const std::string_view text = pieces.Rest();
  FUZZ_EXPECT(InBlocks(*matcher, text, size_t{data[1]} + 1) ==
              InBlocks(*matcher, text, std::max<size_t>(text.size(), 1)));
  return 0;
}
