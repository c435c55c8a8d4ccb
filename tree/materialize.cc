#include "tree/materialize.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/base/status.h"
#include "common/files/files.h"
#include "tree/copy_file.h"
#include "tree/directories.h"

namespace muster::tree {
namespace {

class Copier {
 public:
  Copier(int source, Materialized* done) : directories_(source), done_(*done) {}

  absl::Status Copy(const Entry& entry, int to) {
    const common::UniqueFd from = directories_.Open(entry.path, O_RDONLY);
    struct stat info {};
    if (!from.valid() || fstat(from.get(), &info) != 0) {
      return absl::FailedPreconditionError(
          common::MessageOf(common::ErrnoStatus("it cannot be read in the tree to be copied")));
    }
    if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) != entry.size) {
      return absl::FailedPreconditionError("it was changed in the tree to be copied");
    }
    if (entry.size == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const bool shared, files_.Copy(from.get(), to, entry.size));
    ++(shared ? done_.shared_files : done_.copied_files);
    return absl::OkStatus();
  }

 private:
  Directories directories_;
  Materialized& done_;
  FileCopier files_;
};

}  // namespace

absl::Status Materialize(const Manifest& manifest, int source, const TreeTarget& target,
                         Materialized* done) {
  Copier copier(source, done);
  return WriteTree(manifest, target,
                   [&](size_t at, int fd) { return copier.Copy(manifest.entries[at], fd); });
}

}  // namespace muster::tree
