// jobctl coordinator ls.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "client/text/coordinator_words.h"
#include "client/text/record_text.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

// What a person must know before they read the list; empty: one leads.
std::string Trouble(const v1::ListCoordinatorsResponse& list, int64_t now_ms) {
  if (const std::string silence = SilenceOfEtcd(list, now_ms); !silence.empty()) {
    return StrCat(
        silence,
        list.seen_ms() == 0 ? "" : ": who leads now is not known, and the list is from then",
        "; fix: etcdctl endpoint status, and the log of that coordinator");
  }
  const bool one_leads = std::any_of(list.coordinators().begin(), list.coordinators().end(),
                                     [](const auto& each) { return each.leads(); });
  if (one_leads) return "";
  return StrCat(
      "none leads, as ", list.answered_by(),
      " knows: one takes over when the last leader's lease is over, in a few seconds; if none "
      "does, see their logs");
}

Listing ListingOf(const v1::ListCoordinatorsResponse& list) {
  Listing listing;
  listing.kind = "CoordinatorList";
  listing.columns = {{.key = "name"},
                     {.key = "role"},
                     {.key = "address"},
                     {.key = "http", .wide = true},
                     {.key = "version"},
                     {.key = "term", .right = true},
                     {.key = "lag", .right = true, .value_name = "lag_entries"},
                     {.key = "seen", .right = true, .value_name = "seen_ms", .since = true}};
  for (const v1::CoordinatorView& each : list.coordinators()) {
    const Cell term = each.term() == 0 ? Cell(Value(), "-") : Cell(int64_t{each.term()});
    listing.rows.push_back(
        {Cell(each.name()), Cell(each.leads() ? "leads" : "stands by"), Cell(each.endpoint()),
         Cell(each.http()), Cell(each.version()), term,
         Cell(Value(static_cast<int64_t>(each.lag())),
              each.leads() ? "-" : std::to_string(each.lag())),
         Cell(Value(int64_t{list.seen_ms()}), list.seen_ms() == 0 ? "-" : Age(list.seen_ms()))});
  }
  return listing;
}

absl::StatusOr<int> ListCoordinators(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.ConnectToAny());
  ASSIGN_OR_RETURN(const v1::ListCoordinatorsResponse list,
                   connection->ListCoordinators(v1::ListCoordinatorsRequest()));
  const std::string trouble = Trouble(list, common::SystemClock().Read().wall_ms);
  if (!trouble.empty()) session.Note(StrCat("! ", common::Printable(trouble)));
  RETURN_IF_ERROR(session.PrintListing(ListingOf(list), arguments));
  return kExitOk;
}

}  // namespace

const Command kCoordinatorLsCommand = {
    .name = "coordinator ls",
    .place = 385,
    .summary = "list coordinators that replace each other, and who leads",
    .listing = true,
    .examples =
        "jobctl coordinator ls\twho leads, and how far behind the others are\n"
        "jobctl -s h2:7700 coordinator ls\tas h2 knows it, also while none leads",
    .notes =
        "Asks the first coordinator that answers, also one that stands by. LAG: how many\n"
        "entries of the log it lacks, as of the last renewal of its lease (each renews\n"
        "five times in a lease). TERM: etcd's revision in which the leader's term began.\n"
        "SEEN: when etcd last told the coordinator that answers. A coordinator whose\n"
        "--state is not etcd is alone: it leads, and no other can take over.",
    .run = ListCoordinators};

}  // namespace muster::client
