// A run on an MLflow tracking server, over its REST API. Requests that fail temporarily are
// retried; a run that cannot be completed is deleted. One thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/export/http.h"
#include "client/export/mlflow_messages.h"

namespace muster::client {

class MlflowServer {
 public:
  // Errors: JC1004 for a URL that is not http://.
  static absl::StatusOr<MlflowServer> At(const std::string& url);
  // POST below /api/2.0/mlflow/; the answer's body. `may_repeat`: the request may be
  // sent again even if it was perhaps carried out. Errors: JC1546, with NOT_FOUND for 404.
  absl::StatusOr<std::string> Post(const std::string& call, const std::string& body,
                                   bool may_repeat);
  absl::StatusOr<std::string> Get(const std::string& call);
  // Creates the experiment if there is none of this name.
  absl::StatusOr<std::string> ExperimentId(const std::string& name);

 private:
  MlflowServer(std::string url, HttpUrl parsed)
      : url_(std::move(url)), parsed_(std::move(parsed)) {}
  absl::StatusOr<std::string> Call(const HttpRequest& request, bool may_repeat);

  std::string url_;
  HttpUrl parsed_;
};

class MlflowRun {
 public:
  static absl::StatusOr<MlflowRun> Create(
      MlflowServer* server, const std::string& experiment_id, const v1::JobRecord& record,
      const std::vector<std::pair<std::string, std::string>>& params);
  absl::Status Add(const ExportedPoint& point, uint32_t first_rank);
  // Sends what is left, and how the job ended.
  absl::Status Finish(const v1::JobRecord& record);
  // Deletes the run; nothing more can be done if that fails too.
  void Delete();
  const std::string& id() const { return id_; }

 private:
  MlflowRun(MlflowServer* server, std::string id) : server_(server), id_(id), batch_(id) {}
  absl::Status Send();

  MlflowServer* server_;
  std::string id_;
  MlflowBatch batch_;
};

}  // namespace muster::client
