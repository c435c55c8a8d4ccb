// Shows the user how a job's code is sent to the coordinator: what is sent, the progress, the result.
// Main thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/code/code_choice.h"
#include "client/code/code_upload.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::client {

class Connection;
class Session;

// Since this protocol version, coordinators support code, setup, outputs and containers.
inline constexpr uint32_t kCodeProtocol = 3;

// JC1715: the coordinator would ignore them.
absl::Status CheckPrepares(const Connection& connection);

// Sends the directory that `choice` names, if any, and puts it into the spec. Call it after
// everything else in the spec was checked. Errors: those of UploadTree, JC1714, the coordinator's.
absl::Status SendCode(Session& session, const CodeChoice& choice, v1::JobSpec* spec);

// "code: 12 files read; sent 1 MB of 4 MB, 10 MB/s", after `seconds` of sending. Pure.
std::string UploadText(const UploadProgress& progress, double seconds);

// For requests that change nothing (plan, --dry-run): removes code that would have to be sent from
// the spec.
void LeaveOutCode(const CodeChoice& choice, v1::JobSpec* spec);

}  // namespace muster::client
