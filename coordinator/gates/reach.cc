#include "coordinator/gates/reach.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/gates/gates.h"
#include "coordinator/gates/job_gate.h"

namespace muster::coordinator {

using common::StrCat;

NodeIdentity NodeOf(const Caller& caller) {
  NodeIdentity identity{.is_certified = !caller.serial.empty()};
  absl::string_view name = caller.principal;
  if (caller.role != v1::ROLE_WORKER || !absl::ConsumePrefix(&name, "worker:")) return identity;
  identity.node = std::string(name);
  identity.is_certified = true;
  return identity;
}

std::string ProofOwner(const NodeIdentity& sender, uint64_t job, uint32_t attempt) {
  constexpr size_t kNodeDigits = 16;
  if (!sender.is_certified) return "";
  return StrCat("+", job, ".", attempt, "+", common::Sha256Hex(sender.node).substr(0, kNodeDigits));
}

std::string Describe(const NodeIdentity& sender) {
  if (sender.node.empty())
    return sender.is_certified ? "a caller whose certificate names no node" : "an unnamed worker";
  return StrCat("node ", common::Printable(sender.node));
}

void TellDenied(Traffic& traffic, const Denial& denial) {
  traffic.denied.Add(denial.what);
  traffic.refusals.Warn(denial.text);
}

absl::Status RefuseTransfer(Traffic& traffic, const NodeIdentity& sender, uint64_t job,
                            uint32_t attempt) {
  const absl::Status refused =
      common::MakeProblem(absl::StatusCode::kPermissionDenied,
                          {.code = "JC1341",
                           .what = StrCat("attempt ", attempt, " of job ", job, " has no part on ",
                                          Describe(sender), ", or does not use this file"),
                           .fix = "look for a foreign program that uses the node's certificate"});
  TellDenied(traffic, {Denied::kBlob, std::string(refused.message())});
  return refused;
}

void CheckTransfer(Jobs& jobs, Gates& gates, Traffic& traffic, Process& process,
                   const NodeIdentity& sender, uint64_t job, uint32_t attempt,
                   std::function<void(absl::Status)> answer) {
  if (job == 0 && !sender.is_certified) return answer(absl::OkStatus());
  gates.jobs.Check(
      jobs, process, sender, {.job = job, .attempt = attempt},
      [&traffic, sender, job, attempt, answer = std::move(answer)](JobGate::Verdict verdict) {
        if (verdict == JobGate::Verdict::kMay) return answer(absl::OkStatus());
        answer(RefuseTransfer(traffic, sender, job, attempt));
      });
}

}  // namespace muster::coordinator
