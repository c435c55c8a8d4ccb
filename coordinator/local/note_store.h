// Notes as files of a data directory: NOTIFY, LIVED.
#pragma once

#include <string>

#include "coordinator/stores/note_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class LocalNoteStore final : public NoteStore {
 public:
  explicit LocalNoteStore(const Paths& paths) : paths_(paths) {}

  absl::StatusOr<std::string> Read(Note note) const override;
  absl::Status Write(Note note, const std::string& text) override;
  absl::Status WriteSoon(Note note, const std::string& text) override;
  std::string Place(Note note) const override;

 private:
  const Paths paths_;
};

}  // namespace muster::coordinator
