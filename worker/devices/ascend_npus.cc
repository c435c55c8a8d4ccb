#include "worker/devices/ascend_npus.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/limits.h"
#include "common/base/loopback.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "worker/base/bounded_command.h"

namespace muster::worker {
namespace {

using Words = std::vector<absl::string_view>;

// limit: nodes: what is read of npu-smi's table and of hccn.conf; devices in the rest have no model or address
constexpr size_t kNpuTextBytes = 64 * 1024;
constexpr size_t kModelBytesMax = 64;
constexpr uint64_t kMemoryMbMax = 16 << 20;
constexpr uint64_t kBytesPerMb = 1 << 20;

Words WordsOf(absl::string_view text) { return absl::StrSplit(text, ' ', absl::SkipEmpty()); }

bool ParseIndex(absl::string_view word, uint32_t* index) {
  return absl::SimpleAtoi(word, index) && *index < common::kNodeDevicesMax;
}

bool IsModel(absl::string_view word) {
  return word.size() <= kModelBytesMax && std::all_of(word.begin(), word.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
         });
}

// "0           0    / 0          3197 / 65536" -> 65536 MB; 0: it does not end like that.
uint64_t MemoryBytes(absl::string_view cell) {
  const Words words = WordsOf(cell);
  uint64_t mb = 0;
  if (words.size() < 2 || words[words.size() - 2] != "/") return 0;
  if (!absl::SimpleAtoi(words.back(), &mb) || mb > kMemoryMbMax) return 0;
  return mb * kBytesPerMb;
}

// The program's path; empty: it is not in PATH.
std::string FindNpuSmi() {
  const char* path = getenv("PATH");
  for (const auto directory : absl::StrSplit(path == nullptr ? "" : path, ':', absl::SkipEmpty())) {
    std::string candidate = absl::StrCat(directory, "/npu-smi");
    if (candidate.front() == '/' && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::string AskNpuSmi() {
  BoundedCommand command;
  command.program = FindNpuSmi();
  if (command.program.empty()) return "";
  command.argv = {command.program, "info"};
  // In containers the driver's libraries are often found only through the last one.
  for (const char* name : {"PATH", "HOME", "LD_LIBRARY_PATH"}) {
    if (const char* value = getenv(name)) command.env.push_back(common::StrCat(name, "=", value));
  }
  command.timeout_ms = kNpuSmiMs;
  command.bytes_max = kNpuTextBytes;
  CommandOutput output = RunBounded(command);
  return output.problem.empty() ? std::move(output.out) : "";
}

}  // namespace

// Two lines for each device, of three cells each:
//   | 0     910B2               | OK            | 91.3        33                0    / 0             |
//   | 0                         | 0000:C1:00.0  | 0           0    / 0          3197 / 65536         |
// The first cell of the second line is the chip and, if a card has several, the device's index.
std::map<uint32_t, FoundDevice> ParseNpuSmi(std::string_view text) {
  std::map<uint32_t, FoundDevice> found;
  std::string model;
  uint32_t next = 0;
  for (const absl::string_view line :
       absl::StrSplit(common::ToAbsl(text.substr(0, kNpuTextBytes)), '\n')) {
    if (absl::StrContains(line, "Process id")) break;  // another table, of similar lines
    const Words cells = absl::StrSplit(line, '|');
    if (cells.size() != 5) continue;
    const Words first = WordsOf(cells[1]);
    uint32_t index = 0;
    if (first.empty() || !ParseIndex(first[0], &index)) continue;
    if (!absl::StrContains(cells[2], ':')) {
      model = first.size() >= 2 && IsModel(first[1]) ? std::string(first[1]) : "";
      continue;
    }
    index = next++;
    if (first.size() >= 2 && !ParseIndex(first[1], &index)) continue;
    if (index >= common::kNodeDevicesMax) break;
    found[index] = {.index = index, .model = model, .memory_bytes = MemoryBytes(cells[3])};
  }
  return found;
}

std::map<uint32_t, std::string> ParseHccnConf(std::string_view text) {
  std::map<uint32_t, std::string> addresses;
  for (absl::string_view line :
       absl::StrSplit(common::ToAbsl(text.substr(0, kNpuTextBytes)), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    uint32_t index = 0;
    if (!absl::ConsumePrefix(&line, "address_")) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (ParseIndex(parts.first, &index) && common::IsIpAddress(common::FromAbsl(parts.second)))
      addresses[index] = std::string(parts.second);
  }
  return addresses;
}

std::vector<FoundDevice> FindAscendNpus(const std::string& root) {
  std::vector<FoundDevice> npus = FindDeviceFiles("davinci", root + "/dev");
  if (npus.empty()) return npus;
  std::map<uint32_t, FoundDevice> reported = ParseNpuSmi(AskNpuSmi());
  std::map<uint32_t, std::string> addresses =
      ParseHccnConf(common::ReadFile(root + "/etc/hccn.conf", kNpuTextBytes).value_or(""));
  for (FoundDevice& npu : npus) {
    if (const auto known = reported.find(npu.index); known != reported.end())
      npu = std::move(known->second);
    npu.address = addresses[npu.index];
  }
  return npus;
}

}  // namespace muster::worker
