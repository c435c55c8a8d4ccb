// jobctl secret set, ls, rm: values that only your jobs get, as files.
#include <unistd.h>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kValueBytesMax = 64 << 10;

constexpr Flag kSecretSetFlags[] = {
    {"file", 'f', "FILE", "read the value from there instead of stdin"},
};

absl::StatusOr<int> SetSecret(Session& session, const Arguments& arguments) {
  const std::string& name = arguments.words()[0];
  const std::string path = arguments.Get("file", "/dev/stdin");
  if (!arguments.Has("file") && isatty(STDIN_FILENO) != 0) {
    session.Note("type the value; Ctrl-D ends it");
  }
  ASSIGN_OR_RETURN(std::string value, common::ReadFileOrPipe(path, kValueBytesMax + 2));
  // `echo VALUE |` and most editors add one; a value that needs it ends with two.
  if (!value.empty() && value.back() == '\n') value.pop_back();
  if (value.empty() || value.size() > kValueBytesMax) {
    return Usage("JC1004", StrCat("the value of ", name, " has ", value.size(), " bytes"),
                 StrCat("give 1 to ", kValueBytesMax, " bytes, on stdin or with --file"));
  }
  v1::SetSecretRequest request;
  request.set_name(name);
  request.set_value(std::move(value));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::Secret secret, connection->SetSecret(request));
  session.Print(StrCat("✓ secret ", name, " of ", secret.owner(), " is set\n"));
  session.Note(StrCat("a job gets it with --secret ", name, ", as $MUSTER_SECRETS_DIR/", name));
  return kExitOk;
}

absl::StatusOr<int> ListSecrets(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Listing listing;
  listing.kind = "SecretList";
  listing.columns = {{.key = "name"},
                     {.key = "size", .right = true, .value_name = "bytes"},
                     {.key = "changed", .right = true, .value_name = "changed_ms", .since = true},
                     {.key = "owner", .wide = true}};
  v1::ListSecretsRequest request;
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListSecretsResponse page, connection->ListSecrets(request));
    for (const v1::Secret& secret : page.secrets()) {
      listing.rows.push_back({Cell(secret.name()), SizeCell(secret.size()),
                              AgeCell(secret.changed_ms()), Cell(secret.owner())});
    }
    if (!page.more() || page.secrets().empty()) break;
    request.set_after(page.secrets().rbegin()->name());
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

absl::StatusOr<int> RemoveSecrets(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  for (const std::string& name : arguments.words()) {
    v1::RemoveSecretRequest request;
    request.set_name(name);
    RETURN_IF_ERROR(connection->RemoveSecret(request).status());
    session.Print(StrCat("✓ secret ", name, " was removed\n"));
  }
  return kExitOk;
}

}  // namespace

const Command kSecretSetCommand = {
    .name = "secret set",
    .place = 570,
    .summary = "keep a value that only your jobs get, as a file",
    .arguments = "NAME",
    .least = 1,
    .most = 1,
    .flags = kSecretSetFlags,
    .examples =
        "jobctl secret set wandb\tfrom stdin: type it, or pipe it in\n"
        "jobctl secret set wandb --file key.txt\tfrom a file",
    .notes =
        "The value is never on a command line and never read back. One newline at its end\n"
        "is dropped. It is kept encrypted; a job of yours gets it with --secret NAME.",
    .run = SetSecret};
const Command kSecretLsCommand = {.name = "secret ls",
                                  .place = 580,
                                  .summary = "list your secrets, without values",
                                  .listing = true,
                                  .examples = "jobctl secret ls\tnames and sizes",
                                  .run = ListSecrets};
const Command kSecretRmCommand = {.name = "secret rm",
                                  .place = 590,
                                  .summary = "remove secrets of yours",
                                  .arguments = "NAME…",
                                  .least = 1,
                                  .most = -1,
                                  .examples = "jobctl secret rm wandb\tranks that run keep it",
                                  .run = RemoveSecrets};

}  // namespace muster::client
