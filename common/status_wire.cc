#include "common/status_wire.h"

#include <algorithm>
#include <string_view>

#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/error.pb.h"

namespace muster::common {
namespace {

constexpr std::string_view kCut = "…";
constexpr size_t kFixMax = 500;
constexpr size_t kWhyLeast = 500;

size_t CostOf(std::string_view text) {
  size_t cost = 0;
  for (const char c : text) cost += c >= ' ' && c <= '~' && c != '%' ? 1 : 3;
  return cost;
}

// Cuts valid UTF-8 at a character boundary.
std::string Cut(const std::string& text, size_t cost_max) {
  if (CostOf(text) <= cost_max) return text;
  size_t room = cost_max - std::min(cost_max, CostOf(kCut));
  size_t end = 0;
  while (end < text.size() && CostOf({text.data() + end, 1}) <= room) {
    room -= CostOf({text.data() + end, 1});
    ++end;
  }
  const auto continues = [&](size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (end > 0 && continues(end)) --end;
  return StrCat(text.substr(0, end), kCut);
}

Problem Bound(Problem problem) {
  size_t room = kStatusTextMax;
  problem.fix = Cut(problem.fix, kFixMax);
  room -= CostOf(problem.fix);
  problem.what = Cut(problem.what, room - std::min(CostOf(problem.why), kWhyLeast));
  room -= CostOf(problem.what);
  problem.why = Cut(problem.why, room);
  return problem;
}

}  // namespace

WireStatus ToWire(const absl::Status& status) {
  if (status.ok()) return {};
  const Problem problem = ProblemOf(status);
  v1::StatusDetails details;
  details.set_code(static_cast<int>(status.code()));
  if (problem.code.empty()) {
    details.set_message(Cut(Printable(problem.what, true), kStatusTextMax));
  } else {
    const absl::Status bounded = MakeProblem(status.code(), Bound(problem));
    details.set_message(std::string(bounded.message()));
    v1::ErrorDetail detail;
    CopyDetail(bounded, &detail);
    details.add_details()->PackFrom(detail);
  }
  return {
      .code = status.code(), .message = details.message(), .details = details.SerializeAsString()};
}

absl::Status FromWire(const WireStatus& wire) {
  v1::StatusDetails details;
  v1::ErrorDetail detail;
  if (details.ParseFromString(wire.details)) {
    for (const auto& each : details.details()) {
      if (each.UnpackTo(&detail)) break;
    }
  }
  return StatusOf(wire.code, wire.message.empty() ? details.message() : wire.message, detail);
}

}  // namespace muster::common
