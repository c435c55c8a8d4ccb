// How often each call of JobService was made, by gRPC and by HTTP. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/calls.h"

namespace muster::coordinator {

#define MUSTER_CALL_ID(name, Request, Answer, action, object, cost) k##name,
enum class CallId : size_t {
  MUSTER_JOB_CALLS(MUSTER_CALL_ID, MUSTER_CALL_ID, MUSTER_CALL_ID, MUSTER_CALL_ID) kCount
};
#undef MUSTER_CALL_ID

enum class Way : size_t { kGrpc, kHttp };

class CallCounts {
 public:
  void Add(CallId call, Way way) {
    counts_[static_cast<size_t>(way)][static_cast<size_t>(call)].fetch_add(
        1, std::memory_order_relaxed);
  }
  // use("GetJob", "grpc", 7) for every call and each of the two, including unused ones.
  template <typename Use>
  void ForEach(Use use) const {
#define MUSTER_CALL_NAME(name, Request, Answer, action, object, cost) #name,
    static constexpr std::string_view kNames[] = {
        MUSTER_JOB_CALLS(MUSTER_CALL_NAME, MUSTER_CALL_NAME, MUSTER_CALL_NAME, MUSTER_CALL_NAME)};
#undef MUSTER_CALL_NAME
    static constexpr std::string_view kWays[] = {"grpc", "http"};
    for (size_t call = 0; call < kCalls; ++call) {
      for (size_t way = 0; way < kWayCount; ++way) {
        use(kNames[call], kWays[way], counts_[way][call].load(std::memory_order_relaxed));
      }
    }
  }

 private:
  static constexpr size_t kCalls = static_cast<size_t>(CallId::kCount);
  static constexpr size_t kWayCount = 2;
  std::array<std::array<std::atomic<uint64_t>, kCalls>, kWayCount> counts_{};
};

}  // namespace muster::coordinator
