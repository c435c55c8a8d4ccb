// Which streams push objects of jobs' code now: so many at most, and only one writes the same object
// of a project at a time, while others that bring it wait their turn. Any thread.
#pragma once

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
  static constexpr size_t kStreamsMax = 64;       // each keeps one chunk
  static constexpr size_t kStreamsOfOneMax = 16;  // of one person

  // RESOURCE_EXHAUSTED (JC1703): too many streams.
  absl::Status Enter(const std::string& principal);
  void Leave(const std::string& principal);

  struct Object {
    std::string project;
    std::string sha256;
    auto operator<=>(const Object&) const = default;
  };
  // `granted`: the caller alone may write it, until Release. Called here, or by the stream that
  // releases it.
  void Claim(const Object& object, uint64_t size, std::function<void()> granted);
  void Release(const Object& object);
  // The objects of a project that are being written, with their whole sizes.
  std::map<std::string, uint64_t> UnderWay(const std::string& project);

 private:
  struct Writer {
    uint64_t size = 0;
    std::deque<std::function<void()>> waiting;
  };

  std::mutex mutex_;  // guards what follows
  size_t streams_ = 0;
  std::map<std::string, size_t> streams_of_;
  std::map<Object, Writer> writers_;
};

}  // namespace muster::coordinator
