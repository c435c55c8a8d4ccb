// jobctl events.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/follow/follow.h"
#include "client/session/job_parts.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr int64_t kReadByDefault = 10'000;
constexpr uint32_t kResumedMost =
    1'000'000;  // events that a watch missed while it was disconnected

constexpr Flag kEventsFlags[] = {
    {"watch", 'w', "", "keep printing new events"},
    {"node", 0, "NODE", "only events of this node", {}, "node"},
    {"after", 0, "SEQ", "only events after this number"},
};

Listing EventListing(bool of_one_job) {
  Listing listing;
  listing.kind = "EventList";
  listing.columns = {{.key = "seq", .wide = true, .right = true},
                     {.key = "time", .value_name = "time_ms"},
                     {.key = "job", .wide = of_one_job, .right = true},
                     {.key = "node", .wide = true},
                     {.key = "event", .wrap = true}};
  return listing;
}

// Only the time for today, otherwise date and time.
std::string ShortTime(int64_t unix_ms) {
  const std::string text = LocalTime(unix_ms);
  return text.substr(0, 10) == LocalTime(WallMs()).substr(0, 10) ? ClockTime(unix_ms) : text;
}

void AddRows(const v1::EventBatch& batch, Listing* listing) {
  for (int i = 0; i < batch.events_size(); ++i) {
    const v1::Event& event = batch.events(i);
    Cell job;
    if (event.job() > 0) job = Cell(static_cast<int64_t>(event.job()));
    listing->rows.push_back({Cell(static_cast<int64_t>(event.seq())),
                             Cell(Value(event.at_ms()), ShortTime(event.at_ms())), job,
                             Cell(event.node()),
                             Cell(i < batch.texts_size() ? batch.texts(i) : std::string())});
  }
}

// No events for a node may also mean that there is no node of that name.
absl::Status CheckRegistered(Connection& connection, const std::string& node) {
  ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection.ListNodes());
  return IsRegistered(node, nodes) ? absl::OkStatus() : NoSuchNode(node, nodes);
}

// Prints new events until the user ends it. A coordinator that restarts, or that another one replaces,
// is waited for; then it continues after the last event that was printed.
absl::StatusOr<int> WatchEvents(Session& session, Connection* connection,
                                v1::ListEventsRequest request, ListingOptions options) {
  request.set_follow(true);
  if (options.output == "json" || options.output == "yaml") options.output = "jsonl";
  options.limit = 0;
  Listing listing = EventListing(!request.job().empty());
  absl::Status failed;
  const auto print = [&](const v1::EventBatch& batch) {
    listing.rows.clear();
    AddRows(batch, &listing);
    const absl::StatusOr<std::string> text = RenderListing(listing, options, session.terminal());
    failed = text.status();
    if (!text.ok()) return false;
    session.Print(*text);
    fflush(stdout);
    options.headers = false;
    if (batch.events().empty()) return true;
    const v1::Event& last = *batch.events().rbegin();
    request.set_after_seq(last.seq());
    request.set_limit(kResumedMost);
    // @last may be a different job when it is asked for again.
    if (!request.job().empty()) request.set_job(std::to_string(last.job()));
    return true;
  };
  absl::Status ended = connection->ListEvents(request, print);
  while (absl::IsUnavailable(ended)) {
    ASSIGN_OR_RETURN(connection, Reconnect(session, ended));
    ended = connection->ListEvents(request, print);
  }
  RETURN_IF_ERROR(failed);
  RETURN_IF_ERROR(ended);
  return kExitOk;
}

absl::StatusOr<int> Events(Session& session, const Arguments& arguments) {
  v1::ListEventsRequest request;
  if (!arguments.words().empty()) request.set_job(arguments.words()[0]);
  request.set_node(arguments.Get("node"));
  ASSIGN_OR_RETURN(const int64_t after, arguments.Number("after", 0, INT64_MAX, 0));
  request.set_after_seq(static_cast<uint64_t>(after));
  ASSIGN_OR_RETURN(const int64_t limit, arguments.Number("limit", 0, 1'000'000, 0));
  // A filter or sort order selects among the newest events; the limit applies to the result.
  const bool chosen = arguments.Has("filter") || arguments.Has("sort");
  const int64_t read = std::max(limit == 0 || chosen ? kReadByDefault : 1, limit);
  request.set_limit(static_cast<uint32_t>(read));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Listing listing = EventListing(!request.job().empty());
  if (!arguments.Has("watch")) {
    RETURN_IF_ERROR(connection->ListEvents(request, [&](const v1::EventBatch& batch) {
      AddRows(batch, &listing);
      return true;
    }));
    const int64_t count = static_cast<int64_t>(listing.rows.size());
    if (count == 0 && !request.node().empty())
      RETURN_IF_ERROR(CheckRegistered(*connection, request.node()));
    ASSIGN_OR_RETURN(ListingOptions options, session.OptionsOfListing(arguments));
    // Oldest first; the newest ones are wanted.
    options.keep_last = options.sort.empty();
    ASSIGN_OR_RETURN(const std::string text,
                     RenderListing(std::move(listing), options, session.terminal()));
    session.Print(text);
    if (count == read && count > limit) {
      session.Note(StrCat("only the newest ", count, " events were read; --limit N reads more"));
    }
    return kExitOk;
  }
  ASSIGN_OR_RETURN(const ListingOptions options, session.OptionsOfListing(arguments));
  return WatchEvents(session, connection, std::move(request), options);
}

}  // namespace

const Command kEventsCommand = {.name = "events",
                                .place = 100,
                                .summary = "show what happened to a job or to all, and why",
                                .arguments = "[JOB]",
                                .least = 0,
                                .most = 1,
                                .flags = kEventsFlags,
                                .listing = true,
                                .completes = "job",
                                .examples =
                                    "jobctl events calm-otter-3\tthe history of a job\n"
                                    "jobctl events -w\teverything, as it happens\n"
                                    "jobctl events --node node2\twhat happened to a node",
                                .run = Events};

}  // namespace muster::client
