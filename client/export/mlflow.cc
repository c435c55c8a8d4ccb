#include "client/export/mlflow.h"

#include <cctype>
#include <chrono>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_format.h"
#include "client/command_line/errors.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr std::chrono::seconds kAnswersWithin{30};
constexpr int kTries = 4;
constexpr std::chrono::milliseconds kFirstPause{200};  // doubles with each try
constexpr size_t kAnswerShown = 300;
constexpr std::string_view kApi = "/api/2.0/mlflow/";

bool MayPass(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

// Whether the request may be resent: the error may be temporary, and the server has not seen the request or
// tolerates a repetition.
bool MayPass(const absl::StatusOr<common::HttpResponse>& response, bool may_repeat) {
  if (response.ok()) return MayPass(response->status);
  return absl::IsUnavailable(response.status()) || absl::IsNotFound(response.status()) ||
         (absl::IsAborted(response.status()) && may_repeat);
}

std::string FixFor(int status) {
  if (status == 401 || status == 403)
    return "the server asks for a login, which is not supported: "
           "use a URL that needs none, such as a local proxy";
  if (status == 404) return "check that --url is the base of an MLflow tracking server";
  return "look at the server's log, then run the export again";
}

std::string WordsOf(const absl::Status& failed) {
  const std::string why = common::MessageOf(failed);
  return absl::IsUnauthenticated(failed) ? StrCat("its certificate is not valid: ", why) : why;
}

std::string FixFor(const absl::Status& failed) {
  if (absl::IsUnauthenticated(failed))
    return "use a certificate of an authority that this machine trusts; SSL_CERT_FILE names the "
           "file of other authorities";
  return "check --url, and that the tracking server runs there";
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

absl::StatusOr<common::HttpUrl> ParseTrackingUrl(std::string_view url) {
  if (url.find_first_of("@?#") != std::string_view::npos)
    return absl::InvalidArgumentError("a user, a query and a fragment are not supported");
  ASSIGN_OR_RETURN(common::HttpUrl base, common::ParseHttpUrl(url));
  while (base.target.ends_with('/')) base.target.pop_back();
  return base;
}

absl::StatusOr<MlflowServer> MlflowServer::At(const std::string& url) {
  absl::StatusOr<common::HttpUrl> base = ParseTrackingUrl(url);
  if (base.ok())
    return MlflowServer(url.substr(0, url.find_last_not_of('/') + 1), *std::move(base));
  return Usage("JC1004", StrCat("--url \"", url, "\": ", common::MessageOf(base.status())),
               "--url http://HOST:5000 or https://HOST");
}

absl::StatusOr<std::string> MlflowServer::Call(const std::string& path, const std::string& body,
                                               bool may_repeat) {
  const std::string where = StrCat(body.empty() ? "GET" : "POST", " ", url_, path);
  common::HttpCall call{.url = base_,
                        .body = body,
                        .headers = {{"Accept", "application/json"}},
                        .answer_max = common::kHttpResponseMax,
                        .within = kAnswersWithin};
  call.url.target += path;
  absl::Status failed;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(kFirstPause * (1 << (i - 1)));
    const absl::StatusOr<common::HttpResponse> response = common::CallHttp(call);
    if (response.ok() && response->status / 100 == 2) return response->body;
    failed = common::MakeProblem(
        response.ok() && response->status == 404 ? absl::StatusCode::kNotFound
                                                 : absl::StatusCode::kFailedPrecondition,
        {.code = "JC1546",
         .what = response.ok() ? StrCat(where, ": status ", response->status)
                               : StrCat(where, ": ", WordsOf(response.status())),
         .why = response.ok() ? common::Printable(response->body.substr(0, kAnswerShown)) : "",
         .fix = response.ok() ? FixFor(response->status) : FixFor(response.status())});
    if (!MayPass(response, may_repeat)) break;
  }
  return failed;
}

absl::StatusOr<std::string> MlflowServer::Post(const std::string& call, const std::string& body,
                                               bool may_repeat) {
  return Call(StrCat(kApi, call), body, may_repeat);
}

absl::StatusOr<std::string> MlflowServer::Get(const std::string& call) {
  return Call(StrCat(kApi, call), "", true);
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
