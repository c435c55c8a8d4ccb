// Whose code objects are whose, in memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/stores/code_store.h"

namespace muster::coordinator {

// Outlives the stores that are opened on it, as a database does.
struct MemoryCode {
  struct Held {
    uint64_t size = 0;
    int64_t used_ms = 0;
    std::string giver;
  };
  struct Code {
    std::set<std::string> objects;
    int64_t used_ms = 0;
  };
  std::mutex mutex;                                             // guards what follows
  std::map<std::pair<std::string, std::string>, Held> objects;  // by project and hash
  std::map<CodeName, Code> code;
};

class MemoryCodeStore final : public CodeStore {
 public:
  explicit MemoryCodeStore(std::shared_ptr<MemoryCode> kept) : kept_(std::move(kept)) {}

  absl::StatusOr<std::vector<bool>> Use(const std::string& project,
                                        const std::vector<CodeObject>& objects,
                                        int64_t now_ms) override;
  absl::Status Add(const std::string& project, const CodeObject& object, const std::string& giver,
                   int64_t now_ms) override;
  absl::StatusOr<uint64_t> UsedBytes(const std::string& project) override;
  absl::StatusOr<uint64_t> GivenBytes(const std::string& giver) override;
  absl::StatusOr<std::map<std::string, uint64_t>> Given() override;
  absl::Status PutCode(const CodeName& code, const std::vector<std::string>& objects,
                       int64_t now_ms) override;
  absl::StatusOr<std::vector<std::string>> ObjectsOf(const CodeName& code) override;
  absl::StatusOr<std::vector<std::string>> Referenced(
      const std::vector<std::string>& blobs) override;
  absl::StatusOr<std::vector<CodeName>> OldCode(int64_t before_ms, uint32_t most) override;
  absl::Status KeepCode(const CodeName& code, int64_t now_ms) override;
  absl::Status RemoveCode(const CodeName& code, int64_t before_ms) override;
  absl::StatusOr<std::vector<std::string>> RemoveObjects(int64_t before_ms, int64_t now_ms,
                                                         uint32_t most) override;

 private:
  bool IsUsed(const std::string& project, const std::string& sha256) const;

  const std::shared_ptr<MemoryCode> kept_;
};

}  // namespace muster::coordinator
