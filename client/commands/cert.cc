// jobctl cert ls, revoke: the certificates that the cluster issued.
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

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kCertRevokeFlags[] = {
    {"reason", 0, "TEXT", "recorded with the certificate"},
};

std::string StateOf(const v1::Credential& credential) {
  if (credential.revoked_ms() == 0) return "valid";
  return credential.reason().empty() ? "revoked" : StrCat("revoked: ", credential.reason());
}

absl::StatusOr<int> ListCertificates(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Listing listing;
  listing.kind = "CertificateList";
  listing.columns = {{.key = "serial"},
                     {.key = "subject"},
                     {.key = "issued", .right = true, .value_name = "issued_ms", .since = true},
                     {.key = "expires", .value_name = "expires_ms"},
                     {.key = "state", .shrink = true},
                     {.key = "for", .wide = true, .value_name = "issued_for"},
                     {.key = "revoked_by", .wide = true}};
  v1::ListCredentialsRequest request;
  if (!arguments.words().empty()) request.set_subject(arguments.words()[0]);
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListCredentialsResponse page, connection->ListCredentials(request));
    for (const v1::Credential& credential : page.credentials()) {
      listing.rows.push_back({Cell(credential.serial()), Cell(credential.subject()),
                              AgeCell(credential.issued_ms()), TimeCell(credential.expires_ms()),
                              Cell(StateOf(credential)), Cell(credential.issued_for()),
                              Cell(credential.revoked_by())});
    }
    if (!page.more() || page.credentials().empty()) break;
    request.set_after(page.credentials().rbegin()->serial());
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

absl::StatusOr<int> RevokeCertificates(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  for (const std::string& word : arguments.words()) {
    v1::RevokeCredentialsRequest request;
    // A subject has a slash, a serial has not.
    (word.find('/') == std::string::npos ? request.mutable_serial() : request.mutable_subject())
        ->assign(word);
    request.set_reason(arguments.Get("reason"));
    ASSIGN_OR_RETURN(const v1::RevokeCredentialsResponse done,
                     connection->RevokeCredentials(request));
    session.Print(StrCat("✓ ", word, ": ", common::Counted(done.revoked(), "certificate"),
                         " revoked, ", common::Counted(done.connections_cut(), "connection"),
                         " cut\n"));
  }
  return kExitOk;
}

}  // namespace

const Command kCertLsCommand = {
    .name = "cert ls",
    .place = 500,
    .summary = "list the certificates that the cluster issued",
    .arguments = "[SUBJECT]",
    .most = 1,
    .listing = true,
    .examples = "jobctl cert ls worker/node1\tthose of a node; of a person: user/alice",
    .run = ListCertificates};
const Command kCertRevokeCommand = {
    .name = "cert revoke",
    .place = 510,
    .summary = "refuse certificates from now on, and cut their connections",
    .arguments = "SERIAL|SUBJECT…",
    .least = 1,
    .most = -1,
    .flags = kCertRevokeFlags,
    .examples = "jobctl cert revoke worker/node1 --reason 'disk was sold'\tall that the node has",
    .run = RevokeCertificates};

}  // namespace muster::client
