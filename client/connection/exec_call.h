// One call of ExecService as jobctl sees it: bidirectional and blocking.
#pragma once

#include "absl/status/status.h"
#include "muster/v1/exec.pb.h"

namespace muster::client {

class ExecCall {
 public:
  virtual ~ExecCall() = default;
  // Waits until the coordinator accepts the message. False: the call is over. Any thread, several
  // at once.
  virtual bool Write(const v1::ExecInput& message) = 0;
  // False: the call is over. One thread.
  virtual bool Read(v1::ExecOutput* message) = 0;
  // How it ended; after Read was false.
  virtual absl::Status Finish() = 0;
  // Any thread; Write and Read return.
  virtual void Cancel() = 0;
};

}  // namespace muster::client
