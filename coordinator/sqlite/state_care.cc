#include "coordinator/sqlite/state_care.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/lost_database.h"
#include "coordinator/sqlite/offline.h"
#include "coordinator/sqlite/replay.h"

namespace muster::coordinator {

using common::StrCat;

bool SqliteStateCare::Exists() const { return common::Exists(paths_.Database()); }

bool SqliteStateCare::IsEmpty() const {
  struct stat info {};
  return stat(paths_.Database().c_str(), &info) != 0 || info.st_size == 0;
}

std::string SqliteStateCare::Name() const { return paths_.BelowRoot(paths_.Database()); }

absl::Status SqliteStateCare::RefuseLost() const { return RefuseLostDatabase(paths_); }

absl::StatusOr<StateCare::Checked> SqliteStateCare::Check(bool quick, const OnDamage& found) const {
  bool is_sound = true;
  RETURN_IF_ERROR(CheckPages(paths_.Database(), quick, [&](const Damage& finding) {
    is_sound = false;
    found(finding);
  }));
  if (!is_sound) return Checked();
  absl::StatusOr<StateContents> contents = ReadContents(paths_.Database());
  if (!contents.ok()) {
    if (common::CodeOf(contents.status()).empty()) return contents.status();
    found(DamageOf(Name(), contents.status()));
    return Checked();
  }
  const bool is_behind = CheckEnd(contents->last_event, found);
  return Checked{*std::move(contents), is_behind};
}

bool SqliteStateCare::CheckEnd(uint64_t last_event, const OnDamage& found) const {
  const absl::StatusOr<std::optional<uint64_t>> mark = ReadHighWater(paths_);
  if (!mark.ok()) {
    found(DamageOf("HIGHWATER", mark.status()));
    return true;
  }
  const absl::Status ahead = CheckHighWater(paths_, last_event);
  if (!ahead.ok()) {
    found(DamageOf("HIGHWATER", ahead));
    return false;
  }
  if (!mark->has_value() && last_event > 0) {
    found({"HIGHWATER", "is missing or empty; a truncated database would go unnoticed",
           "muster-coordinator repair rewrites it"});
  }
  // A killed coordinator leaves the mark a little behind; it then detects less, but is not damaged.
  return mark->value_or(0) < last_event;
}

absl::StatusOr<Damage> SqliteStateCare::Mend(const StateContents& contents) const {
  RETURN_IF_ERROR(common::WriteFileDurably(paths_.HighWater(), HighWaterText(contents.last_event)));
  return Damage{"HIGHWATER", StrCat("rewritten: event ", contents.last_event), ""};
}

absl::StatusOr<StateContents> SqliteStateCare::Save(const std::string& to) const {
  RETURN_IF_ERROR(CopyDatabase(paths_.Database(), to));
  // A copy on which a coordinator cannot start would be useless for a restore.
  absl::StatusOr<StateContents> contents = ReadContents(to);
  if (contents.ok() || common::CodeOf(contents.status()).empty()) return contents;
  const common::Problem problem = common::ProblemOf(contents.status());
  return common::MakeProblem(contents.status().code(),
                             {.code = problem.code,
                              .what = StrCat(paths_.Database(), " cannot be backed up"),
                              .why = problem.why.empty() ? problem.what : problem.why,
                              .fix = problem.fix});
}

absl::StatusOr<StateContents> SqliteStateCare::Load(const std::string& stage,
                                                    const Advance& advance) const {
  const Paths staged(stage);
  RETURN_IF_ERROR(AdvanceNumbers(staged, advance));
  return ReadContents(staged.Database());
}

absl::Status SqliteStateCare::Adopt(const std::string& stage) const {
  const Paths staged(stage);
  for (const auto& [from, to] : {std::pair(staged.HighWater(), paths_.HighWater()),
                                 std::pair(staged.Database(), paths_.Database())}) {
    if (rename(from.c_str(), to.c_str()) != 0) {
      return common::ErrnoStatus(StrCat("cannot put ", to, " into place"));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
