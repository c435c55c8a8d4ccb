// jobctl queue: the waiting jobs in the scheduler's order, and when each is expected to start.
#include <algorithm>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr int64_t kJobsMost = 1'000;  // in one answer

// "in 40m", "in 40m to 55m", "from 40m on".
Cell StartCell(const v1::QueuedJob& job) {
  if (!job.has_starts()) return Cell(Value(), "not known");
  const int64_t from_ms = job.starts().from_ms();
  const std::string from = common::RoughDuration(from_ms);
  if (!job.starts().has_until_ms()) return Cell(Value(from_ms), StrCat("in ", from, " or later"));
  const std::string until = common::RoughDuration(job.starts().until_ms());
  return Cell(Value(from_ms),
              from == until ? StrCat("in ", from) : StrCat("in ", from, " to ", until));
}

Cell UntilCell(const v1::QueuedJob& job) {
  if (!job.starts().has_until_ms()) return Cell();
  const int64_t until_ms = job.starts().until_ms();
  return Cell(Value(until_ms), common::RoughDuration(until_ms));
}

absl::StatusOr<int> RunQueue(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  v1::ListQueueRequest request;
  request.set_limit(static_cast<uint32_t>(kJobsMost));
  ASSIGN_OR_RETURN(const v1::ListQueueResponse queue, connection->ListQueue(request));
  Listing listing;
  listing.kind = "QueueList";
  listing.name_column = 1;
  listing.columns = {{.key = "place", .right = true, .spare = 1},
                     {.key = "job", .names = true},
                     {.key = "owner", .shrink = true, .spare = 3},
                     {.key = "project", .wide = true},
                     {.key = "priority", .right = true, .spare = 2, .value_name = "priority"},
                     {.key = "needs"},
                     {.key = "waits", .spare = 4, .value_name = "submitted_ms", .since = true},
                     {.key = "starts", .value_name = "starts_in_ms"},
                     {.key = "until", .wide = true, .value_name = "starts_until_ms"},
                     {.key = "held", .wide = true, .value_name = "place_held"},
                     {.key = "reason", .wrap = true}};
  int64_t place = 0;
  for (const v1::QueuedJob& job : queue.jobs()) {
    listing.rows.push_back(
        {Cell(++place), Cell(job.name()),
         Cell(StrCat(job.owner(), job.owner_is_gone() ? " (removed)" : "")), Cell(job.project()),
         Cell(Value(static_cast<int64_t>(job.priority())),
              job.urgent() ? "urgent" : StrCat(job.priority())),
         Cell(job.needs()), AgeCell(job.submitted_ms()), StartCell(job), UntilCell(job),
         Cell(job.place()), Cell(common::Printable(job.reason()))});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  const auto listed = static_cast<uint64_t>(queue.jobs_size());
  if (queue.total() > listed)
    session.Note(StrCat(queue.total() - listed, " more wait behind them"));
  return kExitOk;
}

}  // namespace

const Command kQueueCommand = {
    .name = "queue",
    .place = 65,
    .summary = "list waiting jobs in their order, and when each should start",
    .listing = true,
    .examples =
        "jobctl queue\twho is first, and what holds each job back\n"
        "jobctl queue -o json\tfor programs",
    .notes =
        "A job with a place held (-o wide) starts when the jobs there end. Jobs behind it\n"
        "start earlier on other devices, or if they are expected to end by then: give\n"
        "them an estimate (jobctl set JOB --estimate 30m).",
    .run = RunQueue};

}  // namespace muster::client
