// What the workers of `./dev bench scale` upload: a rank's output, metrics and samples, in the streams of muster-worker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster::bench {

// A rank of a running job, and its node.
struct Writing {
  uint64_t job = 0;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  std::string node;
};

inline constexpr int kPiecesEach = 20;             // of each stream
inline constexpr size_t kOutputPieceBytes = 4096;  // as of a rank that prints forty lines at a time

// Each sends kPiecesEach pieces of output, as many batches of ten points and as many samples, over a separate connection.
class Writers {
 public:
  Writers(const std::string& endpoint, const std::vector<Writing>& who);
  ~Writers();

  // Until all is acknowledged, which samples are not. False: not within a minute, or a stream broke.
  bool Run();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::bench
