#include "client/cluster/record.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "client/cluster/slurm_script.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/names.h"
#include "nlohmann/json.hpp"

namespace muster::client::cluster {
namespace {

using common::StrCat;
using Json = nlohmann::json;

constexpr size_t kRecordBytesMax = 256 * 1024;
constexpr size_t kJsonDepth = 8;
constexpr size_t kOptionsMost = 100;
constexpr size_t kClustersMost = 1'000;
constexpr std::string_view kEnding = ".json";

std::string ClustersDirectory(const ConfigFile& file) {
  const std::string parent = std::filesystem::path(file.path).parent_path();
  return StrCat(parent.empty() ? "." : parent, "/clusters");
}

// Empty if there is none, or it is something else.
std::string TextIn(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

uint32_t NumberIn(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_unsigned() && found->get<uint64_t>() <= 65'535
             ? found->get<uint32_t>()
             : 0;
}

absl::Status Damaged(std::string_view what) {
  return absl::InvalidArgumentError(StrCat("its ", what, " cannot be right"));
}

// The same checks as for a command line: any program of this user may have changed the record's file.
absl::Status TakeNodes(const Json& json, ClusterRecord* record) {
  const auto nodes = json.find("nodes");
  if (nodes == json.end() || !nodes->is_array() || nodes->size() > kNodesMost)
    return Damaged("list of nodes");
  for (const Json& each : *nodes) {
    if (!each.is_object()) return Damaged("list of nodes");
    SshNode node{.name = TextIn(each, "name"),
                 .user = TextIn(each, "user"),
                 .host = TextIn(each, "host"),
                 .port = NumberIn(each, "port")};
    const std::string word = StrCat(node.user, node.user.empty() ? "" : "@", node.host,
                                    node.port > 0 ? StrCat(":", node.port) : "");
    if (!identity::IsName(node.name) || word.find_first_of(",[") != std::string::npos ||
        !ParseSshNodes(word).ok()) {
      return Damaged("list of nodes");
    }
    record->nodes.push_back(std::move(node));
  }
  return absl::OkStatus();
}

absl::Status TakeOptions(const Json& json, ClusterRecord* record) {
  const auto options = json.find("ssh_options");
  if (options == json.end()) return absl::OkStatus();
  if (!options->is_array() || options->size() > kOptionsMost) return Damaged("ssh_options");
  for (const Json& each : *options) {
    if (!each.is_string()) return Damaged("ssh_options");
    record->ssh_options.push_back(each.get<std::string>());
  }
  return absl::OkStatus();
}

bool IsHex(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool IsDigits(std::string_view text) {
  return text.size() <= 20 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string RecordPath(const ConfigFile& file, std::string_view name) {
  return StrCat(ClustersDirectory(file), "/", name, kEnding);
}

std::string TextOfRecord(const ClusterRecord& record) {
  nlohmann::ordered_json json = {{"version", 1},        {"kind", "Cluster"},
                                 {"name", record.name}, {"on", record.on},
                                 {"id", record.id},     {"directory", record.directory}};
  if (record.on == "slurm") {
    json["job"] = record.job;
    json["size"] = record.size;
  } else {
    json["head"] = record.head;
    json["ssh_config"] = record.ssh_config;
    json["ssh_options"] = record.ssh_options;
    json["nodes"] = Json::array();
    for (const SshNode& node : record.nodes) {
      json["nodes"].push_back(nlohmann::ordered_json{
          {"name", node.name}, {"user", node.user}, {"host", node.host}, {"port", node.port}});
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<ClusterRecord> ParseRecord(std::string_view text) {
  if (text.size() > kRecordBytesMax || common::NestsDeeper(text, kJsonDepth))
    return Damaged("size or depth");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return absl::InvalidArgumentError("it is not JSON");
  ClusterRecord record{.name = TextIn(json, "name"),
                       .on = TextIn(json, "on"),
                       .id = TextIn(json, "id"),
                       .directory = TextIn(json, "directory"),
                       .ssh_config = TextIn(json, "ssh_config"),
                       .ssh_options = {},
                       .head = TextIn(json, "head"),
                       .nodes = {},
                       .job = TextIn(json, "job"),
                       .size = TextIn(json, "size")};
  if (!identity::IsName(record.name)) return Damaged("name");
  if (record.on != "ssh" && record.on != "slurm") return Damaged("\"on\"");
  if (!IsHex(record.id)) return Damaged("id");
  if (!IsDigits(record.job)) return Damaged("job");
  if (!CheckDirectory(record.directory).ok()) return Damaged("directory");
  if (!record.ssh_config.empty() && record.ssh_config[0] != '/') return Damaged("ssh_config");
  RETURN_IF_ERROR(TakeOptions(json, &record));
  if (record.on == "slurm") {
    if (!CheckSize(record.size).ok() || record.directory[0] != '/')
      return Damaged("size or directory");
    return record;
  }
  RETURN_IF_ERROR(TakeNodes(json, &record));
  const bool has_head = std::any_of(record.nodes.begin(), record.nodes.end(),
                                    [&](const SshNode& node) { return node.name == record.head; });
  if (!has_head) return Damaged("head");
  return record;
}

absl::Status CreateRecord(const ConfigFile& file, const ClusterRecord& record) {
  RETURN_IF_ERROR(common::MakeDirectories(ClustersDirectory(file)));
  const absl::Status created =
      common::CreateFileDurably(RecordPath(file, record.name), TextOfRecord(record));
  if (created.code() != absl::StatusCode::kAlreadyExists) return created;
  return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                             {.code = "JC1809",
                              .what = StrCat("another jobctl is starting a cluster named ",
                                             record.name, " at this moment"),
                              .fix = "jobctl cluster ls; or another NAME"});
}

absl::Status SaveRecord(const ConfigFile& file, const ClusterRecord& record) {
  RETURN_IF_ERROR(common::MakeDirectories(ClustersDirectory(file)));
  return common::WriteFileDurably(RecordPath(file, record.name), TextOfRecord(record));
}

absl::StatusOr<ClusterRecord> LoadRecord(const ConfigFile& file, const std::string& name) {
  const std::string path = RecordPath(file, name);
  if (!identity::IsName(name) || !common::Exists(path)) {
    return common::MakeProblem(absl::StatusCode::kNotFound,
                               {.code = "JC1802",
                                .what = StrCat("there is no cluster \"", common::Printable(name),
                                               "\" that this jobctl started"),
                                .fix = "jobctl cluster ls"});
  }
  const absl::StatusOr<std::string> text = common::ReadFile(path, kRecordBytesMax);
  absl::StatusOr<ClusterRecord> record = text.ok() ? ParseRecord(*text) : text.status();
  if (record.ok() && record->name == name) return record;
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1803",
       .what = StrCat(path, " is not the record of a cluster"),
       .why = record.ok() ? "it is of another one" : std::string(record.status().message()),
       .fix = StrCat("end the cluster's processes by hand, then: rm ", path)});
}

absl::Status RemoveRecord(const ConfigFile& file, const std::string& name) {
  if (std::remove(RecordPath(file, name).c_str()) != 0)
    return common::ErrnoStatus(RecordPath(file, name));
  std::error_code ignored;  // other clusters may be there
  std::filesystem::remove(ClustersDirectory(file), ignored);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RecordNames(const ConfigFile& file) {
  const std::string directory = ClustersDirectory(file);
  if (!common::Exists(directory)) return std::vector<std::string>{};
  ASSIGN_OR_RETURN(std::vector<std::string> entries,
                   common::ListDirectory(directory, kClustersMost));
  std::vector<std::string> names;
  for (const std::string& entry : entries) {
    if (!entry.ends_with(kEnding)) continue;
    const std::string name = entry.substr(0, entry.size() - kEnding.size());
    if (identity::IsName(name)) names.push_back(name);
  }
  return names;
}

}  // namespace muster::client::cluster
