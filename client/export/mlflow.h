// A run on an MLflow tracking server, over its REST API. Requests that fail temporarily are
// retried; a run that cannot be completed is deleted. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/export/mlflow_messages.h"
#include "common/http/client.h"

namespace muster::client {

// The base of a tracking server, without a slash at its end. INVALID_ARGUMENT, without a code, for
// anything but http and https, a host, a port and a path.
absl::StatusOr<common::HttpUrl> ParseTrackingUrl(std::string_view url);

class MlflowServer {
 public:
  // Errors: JC1004 for a URL that does not meet these conditions.
  static absl::StatusOr<MlflowServer> At(const std::string& url);
  // POST below /api/2.0/mlflow/; the answer's body. `may_repeat`: the request may be
  // sent again even if it was perhaps carried out. Errors: JC1546, with NOT_FOUND for 404.
  absl::StatusOr<std::string> Post(const std::string& call, const std::string& body,
                                   bool may_repeat);
  absl::StatusOr<std::string> Get(const std::string& call);
  // Creates the experiment if there is none of this name.
  absl::StatusOr<std::string> ExperimentId(const std::string& name);

 private:
  MlflowServer(std::string url, common::HttpUrl base)
      : url_(std::move(url)), base_(std::move(base)) {}
  absl::StatusOr<std::string> Call(const std::string& path, const std::string& body,
                                   bool may_repeat);

  std::string url_;
  common::HttpUrl base_;
};

class MlflowRun {
 public:
  static absl::StatusOr<MlflowRun> Create(
      MlflowServer* server, const std::string& experiment_id, const v1::JobRecord& record,
      const std::vector<std::pair<std::string, std::string>>& params);
  absl::Status Add(const ExportedPoint& point, uint32_t first_rank);
  // Sends the remaining points, and how the job ended.
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
