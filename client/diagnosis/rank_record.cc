// Parses records of ranks, which may contain anything.
#include "client/diagnosis/rank_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "common/base/limits.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;
using nlohmann::json;
using Collective = RankRecord::Collective;

constexpr int kRanksMax = 100'000;

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string()
             ? common::Printable(found->get_ref<const std::string&>())
             : "";
}
int64_t Whole(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}
bool IsSet(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}
// The objects in a list; none if it is not a list.
std::vector<json> Objects(const json& object, const char* key) {
  std::vector<json> objects;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return objects;
  for (const json& item : *found) {
    if (item.is_object()) objects.push_back(item);
  }
  return objects;
}
std::vector<int> RankList(const json& object) {
  std::vector<int> ranks;
  const auto found = object.find("ranks");
  if (found == object.end() || !found->is_array()) return ranks;
  for (const json& rank : *found) {
    if (rank.is_number_unsigned() && rank.get<uint64_t>() < kRanksMax) {
      ranks.push_back(rank.get<int>());
    }
  }
  return ranks;
}

std::string FrameText(const json& frame) {
  const std::string function = Text(frame, "function");
  const std::string name = function.empty() ? "?" : function;
  if (const int64_t line = Whole(frame, "line"); line > 0) {
    return StrCat(name, " (", Text(frame, "file"), ":", line, ")");
  }
  return StrCat(name, " in ", Text(frame, "module"),
                absl::StrFormat("+0x%x", Whole(frame, "offset")));
}

RankRecord::Outside OutsideOf(const json& object) {
  RankRecord::Outside outside;
  const auto found = object.find("outside");
  if (found == object.end() || !found->is_object()) return outside;
  outside.seen = true;
  outside.pid = Whole(*found, "pid");
  outside.program = Text(*found, "program");
  outside.doing = Text(*found, "doing");
  outside.frames = Text(*found, "frames");
  outside.problem = Text(*found, "problem");
  const auto cpu = found->find("cpu_s");
  if (cpu != found->end() && cpu->is_number()) outside.cpu_seconds = cpu->get<double>();
  return outside;
}

}  // namespace

absl::StatusOr<RankRecord> ParseRankRecord(std::string_view text) {
  // Copying its parts recurses.
  if (common::NestsDeeper(text, common::kJsonDepthMax)) {
    return absl::InvalidArgumentError("it is nested deeper than a flight record");
  }
  const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("rank") || !object.contains("collectives")) {
    return absl::InvalidArgumentError("this is not a flight record");
  }
  RankRecord record;
  record.rank = static_cast<int>(std::clamp<int64_t>(Whole(object, "rank"), 0, kRanksMax));
  record.world_size =
      static_cast<int>(std::clamp<int64_t>(Whole(object, "world_size"), 0, kRanksMax));
  record.host = Text(object, "host");
  record.reason = Text(object, "reason");
  record.time_ms = Whole(object, "time_ms");
  for (const json& group : Objects(object, "groups")) {
    record.groups.push_back({Text(group, "name"), RankList(group),
                             static_cast<uint64_t>(std::max<int64_t>(Whole(group, "started"), 0))});
  }
  for (const json& item : Objects(object, "collectives")) {
    Collective& collective = record.collectives.emplace_back();
    collective.group = Text(item, "group");
    collective.ranks = RankList(item);
    collective.sequence = static_cast<uint64_t>(std::max<int64_t>(Whole(item, "sequence"), 0));
    collective.operation = Text(item, "operation");
    collective.dtype = Text(item, "dtype");
    collective.bytes = Whole(item, "bytes");
    collective.failed = Text(item, "state") == "failed";
    collective.runs = collective.failed || Text(item, "state") == "started";
    collective.age_ms = Whole(item, "age_ms");
    collective.ended_ms_ago = Whole(item, "ended_ms_ago");
  }
  for (const json& item : Objects(object, "threads")) {
    RankRecord::Thread& thread = record.threads.emplace_back();
    thread.id = Whole(item, "id");
    thread.name = Text(item, "name");
    thread.problem = Text(item, "problem");
    for (const json& frame : Objects(item, "frames")) {
      thread.frames.push_back(FrameText(frame));
    }
    if (IsSet(item, "training")) record.place = Text(item, "place");
  }
  record.outside = OutsideOf(object);
  return record;
}

std::string StacksText(const RankRecord& record) {
  std::string text = StrCat("rank ", record.rank, " (", record.host, ")\n");
  if (record.outside.seen) {
    StrAppend(&text, "  seen from outside: process ", record.outside.pid, " (",
              record.outside.program, ") ", record.outside.doing,
              absl::StrFormat(", %.1f s of processor time", record.outside.cpu_seconds), "\n");
    if (!record.outside.problem.empty()) StrAppend(&text, "  ", record.outside.problem, "\n");
  }
  for (const RankRecord::Thread& thread : record.threads) {
    StrAppend(&text, "  thread ", thread.id, " ", thread.name, thread.problem.empty() ? "" : ": ",
              thread.problem, "\n");
    for (const std::string& frame : thread.frames) StrAppend(&text, "    ", frame, "\n");
  }
  return text;
}

}  // namespace muster::client
