#include "client/export/mlflow.h"

#include <cctype>
#include <chrono>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_format.h"
#include "client/errors.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr int64_t kRequestTimeoutMs = 30'000;
constexpr int kTries = 4;
constexpr std::chrono::milliseconds kFirstPause{200};  // doubles with each try
constexpr size_t kAnswerShown = 300;
constexpr std::string_view kApi = "/api/2.0/mlflow/";

bool MayPass(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

std::string FixFor(int status) {
  if (status == 401 || status == 403)
    return "the server asks for a login, which is not supported: "
           "use a URL that needs none, such as a local proxy";
  if (status == 404) return "check that --url is the base of an MLflow tracking server";
  return "look at the server's log, then run the export again";
}

// The string at this path of a JSON object; empty if there is none.
std::string MemberOf(const std::string& body, std::initializer_list<const char*> path) {
  if (common::NestsDeeper(body, 32)) return "";
  const nlohmann::json parsed = nlohmann::json::parse(body, nullptr, false);
  const nlohmann::json* at = &parsed;
  for (const char* name : path) {
    if (!at->is_object() || !at->contains(name)) return "";
    at = &(*at)[name];
  }
  return at->is_string() ? at->get<std::string>() : "";
}

// A query's value: everything but letters and digits as %XX.
std::string UrlEncoded(std::string_view text) {
  std::string out;
  for (const unsigned char c : text) {
    out += isalnum(c) != 0 ? std::string(1, static_cast<char>(c)) : absl::StrFormat("%%%02X", c);
  }
  return out;
}

absl::Status NoId(std::string_view what) {
  return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                             {.code = "JC1546",
                              .what = StrCat("the tracking server's answer has no ", what),
                              .fix = FixFor(404)});
}

}  // namespace

absl::StatusOr<MlflowServer> MlflowServer::At(const std::string& url) {
  absl::StatusOr<HttpUrl> parsed = ParseHttpUrl(url);
  const std::string base = url.substr(0, url.find_last_not_of('/') + 1);
  if (parsed.ok()) return MlflowServer(base, *std::move(parsed));
  return Usage("JC1004", StrCat("--url \"", url, "\": ", common::MessageOf(parsed.status())),
               "--url http://HOST:5000; for a server behind TLS, a local proxy or an ssh tunnel");
}

absl::StatusOr<std::string> MlflowServer::Call(const HttpRequest& request, bool may_repeat) {
  const std::string where = StrCat(request.method, " ", url_, request.path);
  absl::Status failed;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(kFirstPause * (1 << (i - 1)));
    const absl::StatusOr<HttpResponse> response = SendHttp(parsed_, request, kRequestTimeoutMs);
    if (response.ok() && response->status / 100 == 2) return response->body;
    const bool passes = response.ok() ? MayPass(response->status)
                                      : absl::IsUnavailable(response.status()) || may_repeat;
    failed = common::MakeProblem(
        response.ok() && response->status == 404 ? absl::StatusCode::kNotFound
                                                 : absl::StatusCode::kFailedPrecondition,
        {.code = "JC1546",
         .what = response.ok() ? StrCat(where, ": status ", response->status)
                               : StrCat(where, ": ", common::MessageOf(response.status())),
         .why = response.ok() ? common::Printable(response->body.substr(0, kAnswerShown)) : "",
         .fix = response.ok() ? FixFor(response->status)
                              : "check --url, and that the tracking server runs there"});
    if (!passes) break;
  }
  return failed;
}

absl::StatusOr<std::string> MlflowServer::Post(const std::string& call, const std::string& body,
                                               bool may_repeat) {
  return Call({.method = "POST", .path = StrCat(kApi, call), .body = body}, may_repeat);
}

absl::StatusOr<std::string> MlflowServer::Get(const std::string& call) {
  return Call({.method = "GET", .path = StrCat(kApi, call)}, true);
}

absl::StatusOr<std::string> MlflowServer::ExperimentId(const std::string& name) {
  const absl::StatusOr<std::string> found =
      Get(StrCat("experiments/get-by-name?experiment_name=", UrlEncoded(name)));
  std::string id;
  if (found.ok()) {
    id = MemberOf(*found, {"experiment", "experiment_id"});
  } else if (absl::IsNotFound(found.status())) {
    ASSIGN_OR_RETURN(const std::string made,
                     Post("experiments/create", CreateExperimentBody(name), false));
    id = MemberOf(made, {"experiment_id"});
  } else {
    return found.status();
  }
  if (id.empty()) return NoId("experiment_id");
  return id;
}

absl::StatusOr<MlflowRun> MlflowRun::Create(
    MlflowServer* server, const std::string& experiment_id, const v1::JobRecord& record,
    const std::vector<std::pair<std::string, std::string>>& params) {
  ASSIGN_OR_RETURN(const std::string made,
                   server->Post("runs/create", CreateRunBody(experiment_id, record), false));
  const std::string id = MemberOf(made, {"run", "info", "run_id"});
  if (id.empty()) return NoId("run_id");
  MlflowRun run(server, id);
  if (params.empty()) return run;
  const absl::StatusOr<std::string> logged =
      server->Post("runs/log-batch", ParamsBody(id, params), true);
  if (logged.ok()) return run;
  run.Delete();
  return logged.status();
}

absl::Status MlflowRun::Send() {
  if (batch_.empty()) return absl::OkStatus();
  return server_->Post("runs/log-batch", batch_.Take(), true).status();
}

absl::Status MlflowRun::Add(const ExportedPoint& point, uint32_t first_rank) {
  batch_.Add(point, first_rank);
  return batch_.full() ? Send() : absl::OkStatus();
}

absl::Status MlflowRun::Finish(const v1::JobRecord& record) {
  RETURN_IF_ERROR(Send());
  return server_->Post("runs/update", UpdateRunBody(id_, record), true).status();
}

void MlflowRun::Delete() {
  static_cast<void>(server_->Post("runs/delete", DeleteRunBody(id_), true));
}

}  // namespace muster::client
