// How the code of two jobs differs, from their manifests. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/text/json_text.h"
#include "tree/manifest.h"

namespace muster::client {

struct FileDifference {
  std::string path;
  const tree::Entry* a = nullptr;  // null: only b has it
  const tree::Entry* b = nullptr;
};

// Files and links that only one has, or whose content, mode or target differ, in the manifests'
// order. Both must outlive the result.
std::vector<FileDifference> DifferencesOf(const tree::Manifest& a, const tree::Manifest& b);

// A line each, the first `kDifferencesShown`: "~ train.py  1.2 KB, was 1.1 KB", "+ new.py  3 B".
inline constexpr size_t kDifferencesShown = 50;
std::string DifferenceText(const std::vector<FileDifference>& differences);
// A list of objects, indented by a space.
common::JsonText DifferenceJson(const std::vector<FileDifference>& differences);

}  // namespace muster::client
