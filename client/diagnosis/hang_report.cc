#include "client/diagnosis/hang_report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/diagnosis/outside_view.h"
#include "client/text/rank_words.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;
using Collective = RankRecord::Collective;

// ---- words ----

std::string SizeText(int64_t bytes) {
  if (bytes >= 1 << 20) return absl::StrFormat("%.3g MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= 1 << 10) return absl::StrFormat("%.3g KiB", static_cast<double>(bytes) / (1 << 10));
  return StrCat(bytes, " bytes");
}

std::string TimeText(int64_t milliseconds) {
  return absl::StrFormat("%.1f s", static_cast<double>(milliseconds) / 1000);
}

std::string ContentText(const Collective& collective) {
  return collective.bytes > 0 ? StrCat(SizeText(collective.bytes), " ", collective.dtype) : "";
}

// "all_reduce #12 (4 MiB float32, group default)"
std::string Describe(const Collective& collective) {
  const std::string content = ContentText(collective);
  return StrCat(collective.operation, " #", collective.sequence, " (", content,
                content.empty() ? "" : ", ", "group ", collective.group, ")");
}

// ---- finding the rank ----

const Collective* OldestRunning(const RankRecord& record) {
  const Collective* oldest = nullptr;
  for (const Collective& collective : record.collectives) {
    if (collective.runs && (oldest == nullptr || collective.age_ms > oldest->age_ms)) {
      oldest = &collective;
    }
  }
  return oldest;
}

bool SameGroup(const Collective& a, const Collective& b) {
  return a.group == b.group && a.ranks == b.ranks;
}

const Collective* Find(const RankRecord& record, const Collective& like) {
  for (const Collective& collective : record.collectives) {
    if (SameGroup(collective, like) && collective.sequence == like.sequence) return &collective;
  }
  return nullptr;
}

uint64_t Started(const RankRecord& record, const Collective& like) {
  for (const RankRecord::Group& group : record.groups) {
    if (group.name == like.group && group.ranks == like.ranks) return group.started;
  }
  return 0;
}

// How the members of a group relate to the collective that the longest-waiting member is in.
struct Standing {
  Collective of;
  std::vector<int> waiting, behind, unknown;
  std::vector<const RankRecord*> behind_records;
  // What each member is about to do in it; more than one kind is a bug in the program.
  std::map<std::string, std::vector<int>> kinds;
  int64_t longest_ms = 0;
  bool failed = false;  // some of the waiting ranks gave up
};

std::string KindOf(const Collective& collective) {
  const std::string content = ContentText(collective);
  return content.empty() ? collective.operation : StrCat(collective.operation, " of ", content);
}

Standing StandingOf(const Collective& of, const std::map<int, RankRecord>& records) {
  Standing standing;
  standing.of = of;
  for (const int rank : of.ranks) {
    const auto record = records.find(rank);
    if (record == records.end() || record->second.outside.seen) {
      standing.unknown.push_back(rank);
      continue;
    }
    if (Started(record->second, of) < of.sequence) {
      standing.behind.push_back(rank);
      standing.behind_records.push_back(&record->second);
      continue;
    }
    const Collective* own = Find(record->second, of);
    if (own == nullptr) continue;  // completed here long ago
    standing.kinds[KindOf(*own)].push_back(rank);
    if (!own->runs) continue;
    standing.waiting.push_back(rank);
    standing.longest_ms =
        std::max(standing.longest_ms, own->age_ms - (own->failed ? own->ended_ms_ago : 0));
    standing.failed = standing.failed || own->failed;
  }
  return standing;
}

// The collective that has blocked a rank the longest, or the first one of its group that still
// runs.
std::optional<Collective> HeldUpBy(const std::map<int, RankRecord>& records) {
  const Collective* oldest = nullptr;
  for (const auto& [rank, record] : records) {
    const Collective* own = OldestRunning(record);
    if (own != nullptr && (oldest == nullptr || own->age_ms > oldest->age_ms)) oldest = own;
  }
  if (oldest == nullptr) return std::nullopt;
  const Collective* first = oldest;
  for (const auto& [rank, record] : records) {
    for (const Collective& other : record.collectives) {
      if (other.runs && SameGroup(other, *oldest) && other.sequence < first->sequence) {
        first = &other;
      }
    }
  }
  return *first;
}

std::string WaitText(const Standing& standing) {
  const char* verb = standing.failed ? "waited" : Verb(standing.waiting, "waits", "wait");
  return StrCat(RanksText(standing.waiting), " ", verb, " in it for ",
                TimeText(standing.longest_ms), standing.failed ? " and failed" : "");
}

std::string BehindText(const Standing& standing) {
  return StrCat(RanksText(standing.behind), " ", Verb(standing.behind, "has", "have"),
                " not entered ", Describe(standing.of));
}

// What the ranks that are behind are doing instead, grouped by place.
std::string InsteadText(const Standing& standing) {
  constexpr size_t kPlacesMax = 4;
  std::map<std::string, std::vector<int>> places;
  for (const RankRecord* record : standing.behind_records) {
    const Collective* other = OldestRunning(*record);
    std::string place =
        record->place.empty() ? "at an unknown place" : StrCat("in ", record->place);
    if (other != nullptr) place = StrCat("in ", Describe(*other), " instead, ", place);
    places[place].push_back(record->rank);
  }
  std::string text;
  size_t told = 0;
  for (const auto& [place, ranks] : places) {
    if (told++ == kPlacesMax) {
      StrAppend(&text, "; and ", places.size() - kPlacesMax, " other places");
      break;
    }
    StrAppend(&text, "; ", RanksText(ranks), " ", Verb(ranks, "is ", "are "), place);
  }
  return text;
}

// The ranks that are behind and not waiting themselves; if all are waiting, all that are behind.
std::vector<int> Roots(const Standing& standing) {
  std::vector<int> roots;
  for (const RankRecord* record : standing.behind_records) {
    if (OldestRunning(*record) == nullptr) roots.push_back(record->rank);
  }
  return roots.empty() ? standing.behind : roots;
}

// If all ranks that are behind wait in another group's collective, follows the chain of waits. The
// last link is the one to look at.
std::string ChainText(Standing standing, const std::map<int, RankRecord>& records,
                      std::vector<int>* suspects) {
  std::string text;
  std::set<std::string> seen = {Describe(standing.of)};
  while (true) {
    const Collective* other = OldestRunning(*standing.behind_records.front());
    if (other == nullptr || Roots(standing) != standing.behind) return text;
    if (!seen.insert(Describe(*other)).second) {
      return text +
             "; they are waiting for each other: the ranks start these collectives in different "
             "orders";
    }
    standing = StandingOf(*other, records);
    if (standing.behind.empty()) return text;
    *suspects = Roots(standing);
    StrAppend(&text, "; ", BehindText(standing), InsteadText(standing));
  }
}

std::string MismatchText(const Standing& standing, std::vector<int>* suspects) {
  // The minority first: it most likely made the mistake.
  std::vector<std::pair<std::vector<int>, std::string>> kinds;
  for (const auto& [kind, ranks] : standing.kinds) kinds.push_back({ranks, kind});
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  *suspects = kinds.front().first;
  std::string text = StrCat("the ranks disagree on collective #", standing.of.sequence,
                            " of group ", standing.of.group, ": ");
  for (size_t i = 0; i < kinds.size(); ++i) {
    StrAppend(&text, i == 0 ? "" : ", ", RanksText(kinds[i].first), " ",
              Verb(kinds[i].first, "runs", "run"), " ", kinds[i].second);
  }
  return StrCat(text, "; waiting for ", TimeText(standing.longest_ms));
}

std::string QuietText(const std::map<int, RankRecord>& records) {
  const Collective* last = nullptr;
  for (const auto& [rank, record] : records) {
    for (const Collective& collective : record.collectives) {
      if (last == nullptr || collective.ended_ms_ago <= last->ended_ms_ago) last = &collective;
    }
  }
  if (last == nullptr) return "no rank has started a collective";
  return StrCat("no rank is waiting in a collective; the last one, ", Describe(*last), ", ended ",
                TimeText(last->ended_ms_ago), " ago");
}

std::string HangSentence(const std::map<int, RankRecord>& records, const std::vector<int>& missing,
                         std::vector<int>* suspects) {
  const std::string silent = missing.empty() ? "" : StrCat("; no record of ", RanksText(missing));
  if (records.empty()) return "there is no record of any rank";
  const std::optional<Collective> held = HeldUpBy(records);
  if (!held) {
    const OutsideView view = ViewFromOutside(records);
    *suspects = view.suspects;
    return (view.sentence.empty() ? QuietText(records) : view.sentence) + silent;
  }
  const Standing standing = StandingOf(*held, records);
  if (standing.kinds.size() > 1) return MismatchText(standing, suspects) + silent;
  if (!standing.behind.empty()) {
    *suspects = Roots(standing);
    return StrCat(BehindText(standing), "; ", WaitText(standing), InsteadText(standing),
                  ChainText(standing, records, suspects), silent);
  }
  if (!standing.unknown.empty()) {
    *suspects = standing.unknown;
    const std::string seen = PlacesFromOutside(records, standing.unknown);
    const char* what = seen.empty()
                           ? Verb(standing.unknown, " has no record: ", " have no record: ")
                           : Verb(standing.unknown, " does not answer: ", " do not answer: ");
    return StrCat(RanksText(standing.unknown), what, RanksText(standing.waiting), " ",
                  Verb(standing.waiting, "waits", "wait"), " in ", Describe(standing.of), " for ",
                  TimeText(standing.longest_ms), seen);
  }
  return StrCat("every rank of group ", standing.of.group, " has entered ", Describe(standing.of),
                ", and ", RanksText(standing.waiting), " ", Verb(standing.waiting, "waits", "wait"),
                " in it for ", TimeText(standing.longest_ms),
                ": it is slow, or the connection between the ranks is");
}

// ---- the table ----

struct Row {
  std::string rank, host, collective, state, place;
};

Row RowOf(const RankRecord& record) {
  Row row = {StrCat(record.rank), record.host, "none", "", record.place};
  if (record.outside.seen) {
    row.collective = "unknown";
    row.state = record.outside.doing;
    return row;
  }
  const Collective* shown = OldestRunning(record);
  if (shown == nullptr && !record.collectives.empty()) shown = &record.collectives.back();
  if (shown == nullptr) return row;
  row.collective = StrCat(shown->operation, " #", shown->sequence, " ", shown->group);
  row.state = shown->failed ? StrCat("failed ", TimeText(shown->ended_ms_ago), " ago")
              : shown->runs ? StrCat("in it ", TimeText(shown->age_ms))
                            : StrCat("ended ", TimeText(shown->ended_ms_ago), " ago");
  return row;
}

std::string TableOf(int world_size, const std::map<int, RankRecord>& records) {
  std::vector<Row> rows = {{"rank", "node", "collective", "state", "where"}};
  for (int rank = 0; rank < world_size; ++rank) {
    const auto record = records.find(rank);
    rows.push_back(record == records.end() ? Row{StrCat(rank), "", "", "no record", ""}
                                           : RowOf(record->second));
  }
  size_t widths[4] = {};
  for (const Row& row : rows) {
    widths[0] = std::max(widths[0], row.rank.size());
    widths[1] = std::max(widths[1], row.host.size());
    widths[2] = std::max(widths[2], row.collective.size());
    widths[3] = std::max(widths[3], row.state.size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line =
        absl::StrFormat("%*s  %-*s  %-*s  %-*s  %s", static_cast<int>(widths[0]), row.rank,
                        static_cast<int>(widths[1]), row.host, static_cast<int>(widths[2]),
                        row.collective, static_cast<int>(widths[3]), row.state, row.place);
    line.erase(line.find_last_not_of(' ') + 1);
    StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace

HangReport MakeHangReport(int world_size, std::vector<RankRecord> records) {
  std::map<int, RankRecord> by_rank;
  for (RankRecord& record : records) by_rank[record.rank] = std::move(record);
  if (!by_rank.empty()) world_size = std::max(world_size, by_rank.rbegin()->first + 1);
  std::vector<int> missing;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!by_rank.contains(rank)) missing.push_back(rank);
  }
  HangReport report;
  report.sentence = HangSentence(by_rank, missing, &report.suspects);
  report.table = TableOf(world_size, by_rank);
  return report;
}

}  // namespace muster::client
