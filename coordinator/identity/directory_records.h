// The directory behind the interface that enrolment uses.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/identity/directory.h"
#include "coordinator/identity/enrolment.h"

namespace muster::coordinator {

class DirectoryRecords final : public EnrolmentRecords {
 public:
  // Closes the connections that were made with the certificates with these serials.
  using Cut = std::function<void(const std::vector<std::string>& serials)>;
  // The directory outlives this.
  DirectoryRecords(Directory& directory, Cut cut) : directory_(directory), cut_(std::move(cut)) {}

  absl::StatusOr<std::optional<v1::Token>> FindToken(const std::string& id) override;
  absl::StatusOr<std::optional<v1::Token>> UseToken(const TokenUse& use) override;
  std::optional<v1::User> FindUser(const std::string& name) override;
  std::optional<v1::User> FindUserByOidc(const std::string& subject) override;
  absl::StatusOr<size_t> CountValid(const std::string& subject, int64_t now_ms) override;
  absl::StatusOr<std::optional<v1::Credential>> FindCredential(const std::string& serial) override;
  bool IsRevoked(const std::string& serial) override;
  absl::Status Record(const v1::Credential& credential) override;
  absl::Status Revoke(const Replacement& replacement) override;

 private:
  Directory& directory_;
  const Cut cut_;
};

}  // namespace muster::coordinator
