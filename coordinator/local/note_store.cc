#include "coordinator/local/note_store.h"

#include <fcntl.h>

#include "common/base/status.h"
#include "common/files/files.h"

namespace muster::coordinator {

std::string LocalNoteStore::Place(Note note) const {
  switch (note) {
    case Note::kNotify:
      return paths_.Notify();
    case Note::kLived:
      return paths_.Lived();
  }
  return "";
}

absl::StatusOr<std::string> LocalNoteStore::Read(Note note) const {
  return common::ReadFile(Place(note));
}

absl::Status LocalNoteStore::Write(Note note, const std::string& text) {
  return common::WriteFileDurably(Place(note), text);
}

absl::Status LocalNoteStore::WriteSoon(Note note, const std::string& text) {
  ASSIGN_OR_RETURN(const common::UniqueFd file,
                   common::OpenRegular(Place(note), O_WRONLY | O_CREAT | O_NOFOLLOW));
  return common::WriteAll(file.get(), text);
}

}  // namespace muster::coordinator
