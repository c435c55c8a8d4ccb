#include "coordinator/periodic/object_garbage.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

constexpr size_t kDoomedAtOnce = 1'000;
constexpr std::chrono::minutes kCollectedEvery{5};
// What is remembered between sweeps; more is found at a later one.
constexpr size_t kSeenMost = 100'000;

}  // namespace

ObjectGarbage::ObjectGarbage(Objects& objects, ObjectNames& names, const std::string& prefix,
                             std::vector<Kept> others)
    : objects_(objects), names_(names), kept_(std::move(others)) {
  kept_.push_back({prefix, [this](const auto& keys) { return names_.Unknown(keys); }});
}

bool ObjectGarbage::IsOurs(const std::string& key) const {
  return std::any_of(kept_.begin(), kept_.end(),
                     [&](const Kept& kept) { return key.starts_with(kept.prefix); });
}

std::vector<std::string> ObjectGarbage::Seen::Old(const std::vector<std::string>& found,
                                                  int64_t lived_ms) {
  std::vector<std::string> old;
  for (const std::string& each : found) {
    if (first_.size() >= kSeenMost && !first_.contains(each)) continue;
    const auto [place, is_new] = first_.try_emplace(each, lived_ms);
    now_.insert(each);
    if (lived_ms - place->second >= std::chrono::milliseconds(kUnnamedKept).count())
      old.push_back(each);
  }
  return old;
}

void ObjectGarbage::Seen::EndOfSweep() {
  std::erase_if(first_, [this](const auto& entry) { return !now_.contains(entry.first); });
  now_.clear();
}

absl::Status ObjectGarbage::DeleteDoomed(int64_t lived_ms) {
  const int64_t before_ms = lived_ms - std::chrono::milliseconds(kDoomedKept).count();
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<std::string> doomed,
                     names_.DoomedBefore(before_ms, kDoomedAtOnce));
    if (doomed.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(objects_.Delete(doomed));
    RETURN_IF_ERROR(names_.Forget(doomed));
  }
}

absl::Status ObjectGarbage::DeleteUnnamed(int64_t lived_ms) {
  // First: from now on no upload names what these would have made.
  RETURN_IF_ERROR(
      names_.DropUploadsBefore(lived_ms - std::chrono::milliseconds(kUnnamedKept).count()));
  size_t deleted = 0;
  for (const Kept& kept : kept_) {
    ASSIGN_OR_RETURN(const size_t here, DeleteUnnamed(kept, lived_ms));
    deleted += here;
  }
  unnamed_.EndOfSweep();
  if (deleted > 0)
    common::LogInfo(common::StrCat("objects: deleted what was never named count=", deleted));
  return AbortUploads(lived_ms);
}

absl::StatusOr<size_t> ObjectGarbage::DeleteUnnamed(const Kept& kept, int64_t lived_ms) {
  size_t deleted = 0;
  std::string from;
  do {
    ASSIGN_OR_RETURN(const Objects::Page page, objects_.List(kept.prefix, from));
    std::vector<std::string> keys;
    for (const ObjectInfo& object : page.objects) keys.push_back(object.key);
    ASSIGN_OR_RETURN(const std::vector<std::string> unnamed, kept.unknown(keys));
    const std::vector<std::string> old = unnamed_.Old(unnamed, lived_ms);
    if (!old.empty()) RETURN_IF_ERROR(objects_.Delete(old));
    deleted += old.size();
    from = page.next;
  } while (!from.empty());
  return deleted;
}

absl::Status ObjectGarbage::Collect(int64_t lived_ms) {
  RETURN_IF_ERROR(DeleteDoomed(lived_ms));
  if (swept_ms_ != 0 && lived_ms - swept_ms_ < std::chrono::milliseconds(kSweepEvery).count())
    return absl::OkStatus();
  swept_ms_ = lived_ms;
  return DeleteUnnamed(lived_ms);
}

void CollectObjects(ObjectGarbage& garbage, const common::Clock& clock, WorkPool& pool) {
  pool.Post([&] {
    if (const absl::Status done = garbage.Collect(clock.Read().lived_ms); !done.ok())
      common::LogWarning(
          common::StrCat("objects: garbage is kept for now: ", common::MessageOf(done)));
    pool.PostAfter(kCollectedEvery, [&] { CollectObjects(garbage, clock, pool); });
  });
}

absl::Status ObjectGarbage::AbortUploads(int64_t lived_ms) {
  std::string from;
  do {
    ASSIGN_OR_RETURN(const Objects::UploadPage page, objects_.OpenUploads(from));
    for (const Objects::OpenUpload& open : page.uploads) {
      // One whose beginning broke off has no key.
      if (!open.upload.key.empty() && !IsOurs(open.upload.key)) continue;
      if (!uploads_.Old({open.upload.id}, lived_ms).empty())
        RETURN_IF_ERROR(objects_.Abort(open.upload));
    }
    from = page.next;
  } while (!from.empty());
  uploads_.EndOfSweep();
  return absl::OkStatus();
}

}  // namespace muster::coordinator
