// Formats a record; see flight_record.h.
#include "diagnosis/flight_record.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "diagnosis/library_trace.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr size_t kCompactBytesMax = 64 << 10;
constexpr size_t kCompactCollectives = 8;  // per group
constexpr size_t kCompactFrames = 24;      // per thread

int64_t milliseconds(CollectiveLog::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

const char* text_of(CollectiveLog::State state) {
  switch (state) {
    case CollectiveLog::State::started:
      return "started";
    case CollectiveLog::State::finished:
      return "finished";
    case CollectiveLog::State::failed:
      return "failed";
  }
  return "";
}

Json groups_json(const FlightRecord& record) {
  Json groups = Json::array();
  for (const auto& group : record.collectives.groups) {
    if (group.removed) continue;
    groups.push_back({{"name", group.name},
                      {"ranks", group.ranks},
                      {"started", group.started},
                      {"ended", group.ended}});
  }
  return groups;
}

Json collective_json(const FlightRecord& record, const CollectiveLog::Entry& entry) {
  const bool runs = entry.state == CollectiveLog::State::started;
  const auto& group = record.collectives.groups[entry.group];
  Json json = {{"group", group.name},
               {"ranks", group.ranks},
               {"sequence", entry.sequence},
               {"operation", entry.call.operation},
               {"dtype", entry.call.dtype},
               {"elements", entry.call.elements},
               {"bytes", entry.call.bytes},
               {"carrier", entry.call.carrier},
               {"state", text_of(entry.state)},
               {"age_ms", milliseconds(record.collectives.now - entry.begin)},
               {"thread", entry.thread}};
  if (!runs) json["ended_ms_ago"] = milliseconds(record.collectives.now - entry.end);
  return json;
}

// The newest `most` of each group, oldest first.
Json collectives_json(const FlightRecord& record, size_t most) {
  const auto& entries = record.collectives.entries;
  std::map<size_t, size_t> taken;
  std::vector<const CollectiveLog::Entry*> chosen;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (record.collectives.groups[entry->group].removed) continue;
    // Running collectives are never omitted.
    if (taken[entry->group]++ < most || entry->state == CollectiveLog::State::started) {
      chosen.push_back(&*entry);
    }
  }
  Json list = Json::array();
  for (auto entry = chosen.rbegin(); entry != chosen.rend(); ++entry) {
    list.push_back(collective_json(record, **entry));
  }
  return list;
}

// Adds the newest `most` collectives per group from libraries with their own record, and the
// groups. LibTorch's record of Gloo ("c10d") only repeats ours.
void add_library_collectives(const FlightRecord& record, size_t most, Json& json) {
  std::map<std::string, std::vector<LibraryCollective>> groups;
  for (const auto& [name, trace] : record.library_traces) {
    if (name == "c10d") continue;
    for (auto& collective : library_collectives(trace, record.time_ms * 1'000'000)) {
      groups[collective.group].push_back(std::move(collective));
    }
  }
  for (const auto& [name, list] : groups) {
    uint64_t started = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      const LibraryCollective& own = list[i];
      started = std::max(started, own.sequence);
      if (i + most < list.size() && own.state != "started") continue;
      json["collectives"].push_back({{"group", name},
                                     {"ranks", own.ranks},
                                     {"sequence", own.sequence},
                                     {"operation", own.operation},
                                     {"dtype", own.dtype},
                                     {"elements", own.elements},
                                     {"bytes", own.bytes},
                                     {"carrier", own.carrier},
                                     {"state", own.state},
                                     {"age_ms", own.age_ms},
                                     {"ended_ms_ago", own.ended_ms_ago}});
    }
    json["groups"].push_back({{"name", name}, {"ranks", list.back().ranks}, {"started", started}});
  }
}

Json thread_json(const FlightRecord& record, size_t index, size_t frames_max) {
  const ThreadStack& thread = record.threads[index];
  Json frames = Json::array();
  for (size_t i = 0; i < std::min(frames_max, thread.frames.size()); ++i) {
    const StackFrame& frame = thread.frames[i];
    frames.push_back(
        {{"function", frame.function}, {"module", frame.module}, {"offset", frame.offset}});
  }
  Json json = {{"id", thread.id},
               {"name", thread.name},
               {"state", std::string(1, thread.state)},
               {"place", place_in_words(thread)},
               {"training", index == training_thread(record)},
               {"frames", std::move(frames)}};
  if (!thread.problem.empty()) json["problem"] = thread.problem;
  return json;
}

Json head_json(const FlightRecord& record) {
  return {{"version", 1},
          {"rank", record.rank},
          {"world_size", record.world_size},
          {"host", record.host},
          {"pid", record.pid},
          {"time_ms", record.time_ms},
          {"reason", record.reason},
          {"idle_ms", milliseconds(record.collectives.now - record.collectives.last_activity)},
          {"groups", groups_json(record)}};
}

// Names of threads and functions are arbitrary bytes.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string seconds_ago(CollectiveLog::Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

}  // namespace

size_t training_thread(const FlightRecord& record) {
  const auto index_of = [&](int64_t id) {
    const auto found = std::find_if(record.threads.begin(), record.threads.end(),
                                    [&](const ThreadStack& thread) { return thread.id == id; });
    return static_cast<size_t>(found - record.threads.begin());
  };
  // Looks at the first group only: checkpoints have their own groups and thread.
  const auto& entries = record.collectives.entries;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->group != 0) continue;
    if (const size_t index = index_of(entry->thread); index < record.threads.size()) return index;
    break;
  }
  return index_of(record.pid);
}

std::string full_json(const FlightRecord& record) {
  Json json = head_json(record);
  json["collectives"] = collectives_json(record, CollectiveLog::kKept);
  add_library_collectives(record, CollectiveLog::kKept, json);
  json["threads"] = Json::array();
  for (size_t i = 0; i < record.threads.size(); ++i) {
    json["threads"].push_back(thread_json(record, i, record.threads[i].frames.size()));
  }
  for (const auto& [name, trace] : record.library_traces) {
    json[name] = Json::parse(trace, nullptr, /*allow_exceptions=*/false);
    if (json[name].is_discarded()) json[name] = nullptr;
  }
  return dump(json, 1) + "\n";
}

std::string compact_json(const FlightRecord& record) {
  Json json = head_json(record);
  json["collectives"] = collectives_json(record, kCompactCollectives);
  add_library_collectives(record, kCompactCollectives, json);
  json["threads"] = Json::array();
  // Threads named in the sentence come first, others while there is room.
  std::vector<size_t> order;
  const size_t training = training_thread(record);
  for (size_t i = 0; i < record.threads.size(); ++i) {
    order.insert(i == training ? order.begin() : order.end(), i);
  }
  std::string text = dump(json, -1);
  size_t room = kCompactBytesMax > text.size() + 64 ? kCompactBytesMax - text.size() - 64 : 0;
  for (const size_t index : order) {
    Json thread = thread_json(record, index, kCompactFrames);
    const size_t bytes = dump(thread, -1).size() + 1;
    if (bytes > room) break;
    room -= bytes;
    json["threads"].push_back(std::move(thread));
  }
  return dump(json, -1);
}

std::string stacks_text(const FlightRecord& record) {
  std::string text = sentence(record) + "\n";
  for (const ThreadStack& thread : record.threads) {
    text += "\nthread " + std::to_string(thread.id) + " '" + thread.name + "' (" + thread.state +
            ")" + (thread.problem.empty() ? "" : ": " + thread.problem) + "\n";
    for (size_t i = 0; i < thread.frames.size(); ++i) {
      const StackFrame& frame = thread.frames[i];
      char head[48], place[32];
      std::snprintf(head, sizeof(head), "  #%-3zu ", i);
      std::snprintf(place, sizeof(place), "+0x%llx", static_cast<unsigned long long>(frame.offset));
      text += head + (frame.function.empty() ? "?" : frame.function) + " in " +
              (frame.module.empty() ? "no file" : frame.module + place) + "\n";
    }
  }
  return text;
}

std::string sentence(const FlightRecord& record) {
  std::string text =
      "rank " + std::to_string(record.rank) + " of " + std::to_string(record.world_size) + ": ";
  const size_t index = training_thread(record);
  const std::string place =
      index < record.threads.size() ? place_in_words(record.threads[index]) : "";
  text += place.empty() ? "stack unknown" : "in " + place;
  const auto& entries = record.collectives.entries;
  if (entries.empty()) return text + "; no collective yet";
  // The oldest running collective is more informative than the newest.
  const CollectiveLog::Entry* entry = record.collectives.oldest_running();
  if (entry == nullptr) entry = &entries.back();
  const bool runs = entry->state == CollectiveLog::State::started;
  text += "; " + describe(*entry, record.collectives.groups[entry->group]);
  text += runs
              ? " running for " + seconds_ago(record.collectives.now - entry->begin)
              : std::string(entry->state == CollectiveLog::State::failed ? " failed " : " ended ") +
                    seconds_ago(record.collectives.now - entry->end) + " ago";
  return text;
}

}  // namespace muster
