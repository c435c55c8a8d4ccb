#include "client/doctor/coordinators.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "client/text/coordinator_words.h"
#include "common/text/strings.h"

namespace muster::client::doctor {
namespace {

using common::StrCat;

// More than a busy cluster writes between two renewals of a lease.
constexpr uint64_t kLagMost = 5'000;

const v1::CoordinatorView* LeaderOf(const v1::ListCoordinatorsResponse& list) {
  for (const v1::CoordinatorView& each : list.coordinators()) {
    if (each.leads()) return &each;
  }
  return nullptr;
}

std::string Names(const v1::ListCoordinatorsResponse& list) {
  return absl::StrJoin(list.coordinators(), ", ",
                       [](std::string* text, const auto& each) { text->append(each.name()); });
}

std::string Behind(uint64_t entries) {
  return StrCat(entries, entries == 1 ? " entry" : " entries", " of the log behind");
}

// About all of them.
void JudgeAll(const v1::ListCoordinatorsResponse& list, int64_t now_ms,
              std::vector<NodeVerdict>* verdicts) {
  const std::string all = "coordinators";
  if (std::string silence = SilenceOfEtcd(list, now_ms); !silence.empty()) {
    verdicts->push_back({all,
                         {Grade::kBroken, std::move(silence),
                          "etcdctl endpoint status; check that etcd can be reached from there"}});
  }
  if (LeaderOf(list) == nullptr) {
    verdicts->push_back(
        {all,
         {Grade::kBroken,
          StrCat("none leads: ",
                 list.coordinators().empty()
                     ? std::string("none is registered")
                     : StrCat(Names(list),
                              list.coordinators_size() == 1 ? " stands by" : " stand by")),
          "jobctl coordinator ls in a few seconds; if none leads then, see the logs of "
          "muster-coordinator"}});
  } else if (list.coordinators_size() == 1) {
    verdicts->push_back(
        {all,
         {Grade::kWarning,
          StrCat("only ", list.coordinators(0).name(), " is registered: no other can take over"),
          "start muster-coordinator on another machine, with the same --state and its own "
          "--head"}});
  }
}

std::vector<Verdict> Judge(const v1::CoordinatorView& head, const v1::CoordinatorView* leader,
                           const std::map<std::string, std::string>& silent) {
  std::vector<Verdict> wrong;
  if (const auto found = silent.find(head.name()); found != silent.end()) {
    wrong.push_back(
        {head.leads() ? Grade::kBroken : Grade::kWarning,
         StrCat("does not answer at ", head.endpoint(),
                found->second.empty() ? "" : StrCat(": ", found->second)),
         "open that port to this machine, or start it with --advertise HOST:PORT that is reachable "
         "from here"});
  }
  if (leader != nullptr && head.version() != leader->version()) {
    wrong.push_back({Grade::kWarning,
                     StrCat("version ", head.version(), "; ", leader->name(), ", which leads, has ",
                            leader->version()),
                     "install the same version on all, first where one stands by"});
  }
  if (head.lag() > kLagMost) {
    wrong.push_back({Grade::kWarning, StrCat(Behind(head.lag()), ": a takeover by it takes longer"),
                     StrCat("see the log of ", head.name(),
                            ", and the disk and the network between it and etcd")});
  }
  return wrong;
}

std::string CoordinatorSummary(const v1::CoordinatorView& head) {
  return StrCat(head.leads() ? std::string("leads") : StrCat("stands by, ", Behind(head.lag())),
                ", ", head.version(), ", ", head.endpoint());
}

}  // namespace

std::vector<NodeVerdict> JudgeCoordinators(const v1::ListCoordinatorsResponse& list,
                                           const std::map<std::string, std::string>& silent,
                                           int64_t now_ms) {
  std::vector<NodeVerdict> verdicts;
  if (list.alone()) return verdicts;
  JudgeAll(list, now_ms, &verdicts);
  for (const v1::CoordinatorView& head : list.coordinators()) {
    std::vector<Verdict> wrong = Judge(head, LeaderOf(list), silent);
    if (wrong.empty()) wrong.push_back({Grade::kGood, CoordinatorSummary(head)});
    for (Verdict& verdict : wrong)
      verdicts.push_back({StrCat("coordinator ", head.name()), std::move(verdict)});
  }
  return verdicts;
}

}  // namespace muster::client::doctor
