// Rules about Muster's store, at which ranks meet (rendezvous: muster): who has not come there, who lets others wait,
// and waits that no rank could end any more.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/findings/rules.h"
#include "coordinator/findings/say.h"

namespace muster::coordinator {
namespace {

constexpr size_t kRanksNamed = 3;

// The ranks of the newest attempt by what they do at the store, ascending. Empty if it has none, or no node has reported.
struct AtStore {
  const v1::Attempt* attempt = nullptr;
  std::vector<uint32_t> missing;  // never came
  std::vector<uint32_t> waiting;  // for at least the floor
  std::vector<uint32_t> ended;    // their wait was ended
  std::vector<uint32_t> gone;     // have exited, but for these
  std::vector<uint32_t> others;
  size_t known = 0;
};

const v1::RankExit* ExitOf(const v1::Attempt& attempt, uint32_t rank) {
  const v1::NodePart* part = PartOf(attempt, rank);
  if (part == nullptr) return nullptr;
  const auto found = std::find_if(part->exits().begin(), part->exits().end(),
                                  [rank](const auto& exit) { return exit.rank() == rank; });
  return found == part->exits().end() ? nullptr : &*found;
}

const v1::RankAtStore* NewestOf(const Evidence& evidence, uint32_t rank) {
  const auto found = evidence.samples.ranks().find(rank);
  if (found == evidence.samples.ranks().end() || found->second.newest.empty()) return nullptr;
  const v1::RankSample& sample = found->second.newest.back().second;
  return sample.has_store() ? &sample.store() : nullptr;
}

bool Contains(const std::vector<uint32_t>& ranks, uint32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

AtStore LookAtStore(const Evidence& evidence) {
  AtStore at;
  if (evidence.job.attempts().empty()) return at;
  at.attempt = &*evidence.job.attempts().rbegin();
  if (at.attempt->world_size() < 2 || evidence.samples.attempt() != at.attempt->number()) return at;
  for (const auto& [rank, samples] : evidence.samples.ranks()) {
    const v1::RankAtStore* store = NewestOf(evidence, rank);
    if (store == nullptr || PartOf(*at.attempt, rank) == nullptr) continue;
    ++at.known;
    if (store->ended()) at.ended.push_back(rank);
    if (!store->joined()) {
      at.missing.push_back(rank);
    } else if (ExitOf(*at.attempt, rank) != nullptr) {
      continue;
    } else if (!store->waits_for().empty() && store->waits_ms() >= evidence.floor_ms) {
      at.waiting.push_back(rank);
    } else {
      at.others.push_back(rank);
    }
  }
  // Also those that had exited before a node sampled them.
  for (const v1::NodePart& part : at.attempt->parts()) {
    for (const v1::RankExit& exit : part.exits()) {
      if (exit.stopped_by_us() || Contains(at.ended, exit.rank())) continue;
      at.gone.push_back(exit.rank());
      if (NewestOf(evidence, exit.rank()) == nullptr) ++at.known;
    }
  }
  return at;
}

// "rank 3 on node1, rank 4 on node1 and 12 more".
std::string Names(const v1::Attempt& attempt, const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kRanksNamed); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", RankOnNode(attempt, ranks[i]));
  }
  if (ranks.size() > kRanksNamed) {
    absl::StrAppend(&text, " and ", WithCommas(ranks.size() - kRanksNamed), " more");
  }
  return text;
}

std::string HowExited(const v1::RankExit& exit) {
  return exit.signal() > 0 ? absl::StrCat("was killed by signal ", exit.signal())
                           : absl::StrCat("has exited with ", exit.exit_code());
}

// "has exited with 0", or "have exited".
std::string HowAllExited(const AtStore& at) {
  return at.gone.size() == 1 ? HowExited(*ExitOf(*at.attempt, at.gone.front())) : "have exited";
}

std::string WhatFor(const v1::RankAtStore& store) {
  return absl::StrCat(store.at_barrier() ? "at the barrier '" : "for the key '", store.waits_for(),
                      "'");
}

std::string ShortSeconds(double milliseconds) { return ShortTime(milliseconds / 1e3); }

void Blame(const AtStore& at, const std::vector<uint32_t>& ranks, v1::Finding* finding) {
  for (const uint32_t rank : ranks) finding->add_ranks(rank);
  if (!ranks.empty()) finding->set_node(PartOf(*at.attempt, ranks.front())->node());
}

}  // namespace

// Some ranks have come to the store, and one has not for a floor.
// Silent: for one floor after the start; while no rank has come at all (ranks-never-met); about ranks that no node
// samples.
std::optional<v1::Finding> RankMissing(const Evidence& evidence, const v1::Ledger&) {
  const AtStore at = LookAtStore(evidence);
  if (evidence.Running() == nullptr || evidence.RanMs() < evidence.floor_ms) return std::nullopt;
  if (at.missing.empty() || at.missing.size() == at.known) return std::nullopt;
  const uint32_t first = at.missing.front();
  const v1::RankExit* exit = ExitOf(*at.attempt, first);
  std::string sentence = Names(*at.attempt, at.missing);
  if (exit != nullptr && at.missing.size() == 1) {
    absl::StrAppend(&sentence, " ", HowExited(*exit), " and never joined");
  } else {
    absl::StrAppend(&sentence, at.missing.size() == 1 ? " has" : " have", " not joined after ",
                    ShortSeconds(static_cast<double>(evidence.RanMs())));
  }
  const std::string& line = NewestOf(evidence, first)->last_line();
  const bool is_one = at.missing.size() == 1;
  const std::string who = is_one ? "it" : absl::StrCat("rank ", first);
  const std::string whose = is_one ? "its" : absl::StrCat(who, "'s");
  absl::StrAppend(
      &sentence, "; ",
      line.empty() ? who + " has printed nothing" : absl::StrCat(whose, " last line: ", line), "; ",
      WithCommas(at.known - at.missing.size()), " of ", WithCommas(at.known), " are there");
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_WARNING,
      {std::move(sentence),
       "it still imports or loads, fails to reach the line that forms the process group, or waits "
       "for something else",
       absl::StrCat("jobctl stack ", evidence.job.name(), " --rank ", first)});
  AddNumber(finding, "joined", static_cast<double>(at.known - at.missing.size()));
  AddNumber(finding, "ranks", static_cast<double>(at.known));
  Blame(at, at.missing, &finding);
  return finding;
}

// Ranks have waited at the store for a floor, and at least as many wait as could be what they wait for.
// Silent: while fewer ranks wait than do not, as it is not known then which of them are waited for.
std::optional<v1::Finding> RanksWait(const Evidence& evidence, const v1::Ledger&) {
  const AtStore at = LookAtStore(evidence);
  if (evidence.Running() == nullptr || at.waiting.empty() || !at.ended.empty() ||
      at.others.size() > at.waiting.size()) {
    return std::nullopt;
  }
  const v1::RankAtStore& store = *NewestOf(evidence, at.waiting.front());
  std::string sentence =
      absl::StrCat(WithCommas(at.waiting.size()), " of ", WithCommas(at.known),
                   at.waiting.size() == 1 ? " ranks has" : " ranks have", " waited ",
                   ShortSeconds(store.waits_ms()), " ", WhatFor(store));
  if (at.others.empty()) {
    absl::StrAppend(&sentence, ", and no rank is left that does not wait");
    if (!at.gone.empty()) {
      absl::StrAppend(&sentence, ": ", Names(*at.attempt, at.gone), " ", HowAllExited(at));
    }
  } else {
    absl::StrAppend(&sentence, "; ", Names(*at.attempt, at.others),
                    at.others.size() == 1 ? " has not come there" : " have not come there");
  }
  const uint32_t look_at = at.others.empty() ? at.waiting.front() : at.others.front();
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_WARNING,
      {std::move(sentence),
       at.others.empty() ? "ranks wait for different things, or for a key that is never set"
                         : "the others are still busy, or have taken another branch of the program",
       absl::StrCat("jobctl stack ", evidence.job.name(), " --rank ", look_at)});
  AddNumber(finding, "waiting", static_cast<double>(at.waiting.size()));
  AddNumber(finding, "waited", store.waits_ms() / 1e3, "s");
  Blame(at, at.others.empty() ? at.waiting : at.others, &finding);
  return finding;
}

// The store has ended waits: ranks had exited, and all others only waited.
std::optional<v1::Finding> WaitEnded(const Evidence& evidence, const v1::Ledger&) {
  const AtStore at = LookAtStore(evidence);
  if (at.ended.empty()) return std::nullopt;
  const v1::RankAtStore& store = *NewestOf(evidence, at.ended.front());
  std::string sentence = absl::StrCat(Names(*at.attempt, at.ended), " waited ", WhatFor(store));
  if (at.gone.empty()) {
    absl::StrAppend(&sentence, ", which no rank was left to set");
  } else {
    absl::StrAppend(&sentence, ", which only ", Names(*at.attempt, at.gone),
                    " could still have set: ", at.gone.size() == 1 ? "it " : "they ",
                    HowAllExited(at));
  }
  v1::Finding finding = MakeFinding(
      v1::FINDING_SEVERITY_ERROR,
      {absl::StrCat(sentence, "; the wait was ended"),
       "ranks do not all call the same collectives, or one returned early",
       "let every rank reach the same barriers and collectives, also one that has nothing to do"});
  Blame(at, at.ended, &finding);
  return finding;
}

}  // namespace muster::coordinator
