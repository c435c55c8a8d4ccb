// Writes JSON as text: files that list very many tensors are made without a tree of values. No torch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// In quotes, as nlohmann::json and Python write it. Throws nlohmann::json::type_error for what is not
// UTF-8 (append_json_string, of the trackers, writes other characters there).
void append_json_name(std::string& text, std::string_view value);

// "[2,3]".
template <typename Integers>
void append_json_integers(std::string& text, const Integers& values) {
  text += '[';
  bool is_first = true;
  for (const auto value : values) {
    if (!is_first) text += ',';
    is_first = false;
    text += std::to_string(value);
  }
  text += ']';
}

}  // namespace muster
