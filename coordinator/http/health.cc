#include "coordinator/http/health.h"

#include <memory>
#include <utility>

#include "common/problem.h"
#include "common/strings.h"
#include "coordinator/http/answers.h"
#include "coordinator/rpc/daemon.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

Response PlainText(std::string text) {
  return {.content_type = "text/plain; charset=utf-8", .body = std::move(text), .fields = {}};
}

// The first answer counts; this one comes after the others had their time.
void RefuseAfter(Daemon& daemon, std::chrono::milliseconds within, std::string what,
                 Respond respond) {
  daemon.pool.PostAfter(within, [what = std::move(what), respond = std::move(respond)] {
    respond(Refusal(503, what, "the coordinator's log tells why; its disk may be slow or stuck"));
  });
}

}  // namespace

void AnswerHealth(Daemon& daemon, Respond respond) {
  RefuseAfter(daemon, kAliveWithin,
              StrCat("the control loop has taken no turn for ", kAliveWithin.count(), " ms"),
              respond);
  daemon.loop.Ask([respond = std::move(respond)](const LoopView&) -> std::function<void()> {
    respond(PlainText("alive\n"));
    return nullptr;
  });
}

void AnswerReady(Daemon& daemon, Respond respond) {
  if (daemon.stopping) {
    return respond(Refusal(503, "the coordinator is stopping", "ask again after its restart"));
  }
  RefuseAfter(daemon, kReadyWithin,
              StrCat("the coordinator did not answer within ", kReadyWithin.count(), " ms"),
              respond);
  daemon.loop.Ask(
      [&daemon, respond](const LoopView&) {
        return [&daemon, respond] {
          const absl::Status may = daemon.loop.MaySubmit();
          respond(may.ok() ? PlainText("ready\n") : ErrorResponse(may, 503));
        };
      },
      [respond](const absl::Status& why) { respond(ErrorResponse(why, 503)); });
}

}  // namespace muster::coordinator::http
