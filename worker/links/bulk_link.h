// The bulk channel: streams for logs, metrics and samples, on a separate connection. Lives on the
// I/O thread; gRPC's threads only post into its mailbox. Redials indefinitely with full jitter once
// it knows an endpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/v1/worker_service.pb.h"
#include "worker/base/mailbox.h"
#include "worker/links/route.h"

namespace muster::worker {

class BulkLink {
 public:
  // Called on the I/O thread.
  struct Callbacks {
    std::function<void()> logs_up;  // a new stream: resend from the acknowledged offsets
    std::function<void()> metrics_up;
    std::function<void(const v1::LogAck&)> log_ack;
    std::function<void(const v1::MetricAck&)> metric_ack;
    std::function<void()> writable;  // CanSend… may have become true
  };

  BulkLink(Mailbox* io, Callbacks callbacks, uint64_t jitter_seed);
  ~BulkLink();

  // All streams use this route from now on. Called at each registration: dials immediately.
  void SetRoute(const Route& route);
  void MaybeDial(int64_t now_ms);
  std::optional<int64_t> NextDialMs() const;

  bool CanSendLogs() const;
  void SendLogs(v1::LogChunk chunk);
  bool CanSendMetrics() const;
  void SendMetrics(v1::MetricBatch batch);
  // Whether to keep the stream of samples open. It stays closed while the worker is idle, and if the
  // coordinator does not know the call.
  void WantSamples(bool wanted);
  bool CanSendSamples() const;
  void SendSamples(v1::SampleBatch batch);
  // Blocks until the streams are gone.
  void Shutdown();

 private:
  struct Parts;  // keeps gRPC out of this header
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::worker
