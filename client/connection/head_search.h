// Finds which of a cluster's coordinators leads. They are asked in turn, the next one as soon as those
// before it have answered otherwise, or have not answered for a moment, so that a machine that is
// switched off delays no command. While one of several stands by, the others are asked again and again,
// as another is about to lead. Owns a thread per address that it asks.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/connection/line.h"
#include "identity/credential_files.h"

namespace muster::client {

class HeadSearch {
 public:
  struct Terms {
    int64_t timeout_ms = 0;                              // for one answer
    int64_t patience_ms = 0;                             // while one of several stands by
    bool any = false;                                    // finds one that stands by, too
    const identity::Credentials* credentials = nullptr;  // must outlive the search
  };
  HeadSearch(const std::vector<std::string>& addresses, const Terms& terms);
  ~HeadSearch();
  HeadSearch(const HeadSearch&) = delete;

  // The line to the one that leads; with `any`, to the first that answers. Once. UNAVAILABLE: JC1630 if
  // one stands by, else JC1301; both with what each address answered.
  absl::StatusOr<std::shared_ptr<const Line>> Find();
  // Any thread; Find returns CANCELLED.
  void Cancel();

 private:
  struct Candidate {
    std::string address;
    std::optional<absl::Status> failed;  // its last answer, if that was none or a refusal
    bool stands_by = false;              // its last answer
    std::string named;                   // whom it named as the one that leads
    grpc::ClientContext* asking = nullptr;
    std::thread thread;

    bool HasAnswered() const { return stands_by || failed.has_value(); }
  };

  // With the lock held:
  void Add(const std::string& address);
  void Start(Candidate& candidate);
  void StartNext();
  bool IsHopeless() const;
  void Heard(Candidate& candidate, const std::shared_ptr<Line>& line,
             absl::StatusOr<v1::GetServerResponse> answer);
  absl::Status NoneLeads() const;
  absl::Status OneStandsBy(const Candidate& candidate) const;

  void Ask(Candidate& candidate);
  void Stop();

  const Terms terms_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Candidate>> candidates_;  // in the order in which they are tried
  size_t started_ = 0;
  std::chrono::steady_clock::time_point last_start_;
  std::shared_ptr<const Line> leading_;
  std::optional<absl::Status> refused_;  // the leading one cannot be used
  bool is_over_ = false;
  bool is_cancelled_ = false;
};

}  // namespace muster::client
