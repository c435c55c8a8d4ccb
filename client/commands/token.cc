// jobctl token create, ls, revoke: what workers join and people sign in with.
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/terminal/record_json.h"
#include "client/text/cells.h"
#include "client/text/role_words.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr int64_t kUsesMost = 10'000;

constexpr Flag kTokenCreateFlags[] = {
    {"expires", 0, "TIME", "until when it can be used (1h; at most 30d)"},
    {"uses", 0, "N", "how many workers may join with it (1)"},
    {"role", 0, "ROLE", "of a person who is not a user yet (user)", kRoleChoices},
    kRecordOutputFlag,
};

absl::StatusOr<v1::CreateTokenRequest> RequestOf(const Arguments& arguments) {
  const std::string& kind = arguments.words()[0];
  v1::CreateTokenRequest request;
  if (kind == "worker") {
    request.set_kind(v1::TOKEN_KIND_JOIN);
  } else if (kind == "person") {
    request.set_kind(v1::TOKEN_KIND_SIGN_IN);
    if (arguments.words().size() < 2) {
      return Usage("JC1004", "a person's token needs the name of the user",
                   "jobctl token create person alice");
    }
  } else if (kind == "coordinator") {
    request.set_kind(v1::TOKEN_KIND_COORDINATOR);
  } else {
    return Usage("JC1004",
                 StrCat("a token is for a worker, a person or a coordinator, not for \"",
                        common::Printable(kind), "\""),
                 "jobctl token create worker, or: jobctl token create person USER");
  }
  if (arguments.words().size() > 1) request.set_subject(arguments.words()[1]);
  if (arguments.Has("role")) request.set_role(RoleOfWord(arguments.Get("role")));
  ASSIGN_OR_RETURN(const int64_t lives_ms, arguments.DurationMs("expires", 0));
  ASSIGN_OR_RETURN(const int64_t uses, arguments.Number("uses", 1, kUsesMost, 1));
  request.set_lives_ms(lives_ms);
  request.set_uses(static_cast<uint32_t>(uses));
  return request;
}

std::string WhatToType(const v1::Token& token, const std::string& address) {
  switch (token.kind()) {
    case v1::TOKEN_KIND_JOIN:
      return StrCat("on the node: muster-worker join ", address,
                    token.subject().empty() ? "" : StrCat(" --name ", token.subject()),
                    "   which asks for it");
    case v1::TOKEN_KIND_COORDINATOR:
      return StrCat("on the machine: muster-coordinator init --join ", address,
                    " --data-dir DIR   which asks for it; who has it can become anyone here");
    default:
      return StrCat(token.subject(), " types: jobctl login ", address, "   and pastes it");
  }
}

// Prints the token alone on stdout, for programs and for copying, and on stderr how to use it.
absl::StatusOr<int> CreateToken(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const v1::CreateTokenRequest request, RequestOf(arguments));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::CreateTokenResponse made, connection->CreateToken(request));
  const v1::Token& token = made.token();
  if (arguments.Has("output")) {
    RecordFields fields;
    fields.Add("id", token.id()).Add("token", made.text()).Add("address", made.address());
    fields.Add("subject", token.subject()).Add("expires_ms", int64_t{token.expires_ms()});
    fields.Add("uses", int64_t{token.uses_left()});
    ASSIGN_OR_RETURN(const std::string text, RecordText("Token", fields, arguments.Get("output")));
    session.Print(text);
    return kExitOk;
  }
  session.Print(made.text() + "\n");
  session.Note(StrCat("shown once; valid for ",
                      common::HumanDuration(token.expires_ms() - token.created_ms()), ", ",
                      common::Counted(token.uses_left(), "use"), ", as ", token.id()));
  session.Note(WhatToType(token, made.address()));
  return kExitOk;
}

std::string WhoUses(v1::TokenKind kind) {
  if (kind == v1::TOKEN_KIND_JOIN) return "worker";
  return kind == v1::TOKEN_KIND_COORDINATOR ? "coordinator" : "person";
}

std::string UseOf(const v1::Token& token) {
  if (token.uses_left() == 0) return "used";
  return common::Counted(token.uses_left(), "use");
}

absl::StatusOr<int> ListTokens(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  Listing listing;
  listing.kind = "TokenList";
  listing.columns = {{.key = "id"},
                     {.key = "for"},
                     {.key = "subject"},
                     {.key = "left", .value_name = "uses_left"},
                     {.key = "expires", .value_name = "expires_ms"},
                     {.key = "by"},
                     {.key = "created", .wide = true, .value_name = "created_ms"},
                     {.key = "used", .wide = true, .value_name = "used_ms"}};
  v1::ListTokensRequest request;
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListTokensResponse page, connection->ListTokens(request));
    for (const v1::Token& token : page.tokens()) {
      listing.rows.push_back({Cell(token.id()), Cell(WhoUses(token.kind())), Cell(token.subject()),
                              Cell(Value(int64_t{token.uses_left()}), UseOf(token)),
                              TimeCell(token.expires_ms()), Cell(token.created_by()),
                              TimeCell(token.created_ms()),
                              token.used_ms() == 0 ? Cell() : TimeCell(token.used_ms())});
    }
    if (!page.more() || page.tokens().empty()) break;
    request.set_after(page.tokens().rbegin()->id());
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

absl::StatusOr<int> RevokeTokens(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  for (const std::string& id : arguments.words()) {
    v1::RevokeTokenRequest request;
    request.set_id(id);
    RETURN_IF_ERROR(connection->RevokeToken(request).status());
    session.Print(StrCat("✓ token ", id, " can no longer be used\n"));
  }
  return kExitOk;
}

}  // namespace

const Command kTokenCreateCommand = {
    .name = "token create",
    .place = 470,
    .summary = "create what a worker joins or a person signs in with",
    .arguments = "worker [NODE] | person USER | coordinator",
    .least = 1,
    .most = 2,
    .flags = kTokenCreateFlags,
    .completes = "worker|person|coordinator",
    .examples =
        "jobctl token create worker --uses 8\tfor eight nodes, within an hour\n"
        "jobctl token create worker node7\tonly for a node of this name\n"
        "jobctl token create person alice --role operator\tadds the user alice\n"
        "jobctl token create coordinator\tfor a further one; it gets the cluster's keys",
    .notes =
        "Prints the token once, alone on stdout; the coordinator keeps only its hash. It\n"
        "has the hash of the cluster's authority in it, which join and login verify.",
    .run = CreateToken};
const Command kTokenLsCommand = {.name = "token ls",
                                 .place = 480,
                                 .summary = "list tokens, also those used within a day",
                                 .listing = true,
                                 .examples = "jobctl token ls\twhich can still be used",
                                 .run = ListTokens};
const Command kTokenRevokeCommand = {
    .name = "token revoke",
    .place = 490,
    .summary = "make tokens useless",
    .arguments = "ID…",
    .least = 1,
    .most = -1,
    .examples = "jobctl token revoke 3f9a61c07b2e\tan id from token ls",
    .run = RevokeTokens};

}  // namespace muster::client
