// The records of live jobs, by number. Copies share the records, whose environments are large and may be
// secret, until one of them edits a record: so a plan sees whole jobs without copying them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "common/base/copy_on_write.h"
#include "common/base/status.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

class JobRecords {
  using Records = std::map<uint64_t, common::CopyOnWrite<v1::JobRecord>>;

 public:
  struct Entry {
    uint64_t first;
    const v1::JobRecord& second;
    const Entry* operator->() const { return this; }
  };
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    using pointer = Entry;
    using reference = Entry;

    Iterator() = default;
    explicit Iterator(Records::const_iterator at) : at_(at) {}
    Entry operator*() const { return {at_->first, at_->second.Get()}; }
    Entry operator->() const { return **this; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    Iterator& operator--() {
      --at_;
      return *this;
    }
    Iterator operator--(int) { return Iterator(at_--); }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    Records::const_iterator at_;
  };

  Iterator begin() const { return Iterator(records_.begin()); }
  Iterator end() const { return Iterator(records_.end()); }
  std::reverse_iterator<Iterator> rbegin() const { return std::make_reverse_iterator(end()); }
  std::reverse_iterator<Iterator> rend() const { return std::make_reverse_iterator(begin()); }
  Iterator find(uint64_t id) const { return Iterator(records_.find(id)); }
  Iterator lower_bound(uint64_t id) const { return Iterator(records_.lower_bound(id)); }
  bool contains(uint64_t id) const { return records_.contains(id); }
  size_t size() const { return records_.size(); }
  bool empty() const { return records_.empty(); }
  const v1::JobRecord& at(uint64_t id) const { return Found(id)->second.Get(); }

  // After this call, references to the record that were returned earlier may refer to the record of
  // a copy.
  v1::JobRecord& Edit(uint64_t id) {
    const auto found = records_.find(id);
    CHECK(found != records_.end());  // as in Found
    return found->second.Edit();
  }
  v1::JobRecord& Add(uint64_t id) { return records_[id].Edit(); }
  // Shares the record of `from`, which must contain it.
  void Share(uint64_t id, const JobRecords& from) {
    records_.insert_or_assign(id, from.Found(id)->second);
  }
  v1::JobRecord Take(uint64_t id) {
    v1::JobRecord record = std::move(Edit(id));
    records_.erase(id);
    return record;
  }

 private:
  Records::const_iterator Found(uint64_t id) const {
    const auto found = records_.find(id);
    CHECK(found != records_.end());  // numbers come from the state's own indexes, or from find
    return found;
  }

  Records records_;
};

}  // namespace muster::coordinator
