// One message to one entry of a job's `notify`: its name, and its line in the file that outlives the
// coordinator. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::coordinator {

struct Delivery {
  uint64_t job = 0;
  uint32_t entry = 0;    // of JobSpec.notify, from 0
  std::string finding;   // its code; empty: the end of the job
  uint32_t attempt = 0;  // of the finding
  bool IsEnd() const { return finding.empty(); }
  auto operator<=>(const Delivery&) const = default;
};

// "CLUSTER-7-0", "CLUSTER-7-0-2-idle-devices": the same at every try and after every restart.
std::string NameOf(const std::string& cluster_id, const Delivery& delivery);

// "7 0 1700000000000", and for a finding " 2 idle-devices": job, entry, when it arose, attempt, code.
std::string LineOf(const Delivery& delivery, int64_t since_ms);
// Nothing: it is not such a line.
std::optional<std::pair<Delivery, int64_t>> ParseLine(std::string_view line);

}  // namespace muster::coordinator
