#include "common/text/json_text.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/text/exact_number.h"
#include "common/text/text.h"

namespace muster::common {
namespace {

// Invisible characters as \uXXXX: the value is unchanged.
std::string Escape(std::string_view sequence) {
  uint32_t point = static_cast<unsigned char>(sequence[0]) & (0x7F >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) {
    point = (point << 6) | (static_cast<unsigned char>(sequence[i]) & 0x3F);
  }
  if (point < 0x10000) return absl::StrFormat("\\u%04x", point);
  point -= 0x10000;
  return absl::StrFormat("\\u%04x\\u%04x", 0xD800 + (point >> 10), 0xDC00 + (point & 0x3FF));
}

// True if nothing in it needs to be escaped.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; });
}

}  // namespace

std::string JsonQuote(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = text[i];
    switch (c) {
      case '"':
      case '\\':
        out += '\\';
        out += static_cast<char>(c);
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (c < 0x20 || c == 0x7F) {
          out += absl::StrFormat("\\u%04x", c);
        } else if (c < 0x80) {
          out += static_cast<char>(c);
        } else {
          size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
          length = std::min(length, text.size() - i);
          const std::string_view sequence = text.substr(i, length);
          if (IsCleanUtf8(sequence)) {
            out += sequence;
            i += length - 1;
          } else if (IsUtf8Text(sequence)) {
            out += Escape(sequence);
            i += length - 1;
          } else {
            // Not UTF-8, or a C1 control, which JSON does not require to be escaped.
            out += "\xEF\xBF\xBD";
          }
        }
    }
  }
  return out + "\"";
}

void AppendJson(std::string_view text, std::string* out) {
  if (IsPlain(text)) {
    out->push_back('"');
    out->append(text);
    out->push_back('"');
  } else {
    *out += JsonQuote(text);
  }
}

void AppendJson(const std::optional<std::string>& text, std::string* out) {
  text ? AppendJson(*text, out) : AppendJson(JsonNull(), out);
}

void AppendJson(double number, std::string* out) { *out += ExactJson(number); }

void JsonObject::Name(std::string_view name, std::string_view between) {
  if (text_.size() > 1) text_ += between;
  AppendJson(name, &text_);
  text_ += is_compact_ ? ":" : ": ";
}

std::string EscapeHiddenJson(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const unsigned char c = json[0];
    const size_t length = std::min<size_t>(json.size(), c < 0xC0   ? 1
                                                        : c < 0xE0 ? 2
                                                        : c < 0xF0 ? 3
                                                                   : 4);
    const std::string_view sequence = json.substr(0, length);
    if (length > 1 && !IsCleanUtf8(sequence) && IsUtf8Text(sequence)) {
      out += Escape(sequence);
    } else {
      out += sequence;
    }
    json.remove_prefix(length);
  }
  return out;
}

}  // namespace muster::common
