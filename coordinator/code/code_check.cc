#include "coordinator/code/code_check.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/job/rules.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/code/code_push.h"
#include "coordinator/code/job_code.h"
#include "coordinator/stores/shortage.h"
#include "tree/manifest.h"
#include "tree/placement.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

static_assert(job::kManifestBytesMax == tree::kManifestBytesMax);
constexpr size_t kReadBytes = 8 << 20;

absl::Status NotUploaded(const std::string& project, const CodeObject& object, size_t missing,
                         std::string_view what) {
  return MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1702",
       .what = StrCat("project ", project, " has not uploaded the code of the job: ", what, " ",
                      object.sha256, " of ", object.size, " bytes is missing",
                      missing > 1 ? StrCat(", and ", missing - 1, " more") : std::string()),
       .fix = "submit again with jobctl, which uploads what is missing"});
}

absl::Status BadCode(std::string what) {
  return MakeProblem(absl::StatusCode::kInvalidArgument,
                     {.code = "JC1704",
                      .what = std::move(what),
                      .fix = "submit the directory again with jobctl of this version"});
}

absl::StatusOr<std::string> ReadObject(JobStores& stores, const CodeObject& object) {
  std::string bytes;
  bytes.reserve(object.size);
  while (bytes.size() < object.size) {
    ASSIGN_OR_RETURN(const std::string piece,
                     stores.blobs.Read(object.sha256, bytes.size(), kReadBytes));
    if (piece.empty()) break;
    bytes += piece;
  }
  if (bytes.size() == object.size && tree::Hex(tree::DigestOf(bytes)) == object.sha256)
    return bytes;
  return MakeProblem(absl::StatusCode::kDataLoss,
                     {.code = "JC1602",
                      .what = StrCat("object ", object.sha256, " of the job's code is damaged"),
                      .fix = "check the coordinator's disk; stop it and run muster-coordinator "
                             "repair, then submit again: the object is uploaded again"});
}

absl::Status CheckHere(JobStores& stores, JobCode& job_code, Process& process,
                       const std::string& project, const std::vector<CodeObject>& objects,
                       std::string_view what) {
  ASSIGN_OR_RETURN(const std::vector<bool> here,
                   CodeIsHere(stores, job_code, process, project, objects));
  const auto missing = std::find(here.begin(), here.end(), false);
  if (missing == here.end()) return absl::OkStatus();
  return NotUploaded(project, objects[static_cast<size_t>(missing - here.begin())],
                     static_cast<size_t>(std::count(missing, here.end(), false)), what);
}

absl::Status CheckWorkdir(const tree::Manifest& manifest, const std::string& workdir) {
  if (workdir.empty()) return absl::OkStatus();
  const auto entry = std::lower_bound(manifest.entries.begin(), manifest.entries.end(), workdir,
                                      [](const tree::Entry& each, const std::string& path) {
                                        return tree::PathLess(each.path, path);
                                      });
  if (entry != manifest.entries.end() && entry->path == workdir &&
      entry->kind == tree::Kind::kDirectory) {
    return absl::OkStatus();
  }
  return MakeProblem(absl::StatusCode::kInvalidArgument,
                     {.code = "JC1107",
                      .what = StrCat("the working directory \"", common::Printable(workdir),
                                     "\" is not a directory of the job's code"),
                      .fix = "name a directory below the one that is sent, or none"});
}

// The code to check; the rules of a spec have checked everything else that it names.
struct Asked {
  CodeName code;
  CodeObject manifest;
  CodeObject placement;
  std::string workdir;
};

absl::Status JudgeCode(JobStores& stores, JobCode& job_code, Process& process, const Asked& asked) {
  const std::string& project = asked.code.project;
  RETURN_IF_ERROR(CheckHere(stores, job_code, process, project, {asked.manifest}, "manifest"));
  RETURN_IF_ERROR(CheckHere(stores, job_code, process, project, {asked.placement}, "placement"));
  ASSIGN_OR_RETURN(std::string bytes, ReadObject(stores, asked.manifest));
  const absl::StatusOr<tree::Manifest> manifest = tree::Decode(bytes);
  if (!manifest.ok()) return BadCode(std::string(manifest.status().message()));
  RETURN_IF_ERROR(CheckWorkdir(*manifest, asked.workdir));
  ASSIGN_OR_RETURN(bytes, ReadObject(stores, asked.placement));
  const absl::StatusOr<tree::Placement> placement =
      tree::DecodePlacement(bytes, *manifest, *tree::FromHex(asked.manifest.sha256));
  if (!placement.ok()) return BadCode(std::string(placement.status().message()));
  std::vector<CodeObject> objects;
  std::vector<std::string> names = {asked.manifest.sha256, asked.placement.sha256};
  for (const tree::Object& object : placement->objects) {
    objects.push_back({.sha256 = tree::Hex(object.name), .size = object.size});
    names.push_back(objects.back().sha256);
  }
  RETURN_IF_ERROR(CheckHere(stores, job_code, process, project, objects, "object"));
  return job_code.store.PutCode(asked.code, names, process.clock.Read().lived_ms);
}

absl::Status NotNow(std::string why) {
  return MakeProblem(absl::StatusCode::kAborted,
                     {.code = "JC1507",
                      .what = "the code of the job cannot be checked now",
                      .why = std::move(why),
                      .fix = "submit again"});
}

// A store that is short of something says nothing about the code.
absl::Status Told(const absl::Status& verdict) {
  if (verdict.ok() || !common::CodeOf(verdict).empty()) return verdict;
  if (!IsShortage(verdict) && !absl::IsNotFound(verdict)) return verdict;
  return NotNow(std::string(verdict.message()));
}

}  // namespace

void CodeChecks::Check(JobStores& stores, JobCode& job_code, Process& process,
                       const v1::JobSpec& spec, Then then) {
  const v1::CodeTree& tree = spec.code();
  const Asked asked{.code = CodeNameOf(spec),
                    .manifest = {.sha256 = tree.tree(), .size = tree.manifest_bytes()},
                    .placement = {.sha256 = tree.placement(), .size = tree.placement_bytes()},
                    .workdir = spec.workdir()};
  const Key key{asked.code, asked.manifest.size, asked.placement.size, asked.workdir};
  const bool is_awaited = good_.Get(
      key,
      [this, &stores, &job_code, &process, asked](std::function<void(Verdicts::Found)> done) {
        {
          std::lock_guard lock(mutex_);
          looks_.push_back([&stores, &job_code, &process, asked, done = std::move(done)] {
            const absl::Status verdict = Told(JudgeCode(stores, job_code, process, asked));
            if (!verdict.ok()) return done(verdict);
            done(std::make_shared<const Steady::time_point>(Steady::now()));
          });
          if (std::exchange(is_looking_, true)) return;
        }
        process.files.Post([this] { LookAtAll(); });
      },
      [then](const Verdicts::Found& verdict) { then(verdict.status()); },
      [](const Verdicts::Found& verdict) {
        return !verdict.ok() || Steady::now() - **verdict < kRemembered;
      });
  if (!is_awaited) then(NotNow("the code of many others is being checked"));
}

// On one thread of the pool, which has other work, too.
void CodeChecks::LookAtAll() {
  while (true) {
    std::function<void()> look;
    {
      std::lock_guard lock(mutex_);
      is_looking_ = !looks_.empty();
      if (!is_looking_) return;
      look = std::move(looks_.front());
      looks_.pop_front();
    }
    look();
  }
}

}  // namespace muster::coordinator
