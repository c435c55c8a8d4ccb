// The daemon as an object: creates the parts, starts them, and shuts them down in reverse. main.cc
// adds the process around it; tests run it in their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/config/config.h"
#include "coordinator/stores/leading.h"

namespace muster::coordinator {

class Coordinator {
 public:
  // `stop` is called (any thread, maybe more than once) when the daemon should exit: with OK if it
  // is no longer needed (a private one without clients and jobs), otherwise with the error to exit
  // with. `leading`: it leads among several, and does so as long as this lives; null: it is alone.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(
      const Config& config, std::function<void(const absl::Status&)> stop,
      const Leading* leading = nullptr);
  ~Coordinator();

  // A graceful shutdown: everything that was acknowledged is durable, the private worker has
  // exited, the socket is removed.
  void Shutdown();
  // Not OK if the disk is completely full: a graceful shutdown would wait for room.
  absl::Status CannotRecord() const;
  // For a shutdown like a crash, from which the next start recovers: only the private worker is
  // stopped.
  void StopWorker();
  // "unix:/path" or "ADDR:PORT", as clients specify it.
  std::string Endpoint() const;

 private:
  struct Parts;
  explicit Coordinator(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::coordinator
