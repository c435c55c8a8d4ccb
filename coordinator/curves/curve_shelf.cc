#include "coordinator/curves/curve_shelf.h"

#include <utility>

namespace muster::coordinator {

std::shared_ptr<SharedBook> CurveShelf::Take(uint64_t job) {
  std::lock_guard lock(mutex_);
  if (const auto* book = books_.Find(job); book != nullptr) return *book;
  CurveChoice all;
  all.buckets = kBuckets;
  return books_.Put(job, std::make_shared<SharedBook>(metrics_, job, std::move(all)), 0);
}

void CurveShelf::Grew(SharedBook& book, size_t size) {
  std::lock_guard lock(mutex_);
  const auto* kept = books_.Peek(book.job);
  if (kept != nullptr && kept->get() == &book) books_.SetWeight(book.job, size);
}

bool CurveShelf::BeginLook() {
  if (looks_.fetch_add(1) < kLooksMax) return true;
  looks_.fetch_sub(1);
  return false;
}

}  // namespace muster::coordinator
