// jobctl plan: what would happen to a job if it were submitted now.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_join.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/submit/job_flags.h"
#include "client/submit/plan_estimate.h"
#include "client/submit/spec.h"
#include "client/terminal/listing.h"
#include "common/base/status.h"
#include "common/job/shape.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::JsonArray;
using common::JsonObject;
using common::JsonText;
using common::StrAppend;
using common::StrCat;

constexpr auto kPlanFlags = WithJobFlags<kForPlan>({
    {"memory-estimate", 0, "",
     "run the program here for its estimate of memory per rank (at most 60 s)"},
    {"output", 'o', "FORMAT", "json", "json"},
});

struct Memory {
  uint64_t bytes = 0;  // per rank; 0: not known
  MemoryVerdict verdict;
};

std::string RanksOf(const v1::NodePart& part) {
  const uint32_t last = part.first_rank() + part.local_world_size() - 1;
  return last == part.first_rank() ? StrCat(last) : StrCat(part.first_rank(), "-", last);
}

std::string AttemptLayout(const v1::Attempt& attempt) {
  std::string text = StrCat(
      "starts now: ",
      job::DescribeWorld(attempt.world_size(), static_cast<uint64_t>(attempt.parts_size())), "\n");
  size_t ranks = 0, nodes = 0;
  for (const v1::NodePart& part : attempt.parts()) {
    ranks = std::max(ranks, RanksOf(part).size());
    nodes = std::max(nodes, DisplayWidth(part.node()));
  }
  for (const v1::NodePart& part : attempt.parts()) {
    const std::string of = RanksOf(part);
    StrAppend(&text, "  rank ", of, std::string(ranks - of.size() + 2, ' '), part.node(),
              std::string(nodes - DisplayWidth(part.node()) + 2, ' '), part.device_kind(), " ",
              absl::StrJoin(part.device_indexes(), ","), "\n");
  }
  return text;
}

std::string StartText(const v1::StartTimes& starts) {
  const std::string from = common::RoughDuration(starts.from_ms());
  if (!starts.has_until_ms()) return StrCat("would start in ", from, " at the earliest");
  const std::string until = common::RoughDuration(starts.until_ms());
  return StrCat("would start in ", from, from == until ? "" : StrCat(" to ", until));
}

std::string ForPeople(const v1::PlanJobResponse& plan) {
  if (plan.outcome() == v1::PLAN_OUTCOME_NOW) return AttemptLayout(plan.attempt());
  std::string text = StrCat(plan.outcome() == v1::PLAN_OUTCOME_LATER ? "would wait: " : "never: ",
                            common::Printable(plan.reason()), "\n");
  if (plan.has_starts()) StrAppend(&text, "  ", StartText(plan.starts()), "\n");
  for (const std::string& detail : plan.details())
    StrAppend(&text, "  ", common::Printable(detail), "\n");
  if (!plan.smaller().empty()) StrAppend(&text, "would start now with ", plan.smaller(), "\n");
  return text;
}

// What the trainer itself says, and whether the devices have it. `plan` may have no place for it.
absl::StatusOr<Memory> Estimate(Connection& connection, const v1::JobSpec& spec,
                                const v1::PlanJobResponse& plan) {
  Memory memory;
  const uint32_t ranks = plan.attempt().world_size() > 0
                             ? plan.attempt().world_size()
                             : std::max(spec.shape().processes(), spec.shape().per_node());
  const absl::StatusOr<uint64_t> bytes = AskTrainer(spec, std::max(ranks, 1u));
  if (!bytes.ok()) {
    memory.verdict.text =
        StrCat("memory: not known: ", common::FromAbsl(bytes.status().message()),
               "\n    fix: print {\"muster_estimate\": 1, \"bytes_per_rank\": N} and exit when "
               "MUSTER_ESTIMATE=1 (the SDK: muster::offer_estimate)");
    return memory;
  }
  memory.bytes = *bytes;
  ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection.ListNodes());
  memory.verdict = JudgeMemory(*bytes, plan.attempt(), nodes);
  return memory;
}

JsonText PartJson(const v1::NodePart& part) {
  JsonArray devices;
  for (const uint32_t index : part.device_indexes()) devices.Add(index);
  return JsonObject()
      .Add("node", part.node())
      .Add("first_rank", part.first_rank())
      .Add("ranks", part.local_world_size())
      .Add("device_kind", part.device_kind())
      .Add("devices", devices.Done())
      .Done();
}

std::string PlanJson(const v1::PlanJobResponse& plan, const Memory& memory) {
  constexpr std::string_view kOutcomes[] = {"unknown", "now", "later", "never"};
  const auto outcome = static_cast<size_t>(plan.outcome());
  JsonArray details, parts;
  for (const std::string& detail : plan.details()) details.Add(detail);
  for (const v1::NodePart& part : plan.attempt().parts()) parts.Add(PartJson(part));
  JsonObject json = JsonObject::OfKind("Plan");
  json.Add("outcome", kOutcomes[outcome < std::size(kOutcomes) ? outcome : 0])
      .Add("reason", plan.reason())
      .Add("details", details.Done())
      .Add("smaller", plan.smaller())
      .Add("starts_in_ms",
           plan.has_starts() ? JsonText(StrCat(plan.starts().from_ms())) : JsonText("null"))
      .Add("world_size", plan.attempt().world_size())
      .Add("nodes", parts.Done());
  if (memory.bytes != 0)
    json.Add("bytes_per_rank", memory.bytes).Add("memory_fits", memory.verdict.fits);
  return json.Line();
}

absl::StatusOr<int> Plan(Session& session, const Arguments& arguments) {
  if (arguments.words().empty() && !arguments.has_rest() && !arguments.Has("set")) {
    return Usage("JC1004", "nothing to plan",
                 "jobctl plan train.yaml, or jobctl plan -n 2 -- python train.py");
  }
  v1::PlanJobRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), BuildSpec(session, arguments));
  const v1::JobSpec spec = request.spec();
  request.mutable_spec()->clear_env();
  RETURN_IF_ERROR(AwaitNodesFor(session, request.spec()));
  RETURN_IF_ERROR(AwaitNodes(session));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::PlanJobResponse plan, connection->PlanJob(request));
  Memory memory;
  if (arguments.Has("memory-estimate")) {
    ASSIGN_OR_RETURN(memory, Estimate(*connection, spec, plan));
  }
  session.Print(arguments.Has("output") ? PlanJson(plan, memory) : ForPeople(plan));
  if (!arguments.Has("output") && !memory.verdict.text.empty())
    session.Print(common::Printable(memory.verdict.text, /*keep_layout=*/true) + "\n");
  if (!memory.verdict.fits) return kExitNeverFits;
  switch (plan.outcome()) {
    case v1::PLAN_OUTCOME_NOW:
      return kExitOk;
    case v1::PLAN_OUTCOME_NEVER:
      return kExitNeverFits;
    default:
      return kExitStartsLater;
  }
}

}  // namespace

const Command kPlanCommand = {
    .name = "plan",
    .place = 30,
    .summary = "whether a job would start now, later or never, and where",
    .arguments = "FILE | SCRIPT [ARG…] | -- CMD…",
    .least = 0,
    .most = -1,
    .flags = kPlanFlags,
    .rest = true,
    .completes = "file",
    .examples =
        "jobctl plan train.yaml\twhich ranks would get which nodes and devices\n"
        "jobctl plan -n 8 --devices gpu -- ./train\twhat it would wait for, and what would "
        "start now",
    .notes =
        "Nothing is submitted. Returns 0 if the job would start now, 10 if it would wait,\n"
        "11 if the registered nodes could never hold it, or if --memory-estimate finds\n"
        "that a rank needs more memory than it would get.",
    .run = Plan};

}  // namespace muster::client
