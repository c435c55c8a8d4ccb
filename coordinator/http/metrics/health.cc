#include "coordinator/http/metrics/health.h"

#include <memory>
#include <optional>
#include <utility>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/calls/warnings.h"
#include "coordinator/http/server/answers.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

constexpr char kWhereWhy[] = "the coordinator's log tells why; its disk may be slow or stuck";

// Only the first answer counts; this one comes after the time for the others.
void RefuseAfter(Daemon& daemon, std::chrono::milliseconds within, std::string what,
                 Respond respond) {
  daemon.process.pool.PostAfter(within, [what = std::move(what), respond = std::move(respond)] {
    respond(Refusal(503, what, kWhereWhy));
  });
}

std::string WarningOf(const Daemon& daemon) {
  const std::optional<common::Problem> certificate =
      CertificateWarning(daemon.access, daemon.process);
  if (!certificate) return "";
  return StrCat("warning: [", certificate->code, "] ", certificate->what, "\n");
}

// Empty: there are no others.
std::string_view RoleOf(const Daemon& daemon) {
  return daemon.instance.leading == nullptr ? "" : "leads\n";
}

}  // namespace

void AnswerHealth(Daemon& daemon, Respond respond) {
  RefuseAfter(daemon, kAliveWithin,
              StrCat("the control loop has taken no turn for ", kAliveWithin.count(), " ms"),
              respond);
  daemon.jobs.loop.Ask([respond = std::move(respond)](const LoopView&) -> std::function<void()> {
    respond(TextResponse("alive\n"));
    return nullptr;
  });
}

void AnswerReady(Daemon& daemon, Respond respond) {
  if (daemon.instance.stopping) {
    return respond(Refusal(503, "the coordinator is stopping", "ask again after its restart"));
  }
  const std::string what =
      StrCat("the coordinator did not answer within ", kReadyWithin.count(), " ms");
  daemon.process.pool.PostAfter(kReadyWithin, [&daemon, what, respond] {
    // Set while the journal waits for room, or for another process that has the database.
    const absl::Status why = daemon.jobs.loop.WhyStuck();
    respond(why.ok() ? Refusal(503, what, kWhereWhy) : ErrorResponse(why, 503));
  });
  daemon.jobs.loop.Ask(
      [&daemon, respond](const LoopView&) {
        return [&daemon, respond] {
          const absl::Status may = daemon.jobs.loop.MaySubmit();
          respond(may.ok() ? TextResponse(StrCat("ready\n", RoleOf(daemon), WarningOf(daemon)))
                           : ErrorResponse(may, 503));
        };
      },
      [respond](const absl::Status& why) { respond(ErrorResponse(why, 503)); });
}

}  // namespace muster::coordinator::http
