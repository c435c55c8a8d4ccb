// Computes self times and communication, and formats them; see summary.h.
#include "profiling/summary.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

namespace muster {
namespace {

using Json = nlohmann::json;
using Kind = ProfiledEvent::Kind;

constexpr size_t kOperatorLines = 12;
constexpr size_t kCommunicationLines = 6;
constexpr size_t kNameColumns = 38;

bool starts_with(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return starts_with(text, beginning); });
}

// Whether the event is neither compute nor the transport itself.
bool is_no_compute(const std::string& name) {
  return starts_with_any(name, {"wait:", "c10d::", "record_param_comms"});
}

// Each event's time without the events nested in it. Events must be of one thread, sorted by begin,
// longer ones first.
std::vector<int64_t> self_times(const std::vector<ProfiledEvent>& events,
                                std::vector<size_t> order) {
  std::vector<int64_t> self(events.size());
  std::vector<size_t> open;
  for (const size_t index : order) {
    const ProfiledEvent& event = events[index];
    while (!open.empty() && events[open.back()].end <= event.begin) open.pop_back();
    self[index] = event.end - event.begin;
    if (!open.empty())
      self[open.back()] -= std::min(event.end, events[open.back()].end) - event.begin;
    open.push_back(index);
  }
  return self;
}

std::map<uint64_t, std::vector<size_t>> nesting_by_thread(
    const std::vector<ProfiledEvent>& events) {
  std::map<uint64_t, std::vector<size_t>> threads;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].kind != Kind::kernel && events[i].same_thread) {
      threads[events[i].thread].push_back(i);
    }
  }
  for (auto& [thread, order] : threads) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return events[a].begin != events[b].begin ? events[a].begin < events[b].begin
                                                : events[a].end > events[b].end;
    });
  }
  return threads;
}

std::vector<TimeInterval> cpu_compute(const std::vector<ProfiledEvent>& events,
                                      const std::map<uint64_t, std::vector<size_t>>& threads) {
  std::vector<TimeInterval> compute;
  for (const auto& [thread, order] : threads) {
    std::vector<TimeInterval> operators, other;
    for (const size_t index : order) {
      const ProfiledEvent& event = events[index];
      const TimeInterval interval = {event.begin, event.end};
      if (is_communication(event) || is_no_compute(event.name)) {
        other.push_back(interval);
      } else if (event.kind == Kind::operation) {
        operators.push_back(interval);
      }
    }
    const auto own = without_intervals(std::move(operators), std::move(other));
    compute.insert(compute.end(), own.begin(), own.end());
  }
  return compute;
}

Overlap measured_overlap(const std::vector<ProfiledEvent>& events,
                         const std::map<uint64_t, std::vector<size_t>>& threads) {
  const bool has_kernels = std::any_of(
      events.begin(), events.end(), [](const auto& event) { return event.kind == Kind::kernel; });
  std::vector<TimeInterval> communication, kernels;
  for (const ProfiledEvent& event : events) {
    if (has_kernels != (event.kind == Kind::kernel)) continue;
    auto& list = is_communication(event) ? communication : kernels;
    // Copies between host and device are neither.
    if (!starts_with(event.name, "Mem")) list.push_back({event.begin, event.end});
  }
  return overlap_of(std::move(communication),
                    has_kernels ? std::move(kernels) : cpu_compute(events, threads));
}

Json json_of(const std::vector<ProfileSummary::Operator>& operators) {
  Json list = Json::array();
  for (const auto& operation : operators) {
    list.push_back({{"name", operation.name},
                    {"calls", operation.calls},
                    {"self_s", operation.self_seconds},
                    {"total_s", operation.total_seconds}});
  }
  return list;
}

std::string line(const char* format, const std::string& name, int64_t calls, double first,
                 double second) {
  std::string shown = name;
  constexpr std::string_view kNode = "autograd::engine::evaluate_function: ";
  if (starts_with(shown, kNode)) shown = "node " + shown.substr(kNode.size());
  if (shown.size() > kNameColumns) shown = shown.substr(0, kNameColumns - 3) + "...";
  char text[128];
  std::snprintf(text, sizeof(text), format, static_cast<int>(kNameColumns), shown.c_str(),
                static_cast<long long>(calls), first, second);
  return text;
}

}  // namespace

bool is_communication(const ProfiledEvent& event) {
  if (event.kind == Kind::kernel) return starts_with_any(event.name, {"nccl", "hcom_"});
  return starts_with_any(event.name,
                         {"gloo:", "shared_memory:", "nccl:", "hccl:", "ucc:", "xccl:"});
}

void summarize(const std::vector<ProfiledEvent>& events, int operators_kept,
               ProfileSummary& summary) {
  const auto threads = nesting_by_thread(events);
  std::vector<int64_t> self(events.size());
  for (const auto& [thread, order] : threads) {
    const std::vector<int64_t> own = self_times(events, order);
    for (const size_t index : order) self[index] = own[index];
  }
  std::map<std::string, ProfileSummary::Operator> by_name;
  for (size_t i = 0; i < events.size(); ++i) {
    const ProfiledEvent& event = events[i];
    if (event.kind == Kind::annotation && !is_communication(event) && !is_no_compute(event.name)) {
      continue;
    }
    ProfileSummary::Operator& operation = by_name[event.name];
    operation.name = event.name;
    operation.communication = is_communication(event);
    ++operation.calls;
    const int64_t length = event.end - event.begin;
    const bool nests = event.kind != Kind::kernel && event.same_thread;
    operation.self_seconds += static_cast<double>(nests ? self[i] : length) / 1e9;
    operation.total_seconds += static_cast<double>(length) / 1e9;
  }
  for (const auto& [name, operation] : by_name) {
    (operation.communication ? summary.communication : summary.operators).push_back(operation);
  }
  std::stable_sort(summary.operators.begin(), summary.operators.end(),
                   [](const auto& a, const auto& b) { return a.self_seconds > b.self_seconds; });
  std::stable_sort(summary.communication.begin(), summary.communication.end(),
                   [](const auto& a, const auto& b) { return a.total_seconds > b.total_seconds; });
  const auto kept = static_cast<size_t>(std::max(operators_kept, 0));
  if (summary.operators.size() > kept) summary.operators.resize(kept);
  summary.overlap = measured_overlap(events, threads);
}

std::string ProfileSummary::text() const {
  char head[160];
  std::snprintf(head, sizeof(head), "rank %d of %d, cycle %lld: steps %lld to %lld in %.1f ms\n",
                rank, world_size, static_cast<long long>(cycle), static_cast<long long>(first_step),
                static_cast<long long>(first_step + std::max<int64_t>(steps - 1, 0)),
                seconds * 1e3);
  std::string text = head;
  std::snprintf(head, sizeof(head),
                "communication %.1f ms, compute %.1f ms, both at once %.1f ms: %.0f %% hidden\n",
                overlap.communication * 1e3, overlap.compute * 1e3, overlap.overlapped * 1e3,
                overlap.fraction() * 100);
  text += head;
  text += "\noperator                                  calls      self ms     total ms\n";
  for (size_t i = 0; i < std::min(operators.size(), kOperatorLines); ++i) {
    const Operator& shown = operators[i];
    text += line("%-*s %8lld %12.2f %12.2f\n", shown.name, shown.calls, shown.self_seconds * 1e3,
                 shown.total_seconds * 1e3);
  }
  if (communication.empty()) return text;
  text += "\ncommunication                             calls     total ms      mean ms\n";
  for (size_t i = 0; i < std::min(communication.size(), kCommunicationLines); ++i) {
    const Operator& shown = communication[i];
    text +=
        line("%-*s %8lld %12.2f %12.3f\n", shown.name, shown.calls, shown.total_seconds * 1e3,
             shown.total_seconds * 1e3 / static_cast<double>(std::max<int64_t>(shown.calls, 1)));
  }
  return text;
}

std::string ProfileSummary::json() const {
  const Json json = {{"version", 1},
                     {"rank", rank},
                     {"world_size", world_size},
                     {"cycle", cycle},
                     {"first_step", first_step},
                     {"steps", steps},
                     {"seconds", seconds},
                     {"overlap",
                      {{"communication_s", overlap.communication},
                       {"compute_s", overlap.compute},
                       {"overlapped_s", overlap.overlapped},
                       {"fraction", overlap.fraction()}}},
                     {"operators", json_of(operators)},
                     {"communication", json_of(communication)},
                     {"trace", trace_file.substr(trace_file.rfind('/') + 1)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster
