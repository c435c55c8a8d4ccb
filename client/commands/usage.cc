// jobctl usage.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "common/base/status.h"
#include "common/text/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

constexpr Flag kUsageFlags[] = {
    {"by",
     0,
     "A,B",
     "project, user, kind, month, label:KEY (default: project,kind)",
     {},
     "project|user|kind|month|label:"},
    {"since", 0, "MONTH", "from this month on, of UTC: 2026-11"},
    {"until", 0, "MONTH", "up to this month, inclusive"},
};

Cell DeviceHours(uint64_t ms) {
  return Cell(Value(static_cast<double>(ms) / 3'600'000),
              ms == 0 ? "-" : absl::StrFormat("%.2f", static_cast<double>(ms) / 3'600'000));
}

absl::StatusOr<int> ShowUsage(Session& session, const Arguments& arguments) {
  v1::ListUsageRequest request;
  std::vector<std::string> by = arguments.Listed("by");
  if (by.empty()) by = {"project", "kind"};
  request.mutable_by()->Assign(by.begin(), by.end());
  request.set_since(arguments.Get("since"));
  request.set_until(arguments.Get("until"));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::ListUsageResponse response, connection->ListUsage(request));
  Listing listing;
  listing.kind = "UsageList";
  for (const std::string& key : by) listing.columns.push_back({.key = key});
  for (const char* hours : {"used_hours", "borrowed_hours", "failed_hours", "left_hours"})
    listing.columns.push_back({.key = hours, .right = true});
  listing.columns.push_back({.key = "attempts", .right = true});
  for (const v1::UsageGroup& group : response.groups()) {
    std::vector<Cell> row;
    for (const std::string& key : group.keys()) row.push_back(Cell(common::Printable(key)));
    for (const uint64_t ms :
         {group.used_ms(), group.borrowed_ms(), group.failed_ms(), group.left_ms()}) {
      row.push_back(DeviceHours(ms));
    }
    row.push_back(Cell(static_cast<int64_t>(group.attempts())));
    listing.rows.push_back(std::move(row));
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

}  // namespace

const Command kUsageCommand = {
    .name = "usage",
    .place = 565,
    .summary = "device hours by project, person, kind, month or label",
    .flags = kUsageFlags,
    .listing = true,
    .examples =
        "jobctl usage\tall that was used, by project and kind of device\n"
        "jobctl usage --by month,user --since 2026-10\twho used how much\n"
        "jobctl usage --by label:team -o csv\tfor a spreadsheet",
    .notes =
        "Hours of one device, from the moment that an attempt gets its devices until they\n"
        "are free again. borrowed: beyond the project's quota, known by project, kind and\n"
        "month. failed: of attempts that failed or lost a node, what they had not saved;\n"
        "left: the same of attempts that gave way, were stopped or evicted. Jobs that\n"
        "were removed count; jobs that ended before this release do not.",
    .run = ShowUsage};

}  // namespace muster::client
