#include "worker/launch/prepared_place.h"

#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "common/hash/sha256.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

constexpr std::string_view kPathVariable = "PATH=";

}  // namespace

PreparedPlace PlaceOfSetup(const std::string& entry) {
  return {.setup_dir = entry + "/dir", .setup_tree = entry + "/tree"};
}

PreparedPlace PlaceOf(const Paths& paths, const AttemptKey& key) {
  std::error_code error;
  const std::filesystem::path link = std::filesystem::read_symlink(paths.AttemptSetup(key), error);
  const std::string name = link.filename().string();
  if (error || !common::IsSha256Hex(name)) return {};
  return PlaceOfSetup(common::StrCat(paths.CodeSetups(), "/", name));
}

void EnterPlace(const PreparedPlace& place, common::RankLaunch* command) {
  if (place.setup_dir.empty()) return;
  std::erase_if(command->env,
                [](const std::string& entry) { return entry.starts_with("MUSTER_SETUP_DIR="); });
  command->env.push_back(common::StrCat("MUSTER_SETUP_DIR=", place.setup_dir));
  const std::string programs = place.setup_dir + "/bin";
  if (access(programs.c_str(), F_OK) != 0) return;
  for (std::string& entry : command->env) {
    if (!entry.starts_with(kPathVariable)) continue;
    entry = common::StrCat(kPathVariable, programs, ":", entry.substr(kPathVariable.size()));
  }
}

std::string CodeWorkdir(const Paths& paths, const AttemptKey& key, const std::string& workdir) {
  const bool is_below = !workdir.empty() && workdir != "." && common::StaysInside(workdir);
  return is_below ? common::StrCat(paths.AttemptCode(key), "/", workdir) : paths.AttemptCode(key);
}

void UseAttemptCode(const Paths& paths, v1::LaunchAttempt* launch) {
  if (!launch->spec().has_code()) return;
  launch->mutable_spec()->set_workdir(
      CodeWorkdir(paths, {launch->job(), launch->attempt()}, launch->spec().workdir()));
}

}  // namespace muster::worker
