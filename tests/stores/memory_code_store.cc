#include "tests/stores/memory_code_store.h"

#include <algorithm>

namespace muster::coordinator {

absl::StatusOr<std::vector<bool>> MemoryCodeStore::Use(const std::string& project,
                                                       const std::vector<CodeObject>& objects,
                                                       int64_t now_ms) {
  std::lock_guard lock(kept_->mutex);
  std::vector<bool> has;
  for (const CodeObject& object : objects) {
    const auto held = kept_->objects.find({project, object.sha256});
    has.push_back(held != kept_->objects.end() && held->second.size == object.size);
    if (has.back() && held->second.used_ms <= now_ms - kUseRecordedEveryMs)
      held->second.used_ms = now_ms;
  }
  return has;
}

absl::Status MemoryCodeStore::Add(const std::string& project, const CodeObject& object,
                                  const std::string& giver, int64_t now_ms) {
  std::lock_guard lock(kept_->mutex);
  const auto [held, is_new] =
      kept_->objects.try_emplace({project, object.sha256}, MemoryCode::Held{.giver = giver});
  held->second.size = object.size;
  held->second.used_ms = now_ms;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> MemoryCodeStore::GivenBytes(const std::string& giver) {
  const auto given = Given();
  const auto found = given->find(giver);
  return found == given->end() ? 0 : found->second;
}

absl::StatusOr<std::map<std::string, uint64_t>> MemoryCodeStore::Given() {
  std::lock_guard lock(kept_->mutex);
  std::map<std::string, uint64_t> given;
  for (const auto& [key, held] : kept_->objects) given[held.giver] += Charge(held.size);
  return given;
}

absl::StatusOr<uint64_t> MemoryCodeStore::UsedBytes(const std::string& project) {
  std::lock_guard lock(kept_->mutex);
  uint64_t bytes = 0;
  for (const auto& [key, held] : kept_->objects) {
    if (key.first == project) bytes += Charge(held.size);
  }
  return bytes;
}

absl::Status MemoryCodeStore::PutCode(const CodeName& code, const std::vector<std::string>& objects,
                                      int64_t now_ms) {
  std::lock_guard lock(kept_->mutex);
  for (const std::string& object : objects) {
    if (!kept_->objects.contains({code.project, object})) return absl::NotFoundError(object);
  }
  MemoryCode::Code& put = kept_->code[code];
  put.used_ms = now_ms;
  if (put.objects.empty()) put.objects = {objects.begin(), objects.end()};
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemoryCodeStore::ObjectsOf(const CodeName& code) {
  std::lock_guard lock(kept_->mutex);
  const auto found = kept_->code.find(code);
  if (found == kept_->code.end()) return std::vector<std::string>();
  return std::vector<std::string>(found->second.objects.begin(), found->second.objects.end());
}

absl::StatusOr<std::vector<std::string>> MemoryCodeStore::Referenced(
    const std::vector<std::string>& blobs) {
  std::lock_guard lock(kept_->mutex);
  std::set<std::string> known;
  for (const auto& [key, held] : kept_->objects) known.insert(key.second);
  std::vector<std::string> referenced;
  for (const std::string& blob : blobs) {
    if (known.contains(blob)) referenced.push_back(blob);
  }
  return referenced;
}

absl::StatusOr<std::vector<CodeName>> MemoryCodeStore::OldCode(int64_t before_ms, uint32_t most) {
  std::lock_guard lock(kept_->mutex);
  std::vector<std::pair<int64_t, CodeName>> old;
  for (const auto& [name, code] : kept_->code) {
    if (code.used_ms < before_ms) old.emplace_back(code.used_ms, name);
  }
  std::sort(old.begin(), old.end());
  if (old.size() > most) old.resize(most);
  std::vector<CodeName> names;
  for (auto& [used_ms, name] : old) names.push_back(std::move(name));
  return names;
}

absl::Status MemoryCodeStore::KeepCode(const CodeName& code, int64_t now_ms) {
  std::lock_guard lock(kept_->mutex);
  const auto found = kept_->code.find(code);
  if (found != kept_->code.end()) found->second.used_ms = now_ms;
  return absl::OkStatus();
}

absl::Status MemoryCodeStore::RemoveCode(const CodeName& code, int64_t before_ms) {
  std::lock_guard lock(kept_->mutex);
  const auto found = kept_->code.find(code);
  if (found != kept_->code.end() && found->second.used_ms < before_ms) kept_->code.erase(found);
  return absl::OkStatus();
}

bool MemoryCodeStore::IsUsed(const std::string& project, const std::string& sha256) const {
  return std::any_of(kept_->code.begin(), kept_->code.end(), [&](const auto& each) {
    return each.first.project == project && each.second.objects.contains(sha256);
  });
}

absl::StatusOr<std::vector<std::string>> MemoryCodeStore::RemoveObjects(int64_t before_ms,
                                                                        int64_t now_ms,
                                                                        uint32_t most) {
  std::lock_guard lock(kept_->mutex);
  std::vector<std::pair<int64_t, std::pair<std::string, std::string>>> old;
  for (const auto& [key, held] : kept_->objects) {
    if (held.used_ms < before_ms) old.emplace_back(held.used_ms, key);
  }
  std::sort(old.begin(), old.end());
  if (old.size() > most) old.resize(most);
  std::vector<std::string> removed;
  for (const auto& [used_ms, key] : old) {
    if (IsUsed(key.first, key.second)) {
      kept_->objects[key].used_ms = now_ms;
    } else {
      removed.push_back(key.second);
      kept_->objects.erase(key);
    }
  }
  return removed;
}

}  // namespace muster::coordinator
