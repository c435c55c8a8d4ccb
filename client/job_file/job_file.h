// The job file: YAML in, JobSpec out, every error at once with file:line:column. One table of keys
// drives parsing, suggestions and the documentation. Pure except for reading the file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::client {

enum class KeyType {
  kSection,
  kString,
  kCommand,
  kStringList,
  kStringMap,
  kInteger,
  kDuration,
  kBoolean,
  kChoice,
  kNodes,
  kDevices,
  kCpus,
  kMemory,
  kNotify,
  kScript,
  kMounts,
  kSize
};

// A key's value after type checking.
struct KeyValue {
  std::string text;
  std::vector<std::string> list;
  std::vector<std::pair<std::string, std::string>> map;
  int64_t number = 0;  // integers, milliseconds, booleans, bytes, the index of a choice
  int64_t number2 = 0;
};

struct JobKey {
  std::string_view path;  // "resources.processes"
  KeyType type;
  std::string_view meaning;  // see JobKeyMeaning
  int64_t least = 0;         // integers and durations (ms)
  int64_t most = 0;
  std::string_view choices = {};  // "drop|block"
  void (*apply)(const KeyValue& value, v1::JobSpec* spec) = nullptr;
};
std::span<const JobKey> JobKeys();
// Our key for another tool's name: "num_processes" -> "resources.processes". Empty: none.
std::string_view PeerKey(std::string_view key);

struct JobFile {
  bool clean_env = false;
  bool env_from_shell = false;
  std::optional<bool> sync;   // whether the directory is sent with the job
  uint32_t device_total = 0;  // the number in `devices: h100:8`; settled when the ranks are known
};

// The text of `path` ("-": stdin). Errors: JC1005, JC1102.
absl::StatusOr<std::string> ReadJobFile(const std::string& path);
// For messages.
std::string JobFileName(const std::string& path);
// Applies `sets` ("key.path=value") to the text and fills `spec`; `name` is for messages. Errors:
// JC1101, JC1102.
absl::StatusOr<JobFile> ParseJobFile(const std::string& name, std::string_view content,
                                     const std::vector<std::string>& sets, v1::JobSpec* spec);

// A script for /bin/sh as argv: it ends at its first failing command.
std::vector<std::string> ScriptCommand(const std::string& script);

// The table of keys as Markdown, for docs/jobfile.md.
std::string JobKeyTable();
// The meaning in Markdown: `meaning` with KINDS replaced by the names of device kinds.
std::string JobKeyMeaning(const JobKey& key);
// "1 … 100000", "list or text": the values of a key, in Markdown.
std::string JobKeyValues(const JobKey& key);

}  // namespace muster::client
