// <state-dir>/code: unpacked trees, images and the results of setups, kept for later attempts. An entry is
// a directory that is complete once it has its `size` file, whose modification time is that of its last
// use. When the cache is too large or the disk too full, the least recently used entries are removed,
// but never one that an attempt uses. Any thread that may block.
//
// Trees are closed to every other account. The result of a setup is readable by the account whose ranks
// use it, under a name that no other account can guess or list.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/base/paths.h"

namespace muster::worker {

// limit: images: cached trees, images and setups (default of `--cache-size`); the least recently used that nothing
// uses goes
inline constexpr uint64_t kCodeCacheBytes = 50'000'000'000;  // default of --cache-size
// The space that it leaves free on its disk, which also has the spools of all jobs.
// limit: images: left free on the disk of that cache
inline constexpr uint64_t kCacheSpareBytes = 256 << 20;

class CodeCache {
  struct Held {
    std::mutex mutex;                 // guards what follows
    std::map<std::string, int> uses;  // how often each entry is in use, by path
  };

 public:
  // Keeps an entry from being collected.
  class Pin {
   public:
    Pin() = default;
    Pin(std::shared_ptr<Held> held, std::string path);
    Pin(Pin&&) noexcept = default;
    Pin& operator=(Pin&& other) noexcept;
    ~Pin() { Release(); }

   private:
    void Release();
    std::shared_ptr<Held> held_;
    std::string path_;
  };

  struct Options {
    std::string node;         // for messages
    bool for_others = false;  // ranks have other accounts, which must reach their setups
    uint64_t bytes_max = kCodeCacheBytes;
  };
  CodeCache(Paths paths, Options options)
      : paths_(std::move(paths)), options_(std::move(options)) {}

  // Makes the directories; the first time, removes what an earlier worker left incomplete.
  absl::Status Open();

  std::string TreePath(std::string_view project, std::string_view tree) const;
  // `manifest`: its SHA-256, as hex.
  std::string ImagePath(std::string_view manifest) const;
  // `facts`: everything that the result depends on. Call Open first.
  std::string SetupPath(const std::vector<std::string>& facts) const;

  Pin Hold(const std::string& path);
  // True if the entry exists and is complete; it is then the most recently used.
  bool Use(const std::string& path) const;
  // Marks the entry as complete, and makes it durable.
  absl::Status Complete(const std::string& path, uint64_t bytes) const;
  // Moves the entry away at once, complete or not, then removes it.
  void Discard(const std::string& path);
  // An empty directory to make an entry in, closed to other accounts.
  absl::StatusOr<std::string> NewDirectory();

  // Removes entries that nothing uses: until the rest is small enough …
  void Collect();
  // … and until so much is free. RESOURCE_EXHAUSTED names the node, the path, what is needed and what
  // is free. `what`: "the job's code".
  absl::Status MakeRoom(std::string_view what, uint64_t bytes);

 private:
  struct Entry {
    std::string path;
    uint64_t bytes = 0;
    int64_t used_ns = 0;
  };
  // Those that nothing uses, the least recently used first; `total`: of all.
  std::vector<Entry> Unused(uint64_t* total) const;
  std::string ToGarbage(const std::string& path);
  // Removes the least recently used while `wanted` asks for it.
  void RemoveWhile(const std::function<bool(uint64_t total)>& wanted);
  absl::Status OpenSecret();

  const Paths paths_;
  const Options options_;
  std::shared_ptr<Held> held_ = std::make_shared<Held>();
  mutable std::mutex mutex_;  // guards what follows, and moves of entries to garbage/
  bool is_open_ = false;
  std::string secret_;
  uint64_t last_number_ = 0;
};

}  // namespace muster::worker
