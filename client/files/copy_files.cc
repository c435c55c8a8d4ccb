#include "client/files/copy_files.h"

#include "client/command_line/errors.h"
#include "client/files/pull_target.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {

using common::StrCat;

std::string DescribeCopied(const Copied& copied) {
  return StrCat(common::Counted(copied.files, "file"), " copied, ",
                common::HumanBytes(copied.bytes), "; ", copied.present, " already there and equal");
}

absl::Status CopyFiles(Session& session, const CopySource& source, const std::string& destination,
                       bool may_rename, Copied* copied) {
  const Placed placed = PlaceOf(source.path, destination, may_rename, source.files);
  absl::StatusOr<PullTarget> target = PullTarget::At(placed.directory);
  if (!target.ok()) {
    return common::MakeProblem(absl::StatusCode::kInternal,
                               {.code = "JC1601",
                                .what = std::string(target.status().message()),
                                .fix = "name a directory that you own"});
  }
  for (const v1::CheckpointFile& file : source.files) {
    const std::string name = NameBelow(placed, source.path, file);
    const std::string key = StrCat(placed.directory, "/", name);
    const std::string text = StrCat(source.job, ":", file.path());
    const auto [known, is_new] = copied->sources.emplace(key, text);
    if (!is_new) {
      return Usage("JC1004",
                   StrCat("both ", common::Printable(known->second), " and ",
                          common::Printable(text), " would become ", common::Printable(key)),
                   "copy them to different directories");
    }
    ASSIGN_OR_RETURN(const Pulled pulled,
                     PullOne(source.read(file), file, *target, name, source.verify));
    if (pulled == Pulled::kPresent) {
      ++copied->present;
      continue;
    }
    ++copied->files;
    copied->bytes += file.size();
    session.Note(StrCat(common::Printable(name), "  ", common::HumanBytes(file.size())));
  }
  return absl::OkStatus();
}

}  // namespace muster::client
