#include "client/connection/head_search.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_join.h"
#include "client/command_line/errors.h"
#include "client/connection/addresses.h"
#include "common/base/limits.h"
#include "common/base/version.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// An address that does not refuse at once gets this long before the next one is asked, too.
constexpr milliseconds kNextAfter{250};
// Between two questions to one address: with jitter, as many clients look for the next leader at once.
constexpr int kPauseLeastMs = 150;
constexpr int kPauseMostMs = 250;
// The one that leads cannot record anything. No other one will take over for that.
constexpr std::string_view kNoRoom = "JC1605";

absl::Status TooOld(const std::string& endpoint, const v1::GetServerResponse& server) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1302",
       .what = StrCat("the coordinator at ", endpoint, " (", server.version(), ") speaks protocol ",
                      server.protocol(), ", jobctl ", common::kVersion, " needs ",
                      common::kProtocolMin, " or newer"),
       .fix = "install the same release on both sides"});
}

// What an address that does not lead answered.
std::string Failure(const std::string& address, const absl::Status& failed) {
  if (common::CodeOf(failed) != "JC1301") return Sentence(failed);
  const std::string why = common::ProblemOf(failed).why;
  return StrCat(address, " does not answer", why.empty() ? "" : StrCat(" (", why, ")"));
}

}  // namespace

HeadSearch::HeadSearch(const std::vector<std::string>& addresses, const Terms& terms)
    : terms_(terms) {
  for (const std::string& address : addresses) Add(address);
}

HeadSearch::~HeadSearch() { Stop(); }

void HeadSearch::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
    for (const auto& candidate : candidates_) {
      if (candidate->asking != nullptr) candidate->asking->TryCancel();
    }
  }
  changed_.notify_all();
  // No candidate is added any more: only a thread that asks adds some, and none does once it is over.
  for (const auto& candidate : candidates_) {
    if (candidate->thread.joinable()) candidate->thread.join();
  }
}

void HeadSearch::Cancel() {
  std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  changed_.notify_all();
}

void HeadSearch::Add(const std::string& address) {
  const bool is_known = std::any_of(candidates_.begin(), candidates_.end(),
                                    [&](const auto& each) { return each->address == address; });
  if (is_known || candidates_.size() >= kAddressesMax) return;
  candidates_.push_back(std::make_unique<Candidate>());
  candidates_.back()->address = address;
}

void HeadSearch::Start(Candidate& candidate) {
  candidate.thread = std::thread([this, &candidate] { Ask(candidate); });
}

void HeadSearch::StartNext() {
  const auto has_answered = [](const auto& each) { return each->HasAnswered(); };
  const auto now = steady_clock::now();
  const auto asked_end = candidates_.begin() + static_cast<ptrdiff_t>(started_);
  if (started_ == candidates_.size()) return;
  if (now < last_start_ + kNextAfter && !std::all_of(candidates_.begin(), asked_end, has_answered))
    return;
  last_start_ = now;
  Start(*candidates_[started_++]);
}

void HeadSearch::Ask(Candidate& candidate) {
  std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<int> pause_ms(kPauseLeastMs, kPauseMostMs);
  std::shared_ptr<Line> line;
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    grpc::ClientContext context;
    candidate.asking = &context;
    lock.unlock();
    // A new channel after a failure: the old one would wait longer and longer before it dials again.
    if (line == nullptr) line = Dial(candidate.address, terms_.credentials);
    absl::StatusOr<v1::GetServerResponse> answer = AskWho(*line, terms_.timeout_ms, &context);
    const bool has_answered = answer.ok();
    lock.lock();
    candidate.asking = nullptr;
    if (!is_over_) Heard(candidate, line, std::move(answer));
    changed_.notify_all();
    if (!has_answered) line.reset();
    changed_.wait_for(lock, milliseconds(pause_ms(random)), [this] { return is_over_; });
  }
}

void HeadSearch::Heard(Candidate& candidate, const std::shared_ptr<Line>& line,
                       absl::StatusOr<v1::GetServerResponse> answer) {
  candidate.stands_by = answer.ok() && answer->stands_by();
  candidate.failed.reset();
  candidate.named.clear();
  if (!answer.ok()) {
    candidate.failed = answer.status();
    if (common::CodeOf(answer.status()) == kNoRoom) {
      is_over_ = true;
      refused_ = answer.status();
    }
    return;
  }
  if (!candidate.stands_by || terms_.any) {
    is_over_ = true;
    if (answer->protocol() < common::kProtocolMin) {
      refused_ = TooOld(candidate.address, *answer);
      return;
    }
    line->server = *std::move(answer);
    leading_ = line;
    return;
  }
  candidate.named = answer->leader();
  // Who asks at a socket is known by an account of this machine, and sends all of the environment. A
  // coordinator elsewhere is another matter, for the user to decide.
  if (candidate.address.starts_with("unix:")) return;
  for (const std::string& each : HostsAndPorts({answer->leader()})) Add(each);
  for (const std::string& each : HostsAndPorts({answer->heads().begin(), answer->heads().end()})) {
    Add(each);
  }
}

bool HeadSearch::IsHopeless() const {
  const auto stands_by = [](const auto& each) { return each->stands_by; };
  const auto has_answered = [](const auto& each) { return each->HasAnswered(); };
  if (!std::all_of(candidates_.begin(), candidates_.end(), has_answered)) return false;
  if (candidates_.size() == 1) return true;
  return std::none_of(candidates_.begin(), candidates_.end(), stands_by);
}

absl::StatusOr<std::shared_ptr<const Line>> HeadSearch::Find() {
  const auto until = steady_clock::now() + milliseconds(terms_.patience_ms);
  std::unique_lock lock(mutex_);
  while (true) {
    if (is_cancelled_) return absl::CancelledError("the connection was closed");
    if (refused_.has_value()) return *refused_;
    if (leading_ != nullptr) return leading_;
    StartNext();
    if (IsHopeless()) return NoneLeads();
    const bool is_waiting = std::any_of(candidates_.begin(), candidates_.end(),
                                        [](const auto& each) { return each->stands_by; });
    if (is_waiting && steady_clock::now() >= until) return NoneLeads();
    auto wake = steady_clock::now() + milliseconds(terms_.timeout_ms);
    if (is_waiting) wake = std::min(wake, until);
    if (started_ < candidates_.size()) wake = std::min(wake, last_start_ + kNextAfter);
    changed_.wait_until(lock, wake);
  }
}

absl::Status HeadSearch::OneStandsBy(const Candidate& candidate) const {
  const std::string named = common::Printable(candidate.named);
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1630",
       .what = StrCat("the coordinator at ", candidate.address, " stands by"),
       .why = named.empty() ? "none leads at the moment" : StrCat(named, " leads"),
       .fix = named.empty() ? "try again in a few seconds" : StrCat("jobctl -s ", named)});
}

absl::Status HeadSearch::NoneLeads() const {
  if (candidates_.size() == 1) {
    const Candidate& only = *candidates_.front();
    return only.failed.has_value() ? *only.failed : OneStandsBy(only);
  }
  std::vector<std::string> addresses, answers;
  const absl::Status* refusal = nullptr;  // one that waiting does not change
  bool stands_by = false;
  for (const auto& each : candidates_) {
    addresses.push_back(each->address);
    if (each->stands_by) {
      stands_by = true;
      answers.push_back(StrCat(each->address, " stands by",
                               each->named.empty() ? "" : StrCat(" and names ", each->named)));
    } else if (each->failed.has_value()) {
      answers.push_back(Failure(each->address, *each->failed));
      if (refusal == nullptr && !absl::IsUnavailable(*each->failed)) refusal = &*each->failed;
    } else {
      answers.push_back(StrCat(each->address, " has not answered"));
    }
  }
  common::Problem problem{
      .code = stands_by ? "JC1630" : "JC1301",
      .what = StrCat("none of the coordinators at ", absl::StrJoin(addresses, ", "),
                     stands_by ? " leads" : " answers"),
      .why = absl::StrJoin(answers, "; "),
      .fix = stands_by ? "check that muster-coordinator runs on each host, and "
                         "that they reach etcd: jobctl coordinator ls"
                       : "check that muster-coordinator runs there and that "
                         "the ports are open; jobctl context show"};
  if (refusal == nullptr || stands_by) {
    return common::MakeProblem(absl::StatusCode::kUnavailable, std::move(problem));
  }
  problem.what =
      StrCat("none of the coordinators at ", absl::StrJoin(addresses, ", "), " can be used");
  problem.code = common::CodeOf(*refusal);
  problem.fix = common::ProblemOf(*refusal).fix;
  return common::MakeProblem(refusal->code(), std::move(problem));
}

}  // namespace muster::client
