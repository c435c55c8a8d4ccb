#include "coordinator/contexts/lookup.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/state/holdings.h"
#include "coordinator/core/state/owner.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr char kLast[] = "@last";
constexpr uint32_t kNamedMax = 6;  // how many candidates an error names

// What the live jobs contribute to resolving a reference.
struct LiveFindings {
  std::shared_ptr<v1::JobRecord> exact;
  std::shared_ptr<v1::JobRecord> candidate;  // the only prefix match, or the caller's newest job
  std::vector<std::string> prefixed;
  std::set<uint64_t> labelled;  // at most two
  std::shared_ptr<v1::JobRecord> labelled_one;
};

absl::Status NoSuchJob(const std::string& reference) {
  if (reference == kLast) {
    return common::MakeProblem(
        absl::StatusCode::kNotFound,
        {.code = "JC1201", .what = "you have no jobs yet", .fix = "submit one with jobctl submit"});
  }
  return common::MakeProblem(
      absl::StatusCode::kNotFound,
      {.code = "JC1201",
       .what = StrCat("there is no job \"", common::Printable(reference.substr(0, 100)), "\""),
       .fix = "list all jobs with jobctl ls -a"});
}

v1::JobRecord IdentityOf(const v1::JobRecord& job) {
  v1::JobRecord identity;
  identity.set_id(job.id());
  identity.set_name(job.name());
  identity.set_owner(job.owner());
  identity.set_owner_id(job.owner_id());
  identity.set_idempotency_key(job.idempotency_key());
  identity.set_state(job.state());
  return identity;
}

LiveFindings FindAmongLive(const LoopView& view, const Caller& caller, const std::string& reference,
                           Want want) {
  LiveFindings found;
  const auto copy = [&](const v1::JobRecord& job) {
    return std::make_shared<v1::JobRecord>(want == Want::kIdentity ? IdentityOf(job)
                                           : want == Want::kRecordWithFiles
                                               ? WithFiles(view.state, job)
                                               : job);
  };
  const auto& jobs = view.state.jobs;
  if (reference == kLast) {
    const auto newest = jobs.find(NewestOf(view.state, caller));
    if (newest != jobs.end()) found.candidate = copy(newest->second);
    return found;
  }
  uint64_t id = 0;
  if (absl::SimpleAtoi(reference, &id)) {
    if (const auto job = jobs.find(id); job != jobs.end()) found.exact = copy(job->second);
    return found;
  }
  auto name = view.live_names.lower_bound(reference);
  if (name == view.live_names.end()) return found;
  if (name->first == reference) {
    if (const auto job = jobs.find(name->second); job != jobs.end())
      found.exact = copy(job->second);
    return found;
  }
  // "train" means train-7 if that is the only job with this label, even if other names start with it.
  for (auto each = view.live_names.lower_bound(reference + "-0");
       each != view.live_names.end() && each->first < reference + "-:" && found.labelled.size() < 2;
       ++each) {
    if (each->first != StrCat(reference, "-", each->second)) continue;
    found.labelled.insert(each->second);
    if (const auto job = jobs.find(each->second); job != jobs.end())
      found.labelled_one = copy(job->second);
  }
  uint64_t only = 0;
  for (; name != view.live_names.end() && absl::StartsWith(name->first, reference) &&
         found.prefixed.size() < kNamedMax;
       ++name) {
    found.prefixed.push_back(name->first);
    only = name->second;
  }
  if (found.prefixed.size() != 1) return found;
  if (const auto job = jobs.find(only); job != jobs.end()) found.candidate = copy(job->second);
  return found;
}

absl::StatusOr<FoundJob> FindFinished(JobIndex& index, uint64_t id, const std::string& reference,
                                      Want want) {
  ASSIGN_OR_RETURN(std::optional<v1::JobRecord> record,
                   want == Want::kIdentity ? index.FindIdentity(id) : index.Find(id));
  if (!record.has_value()) return NoSuchJob(reference);
  return FoundJob{std::make_shared<v1::JobRecord>(*std::move(record)), false};
}

absl::StatusOr<FoundJob> FindByPrefix(JobIndex& index, const std::string& reference,
                                      LiveFindings live, Want want) {
  if (reference.empty()) return NoSuchJob(reference);
  ASSIGN_OR_RETURN(const std::vector<JobIndex::NamedJob> finished,
                   index.FindPrefix(reference, kNamedMax));
  for (const JobIndex::NamedJob& job : finished) live.prefixed.push_back(job.name);
  std::sort(live.prefixed.begin(), live.prefixed.end());
  live.prefixed.erase(std::unique(live.prefixed.begin(), live.prefixed.end()), live.prefixed.end());
  if (live.prefixed.empty()) return NoSuchJob(reference);
  if (live.prefixed.size() > 1) {
    std::string names;
    for (const std::string& name : live.prefixed) {
      names += StrCat(names.empty() ? "" : ", ", name);
    }
    return common::MakeProblem(
        absl::StatusCode::kInvalidArgument,
        {.code = "JC1202",
         .what = StrCat("\"", common::Printable(reference), "\" matches several jobs: ", names),
         .fix = "type more of the name"});
  }
  if (live.candidate != nullptr) return FoundJob{live.candidate, true};
  return FindFinished(index, finished.front().id, reference, want);
}

// On a pool thread: the live jobs did not resolve it.
absl::StatusOr<FoundJob> FindInIndex(JobIndex& index, const Caller& caller,
                                     const std::string& reference, LiveFindings live, Want want) {
  if (reference == kLast) {
    ASSIGN_OR_RETURN(const uint64_t newest, index.Newest(OwnerKey(caller)));
    if (live.candidate != nullptr && live.candidate->id() >= newest) {
      return FoundJob{live.candidate, true};
    }
    if (newest == 0) return NoSuchJob(reference);
    return FindFinished(index, newest, reference, want);
  }
  uint64_t id = 0;
  if (absl::SimpleAtoi(reference, &id)) return FindFinished(index, id, reference, want);
  ASSIGN_OR_RETURN(const std::optional<uint64_t> named, index.FindNamed(reference));
  if (named.has_value()) return FindFinished(index, *named, reference, want);
  ASSIGN_OR_RETURN(const std::vector<uint64_t> labelled, index.FindLabeled(reference));
  live.labelled.insert(labelled.begin(), labelled.end());
  if (live.labelled.size() == 1) {
    if (live.labelled_one != nullptr) return FoundJob{live.labelled_one, true};
    return FindFinished(index, *live.labelled.begin(), reference, want);
  }
  return FindByPrefix(index, reference, std::move(live), want);
}

// Many references in one question to the loop, without repeats. Those that are not live are looked up on the pool, a
// few at a time, which limits the delay of other calls.
class BulkSearch : public std::enable_shared_from_this<BulkSearch> {
 public:
  using Found = std::vector<absl::StatusOr<FoundJob>>;

  BulkSearch(Jobs& jobs, Process& process, Caller caller,
             const std::vector<std::string>& references, std::function<void(Found)> answer)
      : jobs_(jobs), process_(process), caller_(std::move(caller)), answer_(std::move(answer)) {
    std::unordered_map<std::string, size_t> places;
    for (const std::string& reference : references) {
      const auto [place, fresh] = places.try_emplace(reference, names_.size());
      if (fresh) names_.push_back(reference);
      order_.push_back(place->second);
    }
  }

  void LookAmongLive(const LoopView& view) {
    for (const std::string& name : names_) {
      live_.push_back(FindAmongLive(view, caller_, name, Want::kIdentity));
    }
  }

  void GoOn() {
    while (found_.size() < live_.size() && live_[found_.size()].exact != nullptr) {
      found_.push_back(FoundJob{live_[found_.size()].exact, true});
    }
    if (found_.size() == live_.size()) return Finish();
    process_.pool.Post(
        [self = shared_from_this()] {
          for (size_t i = 0; i < kAtOnce && self->found_.size() < self->live_.size(); ++i) {
            self->LookInIndex();
          }
          self->GoOn();
        },
        caller_.principal);
  }

  void Refuse(const absl::Status& why) { answer_(Found(order_.size(), why)); }

 private:
  static constexpr size_t kAtOnce = 50;

  void LookInIndex() {
    const size_t i = found_.size();
    if (live_[i].exact != nullptr) return found_.push_back(FoundJob{live_[i].exact, true});
    absl::StatusOr<FoundJob> found =
        FindInIndex(jobs_.index, caller_, names_[i], std::move(live_[i]), Want::kIdentity);
    found_.push_back(std::move(found));
  }

  void Finish() {
    Found all;
    for (const size_t place : order_) all.push_back(found_[place]);
    answer_(std::move(all));
  }

  Jobs& jobs_;
  Process& process_;
  const Caller caller_;
  const std::function<void(Found)> answer_;
  std::vector<std::string> names_;  // without repeats
  std::vector<size_t> order_;       // for each reference, its index in names_
  // One step at a time, on the loop's thread or the pool's.
  std::vector<LiveFindings> live_;
  Found found_;
};

}  // namespace

void FindJob(Jobs& jobs, Process& process, const Caller& caller, const std::string& reference,
             Answer<FoundJob> answer, Want want) {
  jobs.loop.Ask(
      [&jobs, &process, caller, reference, want, answer](const LoopView& view) {
        LiveFindings live = FindAmongLive(view, caller, reference, want);
        return [&jobs, &process, caller, reference, want, answer, live = std::move(live)] {
          if (live.exact != nullptr) return answer(FoundJob{live.exact, true});
          process.pool.Post(
              [&jobs, caller, reference, answer, want, live] {
                answer(FindInIndex(jobs.index, caller, reference, live, want));
              },
              caller.principal);
        };
      },
      answer);
}

void FindJobs(Jobs& jobs, Process& process, const Caller& caller,
              const std::vector<std::string>& references,
              std::function<void(std::vector<absl::StatusOr<FoundJob>>)> answer) {
  if (references.empty()) return answer({});
  const auto search =
      std::make_shared<BulkSearch>(jobs, process, caller, references, std::move(answer));
  jobs.loop.Ask(
      [search](const LoopView& view) {
        search->LookAmongLive(view);
        return [search] { search->GoOn(); };
      },
      [search](const absl::Status& why) { search->Refuse(why); });
}

v1::BulkResult BulkResultOf(const std::string& subject, const absl::Status& status,
                            const v1::JobRecord* job) {
  v1::BulkResult result;
  result.set_subject(subject);
  SetStatus(status, &result);
  if (job != nullptr) {
    result.set_job(job->id());
    result.set_name(job->name());
  }
  return result;
}

}  // namespace muster::coordinator
