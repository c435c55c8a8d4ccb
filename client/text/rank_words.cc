// rank_words: runs of ranks are shortened.
#include "client/text/rank_words.h"

#include "common/text/strings.h"

namespace muster::client {

std::string RanksText(const std::vector<int>& ranks) {
  std::vector<std::string> pieces;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last >= i + 2) {
      pieces.push_back(common::StrCat(ranks[i], " to ", ranks[last]));
    } else {
      for (size_t k = i; k <= last; ++k) pieces.push_back(common::StrCat(ranks[k]));
    }
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) text += i + 1 == pieces.size() ? " and " : ", ";
    text += pieces[i];
  }
  return text;
}

const char* Verb(const std::vector<int>& ranks, const char* one, const char* several) {
  return ranks.size() == 1 ? one : several;
}

}  // namespace muster::client
