// Which code objects belong to whom, in the tables code_* of the journal's SQLite file, over a separate
// connection. One call at a time; large changes are written in batches, each in its turn (write_turns.h), so
// that the journal's commits in between wait for milliseconds.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/stores/code_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class SqliteCodeStore final : public CodeStore {
 public:
  // Call it after the journal has created the tables, and pass the journal's turns.
  static absl::StatusOr<std::unique_ptr<CodeStore>> Open(const Paths& paths,
                                                         std::shared_ptr<WriteTurns> turns);

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
  explicit SqliteCodeStore(std::shared_ptr<WriteTurns> turns) : turns_(std::move(turns)) {}

  // The bytes of the objects whose column has this value.
  absl::StatusOr<uint64_t> ChargedBytes(std::string_view column, const std::string& value);

  // All with the lock held.
  struct Row {
    int64_t id = 0;  // 0: there is none
    int64_t used_ms = 0;
    bool is_whole = false;
  };
  absl::StatusOr<Row> FindCode(const CodeName& code);
  absl::Status InsertCode(const CodeName& code, int64_t now_ms);
  absl::Status AddUse(Statement& add, const CodeName& code, int64_t id, const std::string& sha256);
  // do_one(i) for each below `count`, a batch per transaction.
  absl::Status InBatches(size_t count, const std::function<absl::Status(size_t)>& do_one);
  absl::Status Atomically(const std::function<absl::Status()>& work) {
    return turns_->Write(*database_, work);
  }

  const std::shared_ptr<WriteTurns> turns_;
  std::mutex mutex_;  // guards the connection
  std::unique_ptr<Database> database_;
};

}  // namespace muster::coordinator
