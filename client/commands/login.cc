// jobctl login, logout: a person's certificate for a cluster.
#include <chrono>
#include <cstdio>
#include <string>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/addresses.h"
#include "client/connection/connection.h"
#include "client/session/device_login.h"
#include "client/session/session.h"
#include "client/session/sign_in.h"
#include "client/terminal/hidden_input.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "identity/certificate.h"
#include "identity/credential_files.h"
#include "identity/enroll.h"
#include "identity/names.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kTokenMax = 4 * 1024;
constexpr int64_t kRevokeWithinMs = 2'000;

constexpr Flag kLoginFlags[] = {
    {"token-file", 0, "FILE", "a file with the token; -: standard input"},
    {"oidc", 0, "", "sign in at the cluster's identity provider, in a browser"},
    {"authority", 0, "SHA256", "fingerprint of the cluster's authority, for --oidc"},
    {"name", 0, "CONTEXT", "name of the context (the cluster's)"},
};

constexpr Flag kLogoutFlags[] = {
    {"local", 0, "", "only delete the file; the coordinator is not asked"},
};

absl::Status SaveContext(Session& session, const std::string& name,
                         const identity::Credentials& credentials) {
  const ConfigFile& file = session.settings().file();
  if (const auto known = file.contexts.find(name);
      known != file.contexts.end() && !ShareAddress(known->second, credentials.endpoint)) {
    RETURN_IF_ERROR(session.Confirm(StrCat("The context ", name, " is ", known->second,
                                           ". Change it to ", credentials.endpoint, "?")));
  }
  return SelectContext(name, credentials);
}

absl::StatusOr<identity::Credentials> LoginByToken(const Session& session,
                                                   const Arguments& arguments,
                                                   const std::string& address) {
  ASSIGN_OR_RETURN(const std::string token, ReadSecret({.file = arguments.Get("token-file"),
                                                        .prompt = "Token",
                                                        .may_ask = !arguments.Has("no-input"),
                                                        .bytes_max = kTokenMax}));
  return identity::Enroll({.address = address,
                           .token = token,
                           .node = "",
                           .within = std::chrono::milliseconds(session.settings().timeout_ms())});
}

absl::StatusOr<int> Login(Session& session, const Arguments& arguments) {
  const std::string& address = arguments.words()[0];
  RETURN_IF_ERROR(CheckServerAddress("", address));
  if (address.starts_with("unix:")) {
    return Usage("JC1004", "a socket needs no sign-in: the kernel reports who connects",
                 StrCat("jobctl context add NAME ", address));
  }
  std::string name = arguments.Get("name");
  if (!name.empty()) RETURN_IF_ERROR(identity::CheckName("the context", name));
  const bool at_provider = arguments.Has("oidc");
  if (at_provider && arguments.Has("token-file"))
    return Usage("JC1004", "--oidc and --token-file are two ways to sign in", "give one of them");
  if (!at_provider && arguments.Has("authority")) {
    return Usage("JC1004", "--authority is for --oidc", "leave it out: a token names its cluster");
  }
  ASSIGN_OR_RETURN(const identity::Credentials credentials,
                   at_provider ? LoginAtProvider(session, arguments, address)
                               : LoginByToken(session, arguments, address));
  if (name.empty()) name = credentials.cluster == "private" ? "cluster" : credentials.cluster;
  RETURN_IF_ERROR(SaveContext(session, name, credentials));
  ASSIGN_OR_RETURN(const identity::CertificateFacts facts,
                   identity::FactsOfPem(credentials.certificate_pem));
  const int64_t lives_ms =
      facts.not_after_ms - facts.not_before_ms - identity::Authority::kBackdatedMs;
  session.Print(StrCat("✓ ", credentials.name, " is signed in to ", credentials.cluster, " for ",
                       common::HumanDuration(lives_ms), "; the context ", name, " is ",
                       credentials.endpoint, "\n"));
  const std::string& before = session.settings().file().current;
  if (before != name) {
    session.Note(StrCat("jobctl talks to it from now on; back to where it was: jobctl context use ",
                        before.empty() ? "private" : before));
  }
  return kExitOk;
}

// Ends the certificate, which a copy of the file would still have.
absl::Status RevokeOwn(const identity::Credentials& credentials) {
  ASSIGN_OR_RETURN(const identity::CertificateFacts facts,
                   identity::FactsOfPem(credentials.certificate_pem));
  if (facts.not_after_ms <= common::SystemClock().Read().wall_ms) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto connection,
                   Connection::Open(credentials.endpoint, kRevokeWithinMs, &credentials));
  v1::RevokeCredentialsRequest request;
  request.set_serial(facts.serial);
  request.set_reason("signed out");
  return connection->RevokeCredentials(request).status();
}

// What has become of the certificate, for people.
std::string Revoked(const std::string& path) {
  const absl::StatusOr<identity::Credentials> credentials = identity::LoadCredentials(path);
  const absl::Status done = credentials.ok() ? RevokeOwn(*credentials) : credentials.status();
  if (done.ok()) return "the certificate is revoked";
  return StrCat("the certificate is not revoked, and a copy of it works until it expires: ",
                common::Readable(common::ProblemOf(done)),
                "; an administrator ends it: jobctl cert revoke user/",
                credentials.ok() ? credentials->name : "NAME");
}

absl::StatusOr<int> Logout(Session& session, const Arguments& arguments) {
  const Settings& settings = session.settings();
  const std::string name =
      arguments.words().empty() ? settings.Get("context") : arguments.words()[0];
  const std::string path = CredentialsPath(settings.file(), name);
  if (!identity::IsName(name) || !common::Exists(path)) {
    return common::MakeProblem(
        absl::StatusCode::kNotFound,
        {.code = "JC1357",
         .what = StrCat("no one is signed in with the context \"", common::Printable(name), "\""),
         .fix = "jobctl context ls"});
  }
  const std::string outcome =
      arguments.Has("local") ? "the certificate is good until its end" : Revoked(path);
  if (std::remove(path.c_str()) != 0) return common::ErrnoStatus(path);
  session.Print(StrCat("✓ signed out of ", name, "; ", outcome, "\n"));
  return kExitOk;
}

}  // namespace

const Command kLoginCommand = {
    .name = "login",
    .place = 670,
    .summary = "sign in to a cluster with a token, or at its identity provider",
    .arguments = "HOST:PORT",
    .least = 1,
    .most = 1,
    .flags = kLoginFlags,
    .examples =
        "jobctl login head:7701\tasks for the token, without showing it\n"
        "jobctl login head:7701 --token-file token.txt\tfrom a file\n"
        "pass muster-token | jobctl login head:7701\tfrom a pipe\n"
        "jobctl login head:7701 --oidc\tin a browser, at the identity provider",
    .notes =
        "HOST:PORT is the coordinator's HTTPS. The token of `jobctl token create person\n"
        "NAME` works once. The key that is made for it stays on this machine, in a file\n"
        "of mode 0600; the certificate lives 12 hours and is renewed while you use\n"
        "jobctl. With --oidc, confirm the printed code in any browser. --authority, or a\n"
        "context that signed in there before, identifies the cluster; otherwise jobctl\n"
        "asks: compare with what `muster-coordinator init` printed.",
    .run = Login};
const Command kLogoutCommand = {
    .name = "logout",
    .place = 680,
    .summary = "end the certificate for a cluster, and forget it",
    .arguments = "[CONTEXT]",
    .most = 1,
    .flags = kLogoutFlags,
    .completes = "context",
    .examples = "jobctl logout\tof the current context\njobctl logout lab\tof another one",
    .notes =
        "The coordinator revokes the certificate; if it does not answer within two\n"
        "seconds, jobctl prints a note and deletes the file all the same.",
    .run = Logout};

}  // namespace muster::client
