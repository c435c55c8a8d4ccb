// jobctl config view.
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "common/base/status.h"

namespace muster::client {
namespace {

constexpr Flag kConfigFlags[] = {
    {"origin", 0, "", "show where each setting comes from"},
};

absl::StatusOr<int> View(Session& session, const Arguments& arguments) {
  Listing listing;
  listing.kind = "SettingList";
  listing.columns = {
      {.key = "setting"}, {.key = "value"}, {.key = "origin", .wide = !arguments.Has("origin")}};
  for (const Setting& setting : session.settings().all()) {
    listing.rows.push_back({Cell(setting.name), Cell(setting.value), Cell(setting.origin)});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

}  // namespace

const Command kConfigViewCommand = {
    .name = "config view",
    .place = 740,
    .summary = "show every setting of jobctl",
    .flags = kConfigFlags,
    .listing = true,
    .examples =
        "jobctl config view --origin\twith the source of each: flag, variable, context, file or "
        "default",
    .notes =
        "A flag overrides a JOBCTL_* variable, which overrides the context, which\n"
        "overrides config.yaml, which overrides the default.",
    .run = View};

}  // namespace muster::client
