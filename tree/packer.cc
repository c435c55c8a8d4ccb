#include "tree/packer.h"

#include <algorithm>

#include "common/base/status.h"

namespace muster::tree {
namespace {

// Each change of one file makes a separate pack. This many small ones are tolerated.
constexpr uint64_t kSmallPackBytes = 1 << 20;
constexpr size_t kSmallPacksMax = 64;

}  // namespace

std::optional<Place> Packer::Find(const Digest& content) const {
  const auto found = places_.find(content);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

Place Packer::Append(const Digest& content, std::string_view bytes) {
  // The caller decides by the file's size, and ReadStable rejects a file with more or fewer bytes.
  CHECK(!bytes.empty() && bytes.size() < kOwnObjectBytes);
  if (!open_) {
    open_.emplace();
    open_object_ = static_cast<uint32_t>(objects_.size());
    objects_.push_back({});
  }
  Object& pack = objects_[open_object_];
  const Place place{open_object_, pack.size};
  open_->Update(bytes);
  pack.size += bytes.size();
  places_[content] = place;
  if (pack.size >= kPackBytes) Finish();
  return place;
}

Place Packer::AddOwn(const Digest& content, uint64_t size) {
  const Place place{static_cast<uint32_t>(objects_.size()), 0};
  objects_.push_back({content, size});
  places_[content] = place;
  return place;
}

void Packer::Finish() {
  if (!open_) return;
  objects_[open_object_].name = muster::tree::Finish(*open_);
  open_.reset();
}

void Packer::Abandon(const std::vector<bool>& objects) {
  absl::erase_if(places_, [&](const auto& each) {
    return each.second.object < objects.size() && objects[each.second.object];
  });
}

std::vector<bool> SparsePacks(const std::vector<Object>& objects,
                              const std::vector<uint64_t>& used) {
  std::vector<bool> sparse(objects.size());
  size_t small = 0;
  const auto is_small = [&](size_t i) {
    return used[i] > 0 && !sparse[i] && objects[i].size < kSmallPackBytes;
  };
  for (size_t i = 0; i < objects.size(); ++i) {
    sparse[i] = used[i] > 0 && used[i] < objects[i].size - used[i];
    if (is_small(i)) ++small;
  }
  if (small <= kSmallPacksMax) return sparse;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (is_small(i)) sparse[i] = true;
  }
  return sparse;
}

}  // namespace muster::tree
