// See json_text.h.
#include "checkpoint/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace muster {

void append_json_name(std::string& text, std::string_view value) {
  const bool is_plain = std::all_of(value.begin(), value.end(), [](char letter) {
    return letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\';
  });
  if (!is_plain) {
    text += nlohmann::json(value).dump();
    return;
  }
  text += '"';
  text += value;
  text += '"';
}

}  // namespace muster
