// See library_trace.h.
#include "diagnosis/library_trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace muster {
namespace {

using Json = nlohmann::json;

// LibTorch's dtype names, ours, and their sizes in bytes.
struct Type {
  const char* name;
  int64_t bytes;
};
Type type_of(const std::string& name) {
  static const std::map<std::string, Type> types = {
      {"Float", {"float32", 4}},     {"Double", {"float64", 8}}, {"Half", {"float16", 2}},
      {"BFloat16", {"bfloat16", 2}}, {"Int", {"int32", 4}},      {"Long", {"int64", 8}},
      {"Byte", {"uint8", 1}},        {"Char", {"int8", 1}},      {"Bool", {"bool", 1}}};
  const auto found = types.find(name);
  return found == types.end() ? Type{"", 0} : found->second;
}

int64_t whole(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

bool flag(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_boolean() && found->get<bool>();
}

std::string text(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t elements_of(const Json& sizes) {
  int64_t sum = 0;
  for (const Json& shape : sizes) {
    int64_t product = 1;
    for (const Json& size : shape) product *= size.is_number_integer() ? size.get<int64_t>() : 0;
    sum += product;
  }
  return sum;
}

// "[0, 1, 2]"
std::vector<int> ranks_of(const std::string& list) {
  std::vector<int> ranks;
  std::istringstream stream(list.substr(std::min<size_t>(1, list.size())));
  for (int rank = 0; stream >> rank; stream.ignore(1)) ranks.push_back(rank);
  return ranks;
}

void read_content(const Json& entry, LibraryCollective& collective) {
  const auto sizes = entry.find("input_sizes");
  const auto types = entry.find("input_dtypes");
  if (sizes == entry.end() || !sizes->is_array() || types == entry.end() || !types->is_array() ||
      types->empty() || !types->front().is_string()) {
    return;
  }
  const Type type = type_of(types->front().get<std::string>());
  collective.elements = elements_of(*sizes);
  collective.dtype = type.name;
  collective.bytes = collective.elements * type.bytes;
}

}  // namespace

std::vector<LibraryCollective> library_collectives(const std::string& trace, int64_t now_ns) {
  std::vector<LibraryCollective> collectives;
  const Json json = Json::parse(trace, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("entries") || !json["entries"].is_array()) return {};
  for (const Json& entry : json["entries"]) {
    if (!entry.is_object() || flag(entry, "is_p2p")) continue;
    const std::string title = text(entry, "profiling_name");
    const size_t colon = title.find(':');
    if (colon == std::string::npos) continue;
    LibraryCollective& collective = collectives.emplace_back();
    collective.carrier = title.substr(0, colon);
    collective.operation = title.substr(colon + 1);
    collective.sequence =
        static_cast<uint64_t>(std::max<int64_t>(whole(entry, "collective_seq_id"), 0));
    std::string name;
    if (const auto group = entry.find("process_group"); group != entry.end() && group->is_array() &&
                                                        !group->empty() &&
                                                        group->front().is_string()) {
      name = group->front().get<std::string>();
    }
    collective.group = collective.carrier + (name.empty() ? "" : " " + name);
    const Json config = json.value("pg_config", Json::object());
    if (config.is_object() && config.contains(name)) {
      collective.ranks = ranks_of(text(config[name], "ranks"));
    }
    read_content(entry, collective);
    const int64_t completed_ns = whole(entry, "time_discovered_completed_ns");
    const bool completed = text(entry, "state") == "completed" || completed_ns > 0;
    // Retired without completing: it timed out.
    collective.state = completed ? "finished" : flag(entry, "retired") ? "failed" : "started";
    collective.age_ms = (now_ns - whole(entry, "time_created_ns")) / 1'000'000;
    if (completed_ns > 0) collective.ended_ms_ago = (now_ns - completed_ns) / 1'000'000;
  }
  return collectives;
}

}  // namespace muster
