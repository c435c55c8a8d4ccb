// The daemon as an object: wires the parts in order, starts them, ends them in order. main.cc adds
// the process around it; tests use it in their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/config.h"

namespace muster::coordinator {

class Coordinator {
 public:
  // `stop` is called (any thread, maybe more than once) when the daemon should end: OK, its time is
  // over (a private one without clients and jobs); else the sentence to end with.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(
      const Config& config, std::function<void(const absl::Status&)> stop);
  ~Coordinator();

  // Orderly: what was acknowledged is durable, the private worker has ended, the socket is gone.
  void Shutdown();
  // The disk is full to the last byte: an orderly end would wait for room. OK, or why.
  absl::Status CannotRecord() const;
  // For an end as after a crash, which recovers at the next start: only the private worker is
  // ended.
  void StopWorker();
  // "unix:/path" or "ADDR:PORT", as clients say it.
  std::string Endpoint() const;

 private:
  struct Parts;
  explicit Coordinator(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::coordinator
