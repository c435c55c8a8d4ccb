#include "client/cluster/program_archive.h"

#include <vector>

#include "client/diagnosis/archive.h"
#include "client/session/private_coordinator.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"

namespace muster::client::cluster {
namespace {

constexpr size_t kProgramBytesMax = 512 << 20;
constexpr int kFast = 1;

}  // namespace

absl::StatusOr<ProgramArchive> PackPrograms(bool coordinator) {
  std::vector<std::string> names = {"muster-worker", "muster-shim", "muster-rendezvous",
                                    "muster-unwind"};
  if (coordinator) names.push_back("muster-coordinator");
  ProgramArchive archive;
  std::vector<ArchiveFile> files;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const std::string path, FindProgram(name));
    ASSIGN_OR_RETURN(std::string content, common::ReadFile(path, kProgramBytesMax));
    archive.unpacked_bytes += content.size();
    files.push_back({.name = name, .content = std::move(content)});
  }
  ASSIGN_OR_RETURN(archive.bytes,
                   MakeTarGz("bin", files, common::SystemClock().Read().wall_ms / 1000, kFast));
  return archive;
}

}  // namespace muster::client::cluster
