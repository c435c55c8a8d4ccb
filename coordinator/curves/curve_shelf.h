// Curves of the jobs that people look at, kept so that the next look reads only what is new. Any
// thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "common/base/lru_map.h"
#include "coordinator/curves/curve_book.h"

namespace muster::coordinator {

// A book and who reads on in it now.
struct SharedBook {
  SharedBook(const MetricStore& metrics, uint64_t of, CurveChoice choice)
      : job(of), book(metrics, of, std::move(choice)) {}
  const uint64_t job;
  std::mutex mutex;  // guards what follows
  CurveBook book;
};

class CurveShelf {
 public:
  // Of each curve on the shelf, if its book has room: enough for a chart as wide as a screen.
  static constexpr size_t kBuckets = 4'096;
  // Over all books, some 100 bytes each. The ones used last stay, the newest one always.
  static constexpr size_t kBucketsMax = 500'000;
  static constexpr size_t kBooksMax = 16;

  static constexpr size_t kLooksMax = 4;

  explicit CurveShelf(const MetricStore& metrics) : metrics_(metrics) {}

  // All metrics and steps of a job.
  std::shared_ptr<SharedBook> Take(uint64_t job);
  // It has been read on, to that many buckets.
  void Grew(SharedBook& book, size_t size);

  // A closer look reads a separate book. False: too many are in progress.
  bool BeginLook();
  void EndLook() { looks_.fetch_sub(1); }

 private:
  const MetricStore& metrics_;
  std::atomic<size_t> looks_ = 0;
  std::mutex mutex_;  // guards what follows
  // By job; their weight is the buckets they had when they were last read.
  common::LruMap<uint64_t, std::shared_ptr<SharedBook>> books_{kBooksMax, kBucketsMax};
};

}  // namespace muster::coordinator
