#include "rendezvous/notes.h"

#include <cstdio>

#include "common/text/text.h"

namespace muster::rendezvous {
namespace {

// limit: rendezvous: lines of its log, in all; further ones are left out
constexpr int kLinesMax = 1'000;
constexpr size_t kLineBytesMax = 400;

}  // namespace

void Note(std::string_view what, std::string_view why) {
  static int lines = 0;
  if (++lines > kLinesMax) return;
  const std::string line =
      common::PrintableStart(std::string(what) + ": " + std::string(why), kLineBytesMax);
  std::fprintf(stderr, "muster-rendezvous: %s\n", line.c_str());
}

}  // namespace muster::rendezvous
