// jobctl whoami: who the caller is to the coordinator, and what it may do.
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/session/sign_in.h"
#include "client/terminal/record_json.h"
#include "client/text/record_text.h"
#include "client/text/role_words.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/certificate.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kWhoAmIFlags[] = {kRecordOutputFlag};

// The authority of the cluster whose certificate the caller has: others pass it to `jobctl login --oidc`.
std::string AuthorityOf(const Session& session) {
  const auto credentials = CredentialsFor(session.settings(), common::SystemClock().Read().wall_ms);
  if (!credentials.ok() || *credentials == nullptr) return "";
  const absl::StatusOr<std::string> fingerprint =
      identity::Fingerprint((*credentials)->authority_pem);
  return fingerprint.ok() ? StrCat("SHA256:", *fingerprint) : "";
}

absl::StatusOr<int> ShowCaller(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::WhoAmIResponse me, connection->WhoAmI(v1::WhoAmIRequest()));
  const std::string authority = AuthorityOf(session);
  if (arguments.Has("output")) {
    RecordFields fields;
    fields.Add("principal", me.principal()).Add("user_id", me.user_id());
    fields.Add("role", RoleWord(me.role()));
    fields.Add("because", me.because()).Add("cluster", me.cluster());
    fields.Add("account", me.account()).Add("serial", me.serial());
    fields.Add("authority", authority);
    fields.Add("expires_ms", me.expires_ms() == 0 ? Value() : Value(int64_t{me.expires_ms()}));
    ASSIGN_OR_RETURN(const std::string text, RecordText("Caller", fields, arguments.Get("output")));
    session.Print(text);
    return kExitOk;
  }
  std::string text;
  const auto field = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    common::StrAppend(&text, name, std::string(14 - name.size(), ' '), common::Printable(value),
                      "\n");
  };
  field("Caller", me.principal());
  field("Role", me.role() == v1::ROLE_UNSPECIFIED ? "" : RoleWord(me.role()));
  field("Because", me.because());
  field("Cluster", me.cluster());
  field("Authority", authority);
  field("Account", me.account());
  field("Certificate", me.serial());
  if (me.expires_ms() != 0) field("Expires", LocalTime(me.expires_ms()));
  session.Print(text);
  return kExitOk;
}

}  // namespace

const Command kWhoAmICommand = {.name = "whoami",
                                .place = 410,
                                .summary = "show who you are to the coordinator, and your role",
                                .flags = kWhoAmIFlags,
                                .examples = "jobctl whoami\twho owns what you submit",
                                .run = ShowCaller};

}  // namespace muster::client
