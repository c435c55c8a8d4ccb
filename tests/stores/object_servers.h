// Real servers that speak S3, for tests: started on loopback when first asked for, killed when the test ends.
#pragma once

#include <memory>
#include <string>

#include "coordinator/s3/client.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator {

struct ObjectServer {
  std::string skipped;  // why there is none; empty: it runs
  int port = 0;
};

inline constexpr char kServerKey[] = "muster-key";
inline constexpr char kServerSecret[] = "muster-secret-value";
inline constexpr char kServerBucket[] = "muster-test";

// Verifies signatures, and knows conditions.
const ObjectServer& SeaweedFs();
// Verifies signatures, and ignores conditions.
const ObjectServer& Rclone();

// The bucket behind a port of loopback, with keys below `prefix`.
s3::ClientOptions OptionsOf(int port, const std::string& prefix);

}  // namespace muster::coordinator
