#include <array>

#include "absl/strings/str_cat.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

constexpr std::array kAdjectives = {"calm",  "red",    "swift", "brave", "quiet",  "amber", "bold",
                                    "clear", "deep",   "eager", "fair",  "gentle", "happy", "keen",
                                    "light", "merry",  "noble", "proud", "rapid",  "sharp", "solid",
                                    "sunny", "tidy",   "vivid", "warm",  "wise",   "young", "blue",
                                    "green", "silver", "early"};
constexpr std::array kAnimals = {
    "otter", "fox",   "heron", "lynx",  "robin", "whale", "badger", "crane", "deer", "eagle",
    "finch", "goose", "hare",  "ibis",  "koala", "lark",  "moose",  "newt",  "owl",  "panda",
    "quail", "raven", "seal",  "tiger", "vole",  "wolf",  "yak",    "bear",  "camel"};

}  // namespace

std::string JobName(uint64_t id, const std::string& label) {
  if (!label.empty()) return absl::StrCat(label, "-", id);
  // 31 and 29 are coprime: a pair of words repeats only after 899 jobs, and the number differs
  // anyway.
  return absl::StrCat(kAdjectives[id % kAdjectives.size()], "-", kAnimals[id % kAnimals.size()],
                      "-", id);
}

}  // namespace muster::coordinator
