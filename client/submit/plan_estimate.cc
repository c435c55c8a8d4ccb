#include "client/submit/plan_estimate.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/machine/child_output.h"
#include "common/device_kinds.h"
#include "common/kernel/process_start.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;
using std::chrono::steady_clock;

constexpr size_t kPrintedBytesMax = 1 << 20;
constexpr size_t kEstimateLineBytesMax = 64 * 1024;
constexpr uint64_t kEstimateMost = uint64_t{1} << 50;  // 1 PiB

std::vector<std::string> EnvironmentFor(const v1::JobSpec& spec, uint32_t world_size) {
  std::map<std::string, std::string> env(spec.env().begin(), spec.env().end());
  env["MUSTER_ESTIMATE"] = "1";
  env["RANK"] = env["LOCAL_RANK"] = "0";
  env["WORLD_SIZE"] = StrCat(world_size);
  std::vector<std::string> words;
  for (const auto& [name, value] : env) words.push_back(StrCat(name, "=", value));
  return words;
}

std::string ProgramOf(const v1::JobSpec& spec) {
  const std::string& name = spec.command(0);
  if (name.find('/') != std::string::npos) return name;
  const auto path = spec.env().find("PATH");
  return path == spec.env().end() ? "" : FindInDirectories(name, path->second);
}

// The child's pid, or a negative errno. Its standard error is this terminal.
pid_t StartEstimate(const v1::JobSpec& spec, uint32_t world_size, int output) {
  return common::StartProcess({.program = ProgramOf(spec),
                               .argv = {spec.command().begin(), spec.command().end()},
                               .env = EnvironmentFor(spec, world_size),
                               .directory = spec.workdir(),
                               .fds = {common::NoInput(), {.as = STDOUT_FILENO, .ours = output}},
                               .apart = common::ChildSetup::Apart::kGroup});
}

// Until the line is there, the output ends, or the time is up.
std::optional<uint64_t> ReadEstimate(int fd, steady_clock::time_point deadline) {
  std::string output;
  while (output.size() < kPrintedBytesMax) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd waited{fd, POLLIN, 0};
    const int ready = poll(&waited, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    char buffer[4'096];
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count <= 0) return FindEstimate(output + "\n");
    output.append(buffer, static_cast<size_t>(count));
    if (const auto found = FindEstimate(output)) return found;
  }
  return std::nullopt;
}

// How much memory a rank of this part may use, of its device or of the node; 0: not known.
uint64_t ShareOf(const v1::NodePart& part, const v1::NodeFacts& facts) {
  const uint64_t ranks = std::max<uint32_t>(part.local_world_size(), 1);
  if (common::IsHostKind(part.device_kind())) return facts.memory_bytes() / ranks;
  uint64_t least = 0;
  for (const v1::Device& device : facts.devices()) {
    const bool held =
        device.kind() == part.device_kind() &&
        std::count(part.device_indexes().begin(), part.device_indexes().end(), device.index()) > 0;
    if (held && device.memory_bytes() > 0 && (least == 0 || device.memory_bytes() < least))
      least = device.memory_bytes();
  }
  return least;
}

}  // namespace

std::optional<uint64_t> FindEstimate(std::string_view output) {
  // The last line may be incomplete.
  for (size_t at = 0; output.find('\n', at) != std::string_view::npos;
       at = output.find('\n', at) + 1) {
    const std::string_view line = output.substr(at, output.find('\n', at) - at);
    if (line.find("\"muster_estimate\"") == std::string_view::npos ||
        line.size() > kEstimateLineBytesMax || common::NestsDeeper(line, 4)) {
      continue;
    }
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("muster_estimate", nlohmann::json()) != 1) continue;
    const auto bytes = json.find("bytes_per_rank");
    if (bytes == json.end() || !bytes->is_number_unsigned()) continue;
    const uint64_t size = bytes->get<uint64_t>();
    if (size > 0 && size <= kEstimateMost) return size;
  }
  return std::nullopt;
}

absl::StatusOr<uint64_t> AskTrainer(const v1::JobSpec& spec, uint32_t world_size,
                                    std::chrono::milliseconds limit) {
  common::Pipe output;
  if (!output.Open()) return absl::UnavailableError(std::strerror(errno));
  const pid_t pid = StartEstimate(spec, world_size, output.to.get());
  if (pid < 0) {
    return absl::UnavailableError(
        StrCat(spec.command(0), " cannot be started here: ", std::strerror(-pid)));
  }
  output.to.Reset();
  const auto deadline = steady_clock::now() + limit;
  const std::optional<uint64_t> found = ReadEstimate(output.from.get(), deadline);
  const bool is_late = steady_clock::now() >= deadline;
  // Only its answer is needed.
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  if (found.has_value()) return *found;
  return absl::UnavailableError(
      is_late ? StrCat("the program gave no estimate within ", common::HumanDuration(limit.count()))
              : std::string("the program ended without an estimate"));
}

MemoryVerdict JudgeMemory(uint64_t bytes_per_rank, const v1::Attempt& attempt,
                          const v1::ListNodesResponse& nodes) {
  MemoryVerdict verdict;
  verdict.text = StrCat("memory: ", common::HumanBytes(bytes_per_rank), " per rank");
  uint64_t least = 0;
  std::string where;
  for (const v1::NodePart& part : attempt.parts()) {
    for (const v1::NodeView& view : nodes.nodes()) {
      if (view.record().facts().name() != part.node()) continue;
      const uint64_t share = ShareOf(part, view.record().facts());
      if (share == 0 || (least != 0 && share >= least)) continue;
      least = share;
      where = part.node();
    }
  }
  if (least == 0) return verdict;
  verdict.fits = bytes_per_rank <= least;
  common::StrAppend(&verdict.text, verdict.fits ? "; fits: " : "; does not fit: ", "a rank on ",
                    where, " has ", common::HumanBytes(least));
  return verdict;
}

}  // namespace muster::client
