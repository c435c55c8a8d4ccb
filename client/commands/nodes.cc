// jobctl nodes ls, show, drain, undrain, declare-dead, rm.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/bulk.h"
#include "client/session/job_parts.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/terminal/record_json.h"
#include "client/text/cells.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kReasonFlags[] = {
    {"reason", 0, "TEXT", "recorded with the node, shown by `nodes ls`"},
    kBulkOutputFlag,
};
constexpr Flag kDrainFlags[] = {
    {"reason", 0, "TEXT", "recorded with the node, shown by `nodes ls`"},
    {"evict", 0, "", "jobs that run there save and continue elsewhere"},
    {"notice", 0, "TIME", "with --evict: how long they have to save"},
    kBulkOutputFlag,
};
constexpr Flag kUndrainFlags[] = {kBulkOutputFlag};

constexpr Flag kNodesShowFlags[] = {kRecordOutputFlag};

std::string State(const v1::NodeView& view) {
  const v1::NodeRecord& node = view.record();
  return StrCat(NodeStateName(node.state()), node.draining() ? ",DRAINING" : "",
                view.clearing() ? ",CLEARING" : "");
}

std::string Reason(const v1::NodeView& view) {
  if (!view.clearing()) return view.record().reason();
  return StrCat("its worker is killing what an older worker left",
                view.record().reason().empty() ? "" : "; ", view.record().reason());
}

std::string Devices(const v1::NodeView& node) {
  std::string text;
  for (const v1::DeviceUse& use : node.uses()) {
    // A private worker's cpu slots have no limit.
    const bool unlimited =
        common::IsHostKind(use.kind()) && node.record().facts().oversubscribe_cpu();
    common::StrAppend(&text, text.empty() ? "" : ", ", use.used(),
                      unlimited ? "" : StrCat("/", use.total()), " ", use.kind());
  }
  return text;
}

absl::StatusOr<int> ListNodes(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::ListNodesResponse response, connection->ListNodes());
  Listing listing;
  listing.kind = "NodeList";
  listing.columns = {
      {.key = "node"},
      {.key = "state"},
      {.key = "used"},
      {.key = "jobs", .list = true},
      {.key = "address"},
      {.key = "contact", .right = true, .value_name = "last_contact_ms", .since = true},
      {.key = "memory", .wide = true, .right = true},
      {.key = "version", .wide = true},
      {.key = "reason", .shrink = true}};
  for (const v1::NodeView& node : response.nodes()) {
    const v1::NodeRecord& record = node.record();
    listing.rows.push_back({Cell(record.facts().name()), Cell(State(node)), Cell(Devices(node)),
                            Cell(absl::StrJoin(node.jobs(), ", ")),
                            Cell(record.facts().advertise()),
                            Cell(Value(int64_t{record.last_contact_ms()}),
                                 record.connected() ? "now" : Age(record.last_contact_ms())),
                            SizeCell(record.facts().memory_bytes()), Cell(record.facts().version()),
                            Cell(Reason(node))});
  }
  const bool none = listing.rows.empty();
  for (const std::string& text : {response.alarm(), response.disk_warning()}) {
    if (text.empty()) continue;
    session.Note(StrCat("! ", common::Printable(text)));
  }
  for (const v1::ErrorDetail& each : response.warnings())
    session.Note(StrCat("! ", common::Printable(Sentence(each))));
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  if (none && session.terminal().out_is_tty) {
    session.Note(
        "no nodes; add one: muster-worker --coordinator HOST:PORT --name NAME --devices cpu:2 "
        "--state-dir DIR");
  }
  return kExitOk;
}

// "cpus and memory, by cgroup v2", or what is missing.
std::string LimitsText(const v1::NodeFacts& facts) {
  if (!facts.has_limits()) return "none: the worker is of an older version";
  const v1::LimitFacts& limits = facts.limits();
  if (!limits.has_no_cpus() && !limits.has_no_memory())
    return StrCat("cpus and memory, by ", limits.how());
  std::string text;
  const auto add = [&](std::string_view what, const v1::LimitGap& gap) {
    common::StrAppend(&text, text.empty() ? "" : "; ", what, ": ", gap.why(), "; fix: ", gap.fix());
  };
  if (limits.has_no_memory()) add("not memory", limits.no_memory());
  if (limits.has_no_cpus() && limits.no_cpus().why() != limits.no_memory().why())
    add("not cpus", limits.no_cpus());
  return text;
}

// "the job's owner; sandbox: no_new_privs, capabilities, seccomp", and what is missing of it.
std::string IsolationText(const v1::NodeFacts& facts) {
  if (!facts.has_isolation()) return "none: the worker is of an older version";
  const v1::IsolationFacts& isolation = facts.isolation();
  const std::string whose = isolation.run_as() == "owner"    ? "the job's owner"
                            : isolation.run_as() == "worker" ? "the worker's account"
                                                             : isolation.run_as();
  std::string text = StrCat("as ", whose, isolation.allows_root() ? " (also root)" : "", "; ",
                            isolation.level() == "none" ? "no sandbox" : isolation.level());
  if (!isolation.means().empty())
    common::StrAppend(&text, ": ", absl::StrJoin(isolation.means(), ", "));
  for (const std::string& lack : isolation.lacks()) common::StrAppend(&text, "; not ", lack);
  return text;
}

// "runc 1.1.5; from registries by skopeo 1.9.3 and umoci 0.4.7", and what is missing.
std::string ContainersText(const v1::NodeFacts& facts) {
  if (!facts.has_containers()) return "none: the worker is of an older version";
  const v1::ContainerFacts& containers = facts.containers();
  std::string text = containers.runtime().empty() ? "none" : containers.runtime();
  if (!containers.fetcher().empty())
    common::StrAppend(&text, "; from registries by ", containers.fetcher());
  if (containers.rootless()) common::StrAppend(&text, "; all as one account");
  for (const std::string& lack : containers.lacks()) common::StrAppend(&text, "; not ", lack);
  return text;
}

absl::StatusOr<int> ShowNode(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::ListNodesResponse response, connection->ListNodes());
  const std::string& wanted = arguments.words()[0];
  for (const v1::NodeView& node : response.nodes()) {
    const v1::NodeRecord& record = node.record();
    const v1::NodeFacts& facts = record.facts();
    if (facts.name() != wanted) continue;
    if (arguments.Has("output")) {
      ASSIGN_OR_RETURN(const std::string text, MessageText("Node", node, arguments.Get("output")));
      session.Print(text);
      return kExitOk;
    }
    std::string text;
    const auto field = [&](std::string_view name, const std::string& value) {
      if (!value.empty()) {
        common::StrAppend(&text, name, std::string(14 - name.size(), ' '), common::Printable(value),
                          "\n");
      }
    };
    field("Node", facts.name());
    field("State", State(node));
    field("Reason", Reason(node));
    field("Address", facts.advertise());
    field("Host", facts.hostname());
    field("Contact",
          record.connected() ? "connected" : StrCat(Age(record.last_contact_ms()), " ago"));
    field("Registered", LocalTime(record.registered_ms()));
    field("Used", Devices(node));
    field("Cores", StrCat(facts.cores(), " physical"));
    field("Memory", common::HumanBytes(facts.memory_bytes()));
    field("Kills by", facts.kill_level());
    field("Limits", LimitsText(facts));
    field("Ranks run", IsolationText(facts));
    field("Images", ContainersText(facts));
    if (!facts.driver().empty()) {
      field("Driver",
            StrCat(facts.driver(), facts.driver_cuda().empty()
                                       ? ""
                                       : StrCat(", for CUDA up to ", facts.driver_cuda())));
    }
    field("Version", StrCat(facts.version(), ", protocol ", facts.protocol()));
    field("Jobs", absl::StrJoin(node.jobs(), ", "));
    for (const v1::Device& device : facts.devices()) {
      if (common::IsHostKind(device.kind())) continue;
      field("Device", StrCat(device.kind(), " ", device.index(), "  ", device.model(), "  ",
                             common::HumanBytes(device.memory_bytes()), "  ", device.uuid()));
    }
    session.Print(text);
    return kExitOk;
  }
  return NoSuchNode(wanted, response);
}

absl::StatusOr<int> SetDrain(Session& session, const Arguments& arguments, bool drain) {
  v1::BulkResponse all;
  absl::Status failed;
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  for (const std::string& node : arguments.words()) {
    v1::DrainNodeRequest request;
    request.set_node(node);
    request.set_drain(drain);
    request.set_reason(arguments.Get("reason"));
    request.set_evict(arguments.Has("evict"));
    if (arguments.Has("notice")) {
      ASSIGN_OR_RETURN(const int64_t notice_ms, arguments.DurationMs("notice", 0));
      request.set_notice_ms(static_cast<uint32_t>(std::min<int64_t>(notice_ms, UINT32_MAX)));
    }
    const absl::StatusOr<v1::BulkResponse> response = connection->DrainNode(request);
    failed = response.status();
    if (!failed.ok()) break;
    all.MergeFrom(*response);
  }
  ASSIGN_OR_RETURN(const int code, ReportBulk(session, arguments, all,
                                              drain ? "gets no new jobs" : "accepts jobs again"));
  RETURN_IF_ERROR(failed);
  return code;
}

absl::StatusOr<int> Drain(Session& session, const Arguments& arguments) {
  if (arguments.Has("notice") && !arguments.Has("evict"))
    return Usage("JC1004", "--notice is for jobs that leave the node", "add --evict");
  return SetDrain(session, arguments, true);
}
absl::StatusOr<int> Undrain(Session& session, const Arguments& arguments) {
  return SetDrain(session, arguments, false);
}

absl::StatusOr<int> DeclareDead(Session& session, const Arguments& arguments) {
  const std::string& node = arguments.words()[0];
  RETURN_IF_ERROR(session.Confirm(StrCat(
      "Is ", node, " really off? If its ranks are still running, their jobs will run twice.")));
  v1::DeclareNodeDeadRequest request;
  request.set_node(node);
  request.set_reason(arguments.Get("reason"));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::BulkResponse response, connection->DeclareNodeDead(request));
  return ReportBulk(session, arguments, response, "is declared dead");
}

absl::StatusOr<int> RemoveNode(Session& session, const Arguments& arguments) {
  v1::BulkResponse all;
  absl::Status failed;
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  for (const std::string& node : arguments.words()) {
    v1::RemoveNodeRequest request;
    request.set_node(node);
    request.set_reason(arguments.Get("reason"));
    const absl::StatusOr<v1::BulkResponse> response = connection->RemoveNode(request);
    failed = response.status();
    if (!failed.ok()) break;
    all.MergeFrom(*response);
  }
  ASSIGN_OR_RETURN(const int code, ReportBulk(session, arguments, all, "was removed"));
  RETURN_IF_ERROR(failed);
  return code;
}

}  // namespace

const Command kNodesLsCommand = {.name = "nodes ls",
                                 .place = 330,
                                 .summary = "list nodes",
                                 .listing = true,
                                 .examples = "jobctl nodes ls\tstate, devices, jobs",
                                 .run = ListNodes};
const Command kNodesShowCommand = {
    .name = "nodes show",
    .place = 340,
    .summary = "show everything about one node",
    .arguments = "NODE",
    .least = 1,
    .most = 1,
    .flags = kNodesShowFlags,
    .completes = "node",
    .examples = "jobctl nodes show node2\tdevices, version, how ranks are killed there",
    .run = ShowNode};
const Command kNodesDrainCommand = {
    .name = "nodes drain",
    .place = 350,
    .summary = "give nodes no new jobs; running ones continue",
    .arguments = "NODE…",
    .least = 1,
    .most = -1,
    .flags = kDrainFlags,
    .completes = "node",
    .examples =
        "jobctl nodes drain node2 --reason 'new disk'\tbefore maintenance\n"
        "jobctl nodes drain node2 --evict\tits jobs save, and continue on other nodes",
    .notes =
        "A job that leaves is asked for a checkpoint, and stopped as soon as that is\n"
        "committed, or its time to save is over. It is queued again before others of its\n"
        "priority in its project, and uses up no restart. jobctl nodes undrain takes it\n"
        "back for jobs that have not left yet.",
    .run = Drain};
const Command kNodesUndrainCommand = {.name = "nodes undrain",
                                      .place = 360,
                                      .summary = "let nodes accept jobs again",
                                      .arguments = "NODE…",
                                      .least = 1,
                                      .most = -1,
                                      .flags = kUndrainFlags,
                                      .completes = "node",
                                      .examples = "jobctl nodes undrain node2\tafter maintenance",
                                      .run = Undrain};
const Command kNodesDeclareDeadCommand = {
    .name = "nodes declare-dead",
    .place = 370,
    .summary = "declare a lost node off: its jobs restart elsewhere",
    .arguments = "NODE",
    .least = 1,
    .most = 1,
    .flags = kReasonFlags,
    .completes = "node",
    .examples = "jobctl nodes declare-dead node2\tafter checking that it is off",
    .run = DeclareDead};
const Command kNodesRmCommand = {.name = "nodes rm",
                                 .place = 380,
                                 .summary = "remove nodes that are gone for good",
                                 .arguments = "NODE…",
                                 .least = 1,
                                 .most = -1,
                                 .flags = kReasonFlags,
                                 .completes = "node",
                                 .examples = "jobctl nodes rm node4\tjobs no longer wait for it",
                                 .run = RemoveNode};

}  // namespace muster::client
