// jobctl ui: a link that signs a browser in to the coordinator's pages.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/kernel/process_start.h"
#include "common/text/strings.h"
#include "identity/answer_checks.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

bool HasDisplay() {
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return true;
  }
  return false;
}

// A page that only this user can read and that leads to the link: other users see the arguments of
// every process, and the link signs in the first browser that follows it.
absl::StatusOr<std::string> WriteLeadingPage(const std::string& link) {
  const char* directory = std::getenv("TMPDIR");
  constexpr std::string_view kSuffix = ".html";
  std::string path = StrCat(directory != nullptr && *directory != '\0' ? directory : "/tmp",
                            "/jobctl-ui-XXXXXX", kSuffix);
  const common::UniqueFd file(mkstemps(path.data(), static_cast<int>(kSuffix.size())));
  if (!file.valid()) return common::ErrnoStatus(StrCat("cannot make ", path));
  RETURN_IF_ERROR(common::WriteAll(
      file.get(), StrCat("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=", link,
                         "\"><a href=\"", link, "\">Muster</a>\n")));
  return path;
}

// False: there is no program that could.
bool OpenInBrowser(const std::string& link) {
  absl::StatusOr<std::string> page = WriteLeadingPage(link);
  if (!page.ok()) return false;
  common::ChildSetup start{.program = "xdg-open", .argv = {"xdg-open", *page}, .is_searched = true};
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    start.fds.push_back({.as = fd, .file = "/dev/null", .flags = O_RDWR});
  const bool is_started = common::StartProcess(start) > 0;
  if (!is_started) unlink(page->c_str());
  return is_started;
}

// The link must lead to something that is still there when the browser follows it.
absl::Status KeepPrivateRunning(Session& session, Connection& connection) {
  if (!session.is_private() || connection.server().stays()) return absl::OkStatus();
  v1::SetLifetimeRequest request;
  request.set_stay(true);
  RETURN_IF_ERROR(connection.SetLifetime(request).status());
  session.Note("the coordinator keeps running until: jobctl down");
  return absl::OkStatus();
}

absl::StatusOr<int> Ui(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  v1::SignInRequest request;
  if (!arguments.words().empty()) {
    ASSIGN_OR_RETURN(const v1::GetJobResponse job, connection->GetJob(arguments.words()[0]));
    request.set_path("/jobs/" + job.record().name());
  }
  ASSIGN_OR_RETURN(const v1::SignInResponse response, connection->SignIn(request));
  RETURN_IF_ERROR(
      identity::CheckPage(StrCat("the coordinator at ", connection->endpoint()), response.link()));
  RETURN_IF_ERROR(KeepPrivateRunning(session, *connection));
  session.Print(response.link() + "\n");
  session.Note("the link works once, for two minutes");
  if (!arguments.Has("no-open") && HasDisplay() && !OpenInBrowser(response.link()))
    session.Note("no browser was opened: xdg-open is not installed");
  return kExitOk;
}

constexpr Flag kUiFlags[] = {
    {"no-open", 0, "", "only print the link, also where there is a display"},
};

}  // namespace

const Command kUiCommand = {
    .name = "ui",
    .place = 610,
    .summary = "open the page in a browser: jobs, curves, logs, nodes",
    .arguments = "[JOB]",
    .most = 1,
    .flags = kUiFlags,
    .completes = "job",
    .examples =
        "jobctl ui\tall jobs\n"
        "jobctl ui @last\tyour newest job",
    .notes =
        "Prints a link that signs a browser in, once and within two minutes, and opens it\n"
        "where there is a display. A private coordinator keeps running, as\n"
        "after `jobctl up`; another one must have been started with --http.",
    .run = Ui};

}  // namespace muster::client
