#include "coordinator/local/note_store.h"

#include "common/files/files.h"

namespace muster::coordinator {

std::string LocalNoteStore::Place(Note note) const {
  switch (note) {
    case Note::kNotify:
      return paths_.Notify();
    case Note::kLived:
      return paths_.Lived();
    case Note::kHttpSecret:
      return paths_.HttpToken();
    case Note::kMetricsSecret:
      return paths_.HttpMetricsToken();
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
  return common::WriteInPlace(Place(note), text);
}

}  // namespace muster::coordinator
