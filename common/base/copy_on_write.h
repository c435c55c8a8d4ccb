// A value that copies share until one of them edits it. Copies may be on several threads; each copy is used by
// one thread at a time. The reference that Get returns dangles once the copy's owner edits or drops it, unless
// another copy keeps the value: do not hold it across an edit.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace muster::common {

template <typename T>
class CopyOnWrite {
 public:
  CopyOnWrite() : box_(new Box) {}
  CopyOnWrite(const CopyOnWrite& other) : box_(other.box_) {
    if (box_ != nullptr) box_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  CopyOnWrite(CopyOnWrite&& other) noexcept : box_(std::exchange(other.box_, nullptr)) {}
  CopyOnWrite& operator=(CopyOnWrite other) noexcept {
    std::swap(box_, other.box_);
    return *this;
  }
  ~CopyOnWrite() {
    if (box_ != nullptr && box_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete box_;
  }

  const T& Get() const { return box_->value; }
  T& Edit() {
    // Acquire: all reads of the value by other threads happen before this write.
    if (box_->owners.load(std::memory_order_acquire) != 1) {
      CopyOnWrite own;
      own.box_->value = box_->value;
      std::swap(box_, own.box_);
    }
    return box_->value;
  }

 private:
  struct Box {
    std::atomic<uint32_t> owners = 1;
    T value;
  };
  Box* box_;
};

}  // namespace muster::common
