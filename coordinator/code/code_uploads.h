// The streams that push objects of jobs' code now. Their number is limited, and only one at a time writes
// the same object of a project; others that bring it wait their turn. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace muster::coordinator {

class CodeUploads {
 public:
  // limit: code: streams of `PushObjects`; JC1703
  static constexpr size_t kStreamsMax = 64;  // each keeps one chunk
  // limit: code: the same of one person; JC1703
  static constexpr size_t kStreamsOfOneMax = 16;  // of one person

  // RESOURCE_EXHAUSTED (JC1703): too many streams.
  absl::Status Enter(const std::string& principal);
  void Leave(const std::string& principal);

  struct Object {
    std::string project;
    std::string sha256;
    auto operator<=>(const Object&) const = default;
  };
  // `granted`: only the caller may write it, until Release. Called here, or by the stream that releases
  // it.
  void Claim(const Object& object, uint64_t size, std::function<void()> granted);
  void Release(const Object& object);
  // The objects of a project that are being written, with their whole sizes.
  std::map<std::string, uint64_t> UnderWay(const std::string& project);

  // `giver` begins to upload an object of this size, which counts as the giver's from now on; call it before
  // the check of the quota. Returns the total of this and everything else that the giver has begun.
  uint64_t Begin(const Object& object, const std::string& giver, uint64_t bytes);
  // This many bytes have arrived and stay, so that the upload can be continued; 0: all arrived, or none.
  void Interrupt(const Object& object, uint64_t bytes);
  // What a giver has begun, without the objects that `except` names. Parts from before the coordinator's start
  // are not known.
  uint64_t BegunBy(const std::string& giver, const std::function<bool(const Object&)>& except);
  // The total for each giver that has begun something.
  std::map<std::string, uint64_t> Begun();

 private:
  struct Writer {
    uint64_t size = 0;
    std::deque<std::function<void()>> waiting;
  };

  using Steady = std::chrono::steady_clock;
  struct Part {
    std::string giver;
    uint64_t bytes = 0;
    Steady::time_point at;
  };
  using Parts = std::map<Object, Part>;
  // With the lock held. Parts are removed from the disk after a day.
  void ForgetOld();
  Parts::iterator Forget(Parts::iterator part);
  // Returns what the giver has begun, including this.
  uint64_t Keep(const Object& object, const std::string& giver, uint64_t bytes);

  std::mutex mutex_;  // guards what follows
  Parts begun_;
  std::map<std::string, uint64_t> begun_by_;  // the bytes of a giver's parts; none: absent
  Steady::time_point looked_at_;              // for old ones
  size_t streams_ = 0;
  std::map<std::string, size_t> streams_of_;
  std::map<Object, Writer> writers_;
};

}  // namespace muster::coordinator
