// outside_view: first ranks that cannot run (stopped, stuck in the kernel), then those outside a
// collective that others are in, then those elsewhere than most.
#include "client/diagnosis/outside_view.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "client/text/rank_words.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;
using Groups = std::vector<std::pair<std::string, std::vector<int>>>;

constexpr size_t kPlacesTold = 4;

// Parts of names of functions that wait for other ranks, in Python, in LibTorch, Gloo, NCCL, MPI.
constexpr const char* kCollectiveWords[] = {
    "all_reduce",       "allreduce",  "AllReduce",      "all_gather",    "allgather",
    "AllGather",        "all_to_all", "alltoall",       "broadcast",     "Broadcast",
    "barrier",          "Barrier",    "reduce_scatter", "ReduceScatter", "gloo::",
    "ProcessGroup",     "ncclGroup",  "Work::wait",     "MPI_",          "init_process_group",
    "_wait_for_workers"};

// The innermost function that waits for others, without its arguments and place; empty: none.
std::string CollectiveIn(const RankRecord& record) {
  for (const RankRecord::Thread& thread : record.threads) {
    if (thread.id != record.outside.pid) continue;
    for (const std::string& frame : thread.frames) {
      for (const char* word : kCollectiveWords) {
        const size_t at = frame.find(word);
        if (at == std::string::npos) continue;
        const size_t begin = frame.rfind(' ', at) + 1;  // after a return type; npos + 1 is 0
        return frame.substr(begin, frame.find_first_of(" (<", at) - begin);
      }
    }
  }
  return "";
}

// "waits in futex" of one rank, "wait in futex" of several.
std::string DoingOf(size_t ranks, const std::string& doing) {
  if (ranks == 1) return doing;
  constexpr std::pair<std::string_view, std::string_view> kForms[] = {
      {"waits", "wait"}, {"computes", "compute"}, {"is ", "are "}, {"has ", "have "}};
  for (const auto& [one, several] : kForms) {
    if (doing.starts_with(one)) return StrCat(several, doing.substr(one.size()));
  }
  return doing;
}

void AddTo(Groups* groups, const std::string& key, int rank) {
  const auto found = std::find_if(groups->begin(), groups->end(),
                                  [&](const auto& group) { return group.first == key; });
  if (found == groups->end()) {
    groups->push_back({key, {rank}});
  } else {
    found->second.push_back(rank);
  }
}

std::string WhereText(const RankRecord& record) {
  return StrCat(record.outside.doing, record.place.empty() ? "" : StrCat(", in ", record.place));
}

std::string GroupsText(const Groups& groups) {
  std::string text;
  for (size_t i = 0; i < std::min(groups.size(), kPlacesTold); ++i) {
    text += StrCat(i == 0 ? "" : "; ", RanksText(groups[i].second), " ",
                   DoingOf(groups[i].second.size(), groups[i].first));
  }
  if (groups.size() > kPlacesTold) {
    text += StrCat("; and ", groups.size() - kPlacesTold, " other places");
  }
  return text;
}

std::vector<int> RanksThat(const std::map<int, RankRecord>& records, const std::string& doing) {
  std::vector<int> ranks;
  for (const auto& [rank, record] : records) {
    if (record.outside.seen && record.outside.doing.starts_with(doing)) ranks.push_back(rank);
  }
  return ranks;
}

// Ranks that a signal or a debugger stopped, or that are stuck in the kernel.
OutsideView Unable(const std::map<int, RankRecord>& records) {
  for (const char* doing : {"is stopped", "is stuck in the kernel"}) {
    const std::vector<int> ranks = RanksThat(records, doing);
    if (ranks.empty()) continue;
    const RankRecord& first = records.at(ranks[0]);
    std::string text =
        StrCat(RanksText(ranks), ranks.size() == 1 ? " " : " cannot continue: the first ",
               first.outside.doing, " on ", first.host);
    if (first.outside.doing == "is stopped by a signal") {
      text += StrCat("; fix: kill -CONT ", first.outside.pid, " there");
    }
    return {text, ranks};
  }
  return {};
}

}  // namespace

std::string PlacesFromOutside(const std::map<int, RankRecord>& records,
                              const std::vector<int>& ranks) {
  Groups groups;
  for (const int rank : ranks) {
    const auto found = records.find(rank);
    if (found != records.end() && found->second.outside.seen) {
      AddTo(&groups, WhereText(found->second), rank);
    }
  }
  return groups.empty() ? "" : StrCat("; ", GroupsText(groups));
}

OutsideView ViewFromOutside(const std::map<int, RankRecord>& records) {
  if (OutsideView view = Unable(records); !view.sentence.empty()) return view;
  Groups places;
  std::vector<int> inside, elsewhere;
  std::string collective;
  for (const auto& [rank, record] : records) {
    if (!record.outside.seen) continue;
    AddTo(&places, WhereText(record), rank);
    const std::string in = CollectiveIn(record);
    (in.empty() ? elsewhere : inside).push_back(rank);
    if (!in.empty() && collective.empty()) collective = in;
  }
  if (places.empty()) return {};
  if (!inside.empty() && !elsewhere.empty()) {
    return {StrCat(RanksText(inside), " ", Verb(inside, "waits", "wait"), " in ", collective,
                   ", and ", RanksText(elsewhere), " ", Verb(elsewhere, "is", "are"), " not in it",
                   PlacesFromOutside(records, elsewhere)),
            elsewhere};
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  OutsideView view{StrCat("seen from outside: ", GroupsText(places)), {}};
  // One rank is elsewhere while all others are in the same place.
  if (places.size() == 2 && places[0].second.size() == 1 && places[1].second.size() > 1) {
    view.suspects = places[0].second;
  }
  return view;
}

}  // namespace muster::client
