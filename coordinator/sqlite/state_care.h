// Maintains the state in one SQLite file, and HIGHWATER next to it.
#pragma once

#include <string>

#include "coordinator/stores/paths.h"
#include "coordinator/stores/state_care.h"

namespace muster::coordinator {

class SqliteStateCare final : public StateCare {
 public:
  explicit SqliteStateCare(const Paths& paths) : paths_(paths) {}

  std::string Name() const override;
  bool Exists() const override;
  bool IsEmpty() const override;
  absl::Status RefuseLost() const override;
  absl::StatusOr<Checked> Check(bool quick, const OnDamage& found) const override;
  absl::StatusOr<Damage> Mend(const StateContents& contents) const override;
  absl::StatusOr<StateContents> Save(const std::string& to) const override;
  absl::StatusOr<StateContents> Load(const std::string& stage,
                                     const Advance& advance) const override;
  absl::Status Adopt(const std::string& stage) const override;

 private:
  // True: the mark is behind, or missing.
  bool CheckEnd(uint64_t last_event, const OnDamage& found) const;

  const Paths paths_;
};

}  // namespace muster::coordinator
