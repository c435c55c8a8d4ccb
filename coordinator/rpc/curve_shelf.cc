#include "coordinator/rpc/curve_shelf.h"

#include <algorithm>

namespace muster::coordinator {

std::shared_ptr<SharedBook> CurveShelf::Take(uint64_t job) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(books_.begin(), books_.end(),
                                  [job](const auto& shared) { return shared->job == job; });
  if (found != books_.end()) {
    books_.splice(books_.begin(), books_, found);
  } else {
    CurveChoice all;
    all.buckets = kBuckets;
    books_.push_front(std::make_shared<SharedBook>(metrics_, job, std::move(all)));
    MakeRoom();
  }
  return books_.front();
}

void CurveShelf::Grew(SharedBook& book, size_t size) {
  std::lock_guard lock(mutex_);
  book.size = size;
  MakeRoom();
}

bool CurveShelf::BeginLook() {
  if (looks_.fetch_add(1) < kLooksMax) return true;
  looks_.fetch_sub(1);
  return false;
}

void CurveShelf::MakeRoom() {
  size_t buckets = 0;
  size_t books = 0;
  for (auto book = books_.begin(); book != books_.end();) {
    buckets += (*book)->size;
    ++books;
    const bool fits = books == 1 || (books <= kBooksMax && buckets <= kBucketsMax);
    book = fits ? std::next(book) : books_.erase(book);
  }
}

}  // namespace muster::coordinator
