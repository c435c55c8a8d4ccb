// jobctl audit: who did what, and whether the record of it is whole.
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "common/audit_chain.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr int64_t kLastDefault = 100;
constexpr int64_t kLastMost = 1'000'000'000;

constexpr Flag kAuditFlags[] = {
    {"last", 'n', "N", "the newest N entries (100)"},
    {"user", 0, "USER", "only what this user did: alice, uid:1000, worker:node1"},
    {"verify", 0, "", "read all entries and check that none was changed, removed or cut off"},
    {"head", 0, "NUMBER:HASH", "with --verify: this entry must be there (repeatable)"},
};

absl::StatusOr<std::vector<v1::AuditHead>> KeptHeads(const Arguments& arguments) {
  std::vector<v1::AuditHead> heads;
  for (const std::string& text : arguments.All("head")) {
    const auto head = common::ParseHead(text);
    if (!head.has_value()) {
      return Usage(
          "JC1004", StrCat("\"", common::Printable(text), "\" is not an audit's head"),
          "give NUMBER:HASH, as the coordinator's log and muster-worker audit-heads have it");
    }
    heads.push_back(*head);
  }
  return heads;
}

absl::StatusOr<int> VerifyChainOf(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<v1::AuditHead> heads, KeptHeads(arguments));
  const size_t kept = heads.size();
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  common::AuditChain chain(std::move(heads));
  RETURN_IF_ERROR(connection->ReadAudit(v1::ReadAuditRequest(), [&](const v1::AuditEntries& part) {
    for (const v1::AuditEntry& entry : part.entries()) chain.Add(entry);
    return true;
  }));
  chain.Finish();
  for (const std::string& finding : chain.findings()) session.Print(StrCat("✗ ", finding, "\n"));
  if (!chain.findings().empty()) {
    return common::MakeProblem(
        absl::StatusCode::kDataLoss,
        {.code = "JC1337",
         .what = StrCat("the audit does not verify: ",
                        common::Counted(chain.findings().size(), "finding"))});
  }
  if (chain.head().number() == 0) {
    session.Print("✓ the audit is empty\n");
    return kExitOk;
  }
  session.Print(StrCat(
      "✓ entries ", chain.first(), " to ", chain.head().number(), " form one chain",
      kept == 0 ? "" : StrCat(", with ", common::Counted(kept, "head"), " that was kept"), "\n"));
  session.Print(StrCat("head ", common::HeadText(chain.head()), "\n"));
  if (chain.before().number() > 0) {
    session.Print(StrCat("entries 1 to ", chain.before().number(),
                         " are not there: their files were moved away, or removed; what was "
                         "moved ends with\nhead ",
                         common::HeadText(chain.before()), "\n"));
  }
  if (kept == 0) {
    session.Note("whether its end was cut off shows only against a --head that was kept elsewhere");
  }
  return kExitOk;
}

bool IsOf(const v1::AuditEntry& entry, const std::string& user) {
  return user.empty() || entry.who() == user || entry.who() == StrCat("user:", user);
}

std::vector<Cell> RowOf(const v1::AuditEntry& entry) {
  return {Cell(static_cast<int64_t>(entry.number())),
          TimeCell(entry.at_ms()),
          Cell(entry.who()),
          Cell(entry.what()),
          Cell(entry.object()),
          Cell(entry.result()),
          Cell(entry.role()),
          Cell(entry.from()),
          Cell(entry.way())};
}

absl::StatusOr<int> ShowAudit(Session& session, const Arguments& arguments) {
  if (arguments.Has("verify")) return VerifyChainOf(session, arguments);
  if (arguments.Has("head")) {
    return Usage("JC1004", "--head is for --verify", "jobctl audit --verify --head NUMBER:HASH");
  }
  ASSIGN_OR_RETURN(const int64_t last, arguments.Number("last", 1, kLastMost, kLastDefault));
  const std::string user = arguments.Get("user");
  v1::ReadAuditRequest request;
  // The newest entries of one user are only known once all have been read.
  if (user.empty()) request.set_newest(static_cast<uint64_t>(last));
  Listing listing;
  listing.kind = "AuditList";
  listing.columns = {{.key = "number", .right = true},
                     {.key = "time", .value_name = "at_ms"},
                     {.key = "who"},
                     {.key = "what"},
                     {.key = "object", .names = true},
                     {.key = "result", .shrink = true},
                     {.key = "role", .wide = true},
                     {.key = "from", .wide = true},
                     {.key = "way", .wide = true}};
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  RETURN_IF_ERROR(connection->ReadAudit(request, [&](const v1::AuditEntries& part) {
    for (const v1::AuditEntry& entry : part.entries()) {
      if (!IsOf(entry, user)) continue;
      listing.rows.push_back(RowOf(entry));
      // Twice as many as wanted at most, so that dropping the older ones costs little.
      if (listing.rows.size() < 2 * static_cast<size_t>(last) + kLastDefault) continue;
      listing.rows.erase(listing.rows.begin(), listing.rows.end() - last);
    }
    return true;
  }));
  if (listing.rows.size() > static_cast<size_t>(last)) {
    listing.rows.erase(listing.rows.begin(), listing.rows.end() - last);
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

}  // namespace

const Command kAuditCommand = {
    .name = "audit",
    .place = 600,
    .summary = "show who did what, and verify the record of it",
    .flags = kAuditFlags,
    .listing = true,
    .examples =
        "jobctl audit --last 20 --user alice\twhat alice changed, or was refused\n"
        "jobctl audit --verify --head 1200:5f3e…\tnothing changed since that head was kept",
    .notes =
        "Every change and every refusal is an entry; reads are not. Entries form a hash\n"
        "chain. Its newest hash is in the coordinator's log every 1,000 entries, and at\n"
        "every worker (`muster-worker audit-heads`): give one to --verify to see that the\n"
        "end was not cut off and nothing was rewritten.",
    .run = ShowAudit};

}  // namespace muster::client
