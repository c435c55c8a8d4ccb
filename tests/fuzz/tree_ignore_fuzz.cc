// A .gitignore from anywhere, in two directories, over any path. Input: two pieces that are the
// files; the rest is the path.
#include <string>

#include "fuzz/harness.h"
#include "tree/ignore.h"

namespace muster::tree {
namespace {

// With everything special escaped, a name matches itself and nothing else.
void CheckLiteral(std::string_view path) {
  std::string line = "/";
  for (const char c : path) {
    if (c == '\n' || c == '\0') return;
    if (c != '/') line += '\\';
    line += c;
  }
  if (path.empty() || path.back() == '/' || path.front() == '/') return;
  const std::optional<IgnorePattern> pattern = IgnorePattern::Parse(line);
  FUZZ_EXPECT(pattern.has_value() == (line.size() <= kPatternBytesMax));
  if (!pattern) return;
  FUZZ_EXPECT(pattern->Matches(path, false));
  FUZZ_EXPECT(!pattern->Matches(std::string(path) + "x", false));
}

}  // namespace
}  // namespace muster::tree

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  testing::Pieces input(testing::Text(data, size));
  std::string_view upper, lower;
  if (!input.Next(&upper) || !input.Next(&lower)) return 0;
  const std::string_view path = input.Rest().substr(0, 4'096);
  tree::IgnoreRules rules;
  rules.Enter("", upper, lower);
  (void)rules.Ignores(path, true);
  rules.Enter("dir", lower, upper);
  (void)rules.Ignores("dir/" + std::string(path), false);
  rules.Leave();
  (void)rules.Ignores(path, false);
  rules.Leave();
  FUZZ_EXPECT(!rules.Ignores(path, false));
  tree::CheckLiteral(path);
  return 0;
}
