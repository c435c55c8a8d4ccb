#include "coordinator/sqlite/archive/archive_changes.h"

#include <sqlite3.h>

#include <memory>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/archive/archive_rows.h"
#include "coordinator/sqlite/database/changes.h"
#include "coordinator/store_parts/put_bytes.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

struct Moves {
  std::vector<ArchivedPart> added, removed;
};

absl::StatusOr<Moves> ReadMoves(std::string_view changes) {
  Moves moves;
  // Most entries have nothing to do with it.
  if (changes.find(kArchiveTable) == std::string_view::npos) return moves;
  RETURN_IF_ERROR(ForEachChange(changes, [&](const Change& change) -> absl::Status {
    if (change.table != kArchiveTable) return absl::OkStatus();
    ArchivedPart part{.kind = static_cast<ArchivedKind>(change.Integer(0)),
                      .key = change.Integer(1)};
    if (change.kind == SQLITE_DELETE) {
      moves.removed.push_back(std::move(part));
    } else if (change.kind == SQLITE_INSERT) {
      part.last = change.Integer(2);
      part.sha256 = change.Text(3);
      moves.added.push_back(std::move(part));
    }
    return absl::OkStatus();
  }));
  return moves;
}

absl::Status PutBlob(Database& database, BlobStore& blobs, const Paths& paths,
                     const ArchivedPart& part) {
  ASSIGN_OR_RETURN(const std::optional<std::string> packed,
                   PackRows(database, part.kind, part.key, part.last));
  if (packed.has_value()) {
    ASSIGN_OR_RETURN(const std::string sha256, PutBytes(blobs, paths, *packed));
    if (sha256 == part.sha256) return absl::OkStatus();
  }
  return absl::DataLossError(
      StrCat("the rows of archived part ", part.key, " are not those that the leader has moved"));
}

absl::StatusOr<bool> IsUsedElsewhere(Database& database, const std::string& sha256) {
  ASSIGN_OR_RETURN(Statement find,
                   database.Prepare("SELECT 1 FROM blob_refs WHERE sha256 = ?1 UNION ALL "
                                    "SELECT 1 FROM code_objects WHERE sha256 = ?1 LIMIT 1"));
  return find.BindText(1, sha256).Step();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FollowArchive(Database& database, BlobStore& blobs,
                                                       const Paths& paths,
                                                       std::string_view changes) {
  ASSIGN_OR_RETURN(const Moves moves, ReadMoves(changes));
  for (const ArchivedPart& part : moves.added)
    RETURN_IF_ERROR(PutBlob(database, blobs, paths, part));
  std::vector<std::string> unused;
  for (const ArchivedPart& part : moves.removed) {
    ASSIGN_OR_RETURN(std::optional<ArchivedPart> there,
                     FindArchived(database, part.kind, part.key));
    if (!there.has_value()) continue;
    ASSIGN_OR_RETURN(const bool is_used, IsUsedElsewhere(database, there->sha256));
    if (!is_used) unused.push_back(std::move(there->sha256));
  }
  return unused;
}

absl::Status KeepMovedParts(Database& older, Database& newer, BlobStore& blobs,
                            const Paths& paths) {
  ASSIGN_OR_RETURN(const bool has_archive, newer.HasTable(kArchiveTable));
  if (!has_archive) return absl::OkStatus();
  return ForEachArchived(newer, [&](const ArchivedPart& part) -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<ArchivedPart> known,
                     FindArchived(older, part.kind, part.key));
    if (known.has_value()) return absl::OkStatus();
    // Older rows may lack events that were moved along, and are then of no use.
    ASSIGN_OR_RETURN(const std::optional<std::string> packed,
                     PackRows(older, part.kind, part.key, part.last));
    if (!packed.has_value() || common::Sha256Hex(*packed) != part.sha256) return absl::OkStatus();
    return PutBytes(blobs, paths, *packed).status();
  });
}

}  // namespace muster::coordinator
