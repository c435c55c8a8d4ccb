#include "coordinator/sqlite/code_store.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kRowsPerTransaction = 2'000;

Statement& BindCode(Statement& statement, const CodeName& code) {
  return statement.BindText(1, code.project).BindText(2, code.tree).BindText(3, code.placement);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CodeStore>> SqliteCodeStore::Open(
    const Paths& paths, std::shared_ptr<WriteTurns> turns) {
  std::unique_ptr<SqliteCodeStore> store(new SqliteCodeStore(turns));
  ASSIGN_OR_RETURN(store->database_,
                   OpenForTurns(paths.Database(), *turns, "PRAGMA cache_size=-8192"));
  return store;
}

absl::Status SqliteCodeStore::InBatches(size_t count,
                                        const std::function<absl::Status(size_t)>& do_one) {
  for (size_t begin = 0; begin < count; begin += kRowsPerTransaction) {
    const size_t end = std::min(count, begin + kRowsPerTransaction);
    RETURN_IF_ERROR(Atomically([&]() -> absl::Status {
      for (size_t i = begin; i < end; ++i) RETURN_IF_ERROR(do_one(i));
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<bool>> SqliteCodeStore::Use(const std::string& project,
                                                       const std::vector<CodeObject>& objects,
                                                       int64_t now_ms) {
  std::lock_guard lock(mutex_);
  std::vector<bool> has(objects.size());
  std::vector<int64_t> to_record;
  ASSIGN_OR_RETURN(Statement find,
                   database_->Prepare("SELECT id, size, used_ms FROM code_objects WHERE "
                                      "project = ?1 AND sha256 = ?2"));
  for (size_t i = 0; i < objects.size(); ++i) {
    ASSIGN_OR_RETURN(const bool row,
                     find.BindText(1, project).BindText(2, objects[i].sha256).Step());
    if (row && static_cast<uint64_t>(find.Integer(1)) == objects[i].size) {
      has[i] = true;
      if (find.Integer(2) <= now_ms - kUseRecordedEveryMs) to_record.push_back(find.Integer(0));
    }
    find.Reset();
  }
  if (to_record.empty()) return has;
  ASSIGN_OR_RETURN(Statement record,
                   database_->Prepare("UPDATE code_objects SET used_ms = ?2 WHERE id = ?1"));
  RETURN_IF_ERROR(InBatches(to_record.size(), [&](size_t i) {
    return record.Bind(1, to_record[i]).Bind(2, now_ms).Run();
  }));
  return has;
}

absl::Status SqliteCodeStore::Add(const std::string& project, const CodeObject& object,
                                  const std::string& giver, int64_t now_ms) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement add,
                   database_->Prepare("INSERT INTO code_objects(project, sha256, size, used_ms, "
                                      "giver) VALUES(?1, ?2, ?3, ?4, ?5) "
                                      "ON CONFLICT(project, sha256) DO "
                                      "UPDATE SET size = excluded.size, used_ms = "
                                      "excluded.used_ms"));
  return Atomically([&] {
    return add.BindText(1, project)
        .BindText(2, object.sha256)
        .Bind(3, static_cast<int64_t>(object.size))
        .Bind(4, now_ms)
        .BindText(5, giver)
        .Run();
  });
}

absl::StatusOr<uint64_t> SqliteCodeStore::GivenBytes(const std::string& giver) {
  return ChargedBytes("giver", giver);
}

absl::StatusOr<std::map<std::string, uint64_t>> SqliteCodeStore::Given() {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement sums,
                   database_->Prepare("SELECT giver, sum(max(size, ?1)) FROM code_objects "
                                      "GROUP BY giver"));
  sums.Bind(1, static_cast<int64_t>(kLeastBytes));
  std::map<std::string, uint64_t> given;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, sums.Step());
    if (!row) return given;
    given[std::string(sums.Bytes(0))] = static_cast<uint64_t>(sums.Integer(1));
  }
}

absl::StatusOr<uint64_t> SqliteCodeStore::UsedBytes(const std::string& project) {
  return ChargedBytes("project", project);
}

absl::StatusOr<uint64_t> SqliteCodeStore::ChargedBytes(std::string_view column,
                                                       const std::string& value) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement sum,
                   database_->Prepare(StrCat("SELECT ifnull(sum(max(size, ?2)), 0) FROM "
                                             "code_objects WHERE ",
                                             column, " = ?1")));
  sum.BindText(1, value).Bind(2, static_cast<int64_t>(kLeastBytes));
  ASSIGN_OR_RETURN(const bool row, sum.Step());
  return row ? static_cast<uint64_t>(sum.Integer(0)) : 0;
}

absl::StatusOr<SqliteCodeStore::Row> SqliteCodeStore::FindCode(const CodeName& code) {
  ASSIGN_OR_RETURN(Statement find,
                   database_->Prepare("SELECT id, used_ms, is_whole FROM code_placements WHERE "
                                      "project = ?1 AND tree = ?2 AND placement = ?3"));
  ASSIGN_OR_RETURN(const bool row, BindCode(find, code).Step());
  if (!row) return Row();
  return Row{.id = find.Integer(0), .used_ms = find.Integer(1), .is_whole = find.Integer(2) != 0};
}

absl::Status SqliteCodeStore::InsertCode(const CodeName& code, int64_t now_ms) {
  ASSIGN_OR_RETURN(
      Statement put,
      database_->Prepare("INSERT INTO code_placements(project, tree, placement, used_ms, is_whole) "
                         "VALUES(?1, ?2, ?3, ?4, 0) ON CONFLICT(project, tree, placement) DO "
                         "UPDATE SET used_ms = excluded.used_ms"));
  return BindCode(put, code).Bind(4, now_ms).Run();
}

absl::Status SqliteCodeStore::AddUse(Statement& add, const CodeName& code, int64_t id,
                                     const std::string& sha256) {
  RETURN_IF_ERROR(add.Bind(1, id).BindText(2, code.project).BindText(3, sha256).Run());
  if (database_->Changes() > 0) return absl::OkStatus();
  return absl::NotFoundError(StrCat("project ", code.project, " has no object ", sha256));
}

absl::Status SqliteCodeStore::PutCode(const CodeName& code, const std::vector<std::string>& objects,
                                      int64_t now_ms) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(Atomically([&] { return InsertCode(code, now_ms); }));
  ASSIGN_OR_RETURN(const Row row, FindCode(code));
  if (row.is_whole) return absl::OkStatus();
  // OR REPLACE, so that an object that exists already counts as a change, too.
  ASSIGN_OR_RETURN(Statement add,
                   database_->Prepare("INSERT OR REPLACE INTO code_uses SELECT ?1, id FROM "
                                      "code_objects WHERE project = ?2 AND sha256 = ?3"));
  RETURN_IF_ERROR(
      InBatches(objects.size(), [&](size_t i) { return AddUse(add, code, row.id, objects[i]); }));
  ASSIGN_OR_RETURN(Statement whole,
                   database_->Prepare("UPDATE code_placements SET is_whole = 1 WHERE id = ?1"));
  return Atomically([&] { return whole.Bind(1, row.id).Run(); });
}

absl::StatusOr<std::vector<std::string>> SqliteCodeStore::ObjectsOf(const CodeName& code) {
  std::lock_guard lock(mutex_);
  std::vector<std::string> objects;
  ASSIGN_OR_RETURN(const Row row, FindCode(code));
  if (!row.is_whole) return objects;
  ASSIGN_OR_RETURN(Statement select,
                   database_->Prepare("SELECT sha256 FROM code_uses JOIN code_objects ON "
                                      "code_uses.object = code_objects.id WHERE "
                                      "code_uses.placement = ?1 ORDER BY sha256"));
  select.Bind(1, row.id);
  while (true) {
    ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return objects;
    objects.emplace_back(select.Bytes(0));
  }
}

absl::StatusOr<std::vector<std::string>> SqliteCodeStore::Referenced(
    const std::vector<std::string>& blobs) {
  std::lock_guard lock(mutex_);
  std::vector<std::string> referenced;
  ASSIGN_OR_RETURN(Statement find,
                   database_->Prepare("SELECT 1 FROM code_objects WHERE sha256 = ?1 LIMIT 1"));
  for (const std::string& blob : blobs) {
    ASSIGN_OR_RETURN(const bool row, find.BindText(1, blob).Step());
    if (row) referenced.push_back(blob);
    find.Reset();
  }
  return referenced;
}

absl::StatusOr<std::vector<CodeName>> SqliteCodeStore::OldCode(int64_t before_ms, uint32_t most) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement select,
                   database_->Prepare("SELECT project, tree, placement FROM code_placements WHERE "
                                      "used_ms < ?1 ORDER BY used_ms, id LIMIT ?2"));
  select.Bind(1, before_ms).Bind(2, most);
  std::vector<CodeName> old;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return old;
    old.push_back({.project = std::string(select.Bytes(0)),
                   .tree = std::string(select.Bytes(1)),
                   .placement = std::string(select.Bytes(2))});
  }
}

absl::Status SqliteCodeStore::KeepCode(const CodeName& code, int64_t now_ms) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement keep,
                   database_->Prepare("UPDATE code_placements SET used_ms = ?4 WHERE project = ?1 "
                                      "AND tree = ?2 AND placement = ?3"));
  return Atomically([&] { return BindCode(keep, code).Bind(4, now_ms).Run(); });
}

absl::Status SqliteCodeStore::RemoveCode(const CodeName& code, int64_t before_ms) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const Row row, FindCode(code));
  if (row.id == 0 || row.used_ms >= before_ms) return absl::OkStatus();
  const std::string id = StrCat(row.id);
  const auto write = [this](const std::string& sql) {
    return Atomically([&] { return database_->Execute(sql); });
  };
  // Marks the placement as incomplete first, so that after an interruption the remaining rows are
  // not taken for all of its objects.
  RETURN_IF_ERROR(write(StrCat("UPDATE code_placements SET is_whole = 0 WHERE id = ", id)));
  const std::string some =
      StrCat("DELETE FROM code_uses WHERE placement = ", id,
             " AND object IN (SELECT object FROM code_uses WHERE placement = ", id, " LIMIT ",
             kRowsPerTransaction, ")");
  do {
    RETURN_IF_ERROR(write(some));
  } while (database_->Changes() > 0);
  return write(StrCat("DELETE FROM code_placements WHERE id = ", id));
}

absl::StatusOr<std::vector<std::string>> SqliteCodeStore::RemoveObjects(int64_t before_ms,
                                                                        int64_t now_ms,
                                                                        uint32_t most) {
  std::lock_guard lock(mutex_);
  struct Old {
    int64_t id;
    std::string sha256;
    bool is_used;
  };
  std::vector<Old> old;
  ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT id, sha256, EXISTS(SELECT 1 FROM code_uses WHERE object = "
                         "code_objects.id) FROM code_objects WHERE used_ms < ?1 "
                         "ORDER BY used_ms, id LIMIT ?2"));
  select.Bind(1, before_ms).Bind(2, most);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) break;
    old.push_back({select.Integer(0), std::string(select.Bytes(1)), select.Integer(2) != 0});
  }
  select.Reset();
  ASSIGN_OR_RETURN(Statement keep,
                   database_->Prepare("UPDATE code_objects SET used_ms = ?2 WHERE id = ?1"));
  ASSIGN_OR_RETURN(Statement remove, database_->Prepare("DELETE FROM code_objects WHERE id = ?1"));
  RETURN_IF_ERROR(InBatches(old.size(), [&](size_t i) {
    return old[i].is_used ? keep.Bind(1, old[i].id).Bind(2, now_ms).Run()
                          : remove.Bind(1, old[i].id).Run();
  }));
  std::vector<std::string> removed;
  for (Old& each : old) {
    if (!each.is_used) removed.push_back(std::move(each.sha256));
  }
  return removed;
}

}  // namespace muster::coordinator
