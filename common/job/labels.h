// Labels: a person's own key=value pairs of a job, and the terms that select jobs by them. The same
// characters and lengths as in Kubernetes, so that labels can be passed on. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/map.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::job {

// limit: jobs: labels of one; refused
inline constexpr int kLabelsMax = 32;                // of one job
inline constexpr size_t kLabelNameBytesMax = 63;     // of a value, and of a key behind its prefix
inline constexpr size_t kLabelPrefixBytesMax = 253;  // of the DNS name before the / in a key
// limit: jobs: label terms of a list; refused
inline constexpr int kLabelTermsMax = 32;  // in one question

using LabelMap = google::protobuf::Map<std::string, std::string>;

// Errors: JC1108, for the first label by key.
absl::Status CheckLabels(const v1::JobSpec& spec);

// "K=V" of a command line; V may be empty. Errors: JC1004 without a "=", JC1108 as CheckLabels.
absl::StatusOr<std::pair<std::string, std::string>> ParseLabel(std::string_view text);

struct LabelTerm {
  enum Kind { kEquals, kDiffers, kExists, kMissing } kind = kEquals;
  std::string key;
  std::string value;
};
// Parses "K=V" (or K==V), "K!=V", "K" and "!K". Errors: JC1004.
absl::StatusOr<LabelTerm> ParseLabelTerm(std::string_view text);
// Errors: JC1004, also for more than kLabelTermsMax.
absl::StatusOr<std::vector<LabelTerm>> ParseLabelTerms(const std::vector<std::string>& texts);

// Whether the labels meet all terms. As in Kubernetes, "K!=V" is also met without K.
bool MeetsLabelTerms(const LabelMap& labels, const std::vector<LabelTerm>& terms);

}  // namespace muster::job
