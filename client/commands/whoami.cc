// jobctl whoami: who the caller is to the coordinator, and what it may do.
#include "client/arguments.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/record_json.h"
#include "client/record_text.h"
#include "client/role_words.h"
#include "client/session.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kWhoAmIFlags[] = {kRecordOutputFlag};

absl::StatusOr<int> ShowCaller(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::WhoAmIResponse me, connection->WhoAmI(v1::WhoAmIRequest()));
  if (arguments.Has("output")) {
    RecordFields fields;
    fields.Add("principal", me.principal()).Add("role", RoleWord(me.role()));
    fields.Add("because", me.because()).Add("cluster", me.cluster());
    fields.Add("account", me.account()).Add("serial", me.serial());
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
  field("Account", me.account());
  field("Certificate", me.serial());
  if (me.expires_ms() != 0) field("Expires", LocalTime(me.expires_ms()));
  session.Print(text);
  return kExitOk;
}

}  // namespace

const Command kWhoAmICommand = {.name = "whoami",
                                .summary = "show who you are to the coordinator, and your role",
                                .flags = kWhoAmIFlags,
                                .examples = "jobctl whoami\twho owns what you submit",
                                .run = ShowCaller};

}  // namespace muster::client
