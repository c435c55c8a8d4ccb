// redaction: one pass over the text that tries every kind of secret at the beginning of each word.
#include "client/diagnosis/redaction.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job.pb.h"

namespace muster::client {
namespace {

constexpr size_t kKnownValueLeast = 6;  // shorter ones occur by chance
constexpr size_t kNameMost = 128;
constexpr size_t kTokenLeast = 16;
constexpr size_t kBearerLeast = 8;
constexpr size_t kPrivateKeyLine = 64;  // "-----BEGIN ENCRYPTED PRIVATE KEY-----"

// Prefixes of well-known services' tokens.
constexpr std::string_view kTokenStarts[] = {"ghp_",   "gho_", "ghs_", "ghu_",  "github_pat_",
                                             "glpat-", "hf_",  "sk-",  "xoxb-", "xoxp-",
                                             "AKIA",   "ASIA", "AIza", "eyJ",   "npm_"};

bool IsNameByte(char byte) {
  const auto c = static_cast<unsigned char>(byte);
  return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
}
bool IsTokenByte(char byte) {
  return IsNameByte(byte) || byte == '+' || byte == '/' || byte == '=' || byte == '~';
}
bool IsBlank(char byte) { return byte == ' ' || byte == '\t'; }
bool IsQuote(char byte) { return byte == '"' || byte == '\''; }
bool BeginsWord(std::string_view text, size_t at) { return at == 0 || !IsNameByte(text[at - 1]); }

template <typename Accepts>
size_t RunOf(std::string_view text, size_t at, Accepts accepts) {
  size_t end = at;
  while (end < text.size() && accepts(text[end])) ++end;
  return end - at;
}

bool StartsAlike(std::string_view text, size_t at, std::string_view lower_word) {
  return absl::EqualsIgnoreCase(common::ToAbsl(text.substr(at, lower_word.size())),
                                common::ToAbsl(lower_word));
}

// common::LooksSecret, except for words that training logs are full of, such as KeyError.
bool NamesSecret(std::string_view name) {
  std::string lower = absl::AsciiStrToLower(common::ToAbsl(name));
  for (const std::string_view word : {"keyerror", "keyboard", "keyword", "keypoint", "tokeniz"}) {
    for (size_t at; (at = lower.find(word)) != std::string::npos;) lower.erase(at, word.size());
  }
  return common::LooksSecret(lower);
}

bool IsPlainWord(std::string_view value) {
  for (const std::string_view word : {"true", "false", "null", "None", "True", "False"}) {
    if (value == word) return true;
  }
  return false;
}

// "tokens=512" and "key: 3" are measurements; a password may well be a number.
bool MayBeNumber(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(common::ToAbsl(name));
  for (const char* word : {"pass", "secret", "credential"}) {
    if (lower.find(word) != std::string::npos) return false;
  }
  return true;
}
bool IsNumber(std::string_view value) {
  return !value.empty() && value.find_first_not_of("0123456789.,+-eE%") == std::string_view::npos;
}

// The end of a value: at its quote, or at a byte that cannot be part of it.
size_t ValueEnd(std::string_view text, size_t at, char quote) {
  for (size_t i = at; i < text.size(); ++i) {
    if (quote != 0 && text[i] == '\\') {
      ++i;
    } else if (quote != 0 ? text[i] == quote
                          : std::string_view(" \t\r\n,;&)}]\"'<>").find(text[i]) !=
                                std::string_view::npos) {
      return i;
    }
    if (i < text.size() && text[i] == '\n') return i;
  }
  return text.size();
}

}  // namespace

void Redaction::Hide(const std::string& kind, std::string* out) {
  ++hidden_[kind];
  out->append(kHidden);
}

void Redaction::LearnFrom(const v1::JobSpec& spec) {
  for (const auto& [name, value] : spec.env()) {
    if (common::LooksSecret(name) && value.size() >= kKnownValueLeast) values_.push_back(value);
  }
  std::sort(values_.begin(), values_.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
}

std::string Redaction::WithoutKnownValues(std::string_view text) {
  std::string rest(text);
  for (const std::string& value : values_) {
    for (size_t at = 0; (at = rest.find(value, at)) != std::string::npos; at += kHidden.size()) {
      rest.replace(at, value.size(), kHidden);
      ++hidden_["values of the job's secret variables"];
    }
  }
  return rest;
}

// NAME=VALUE, "name": "value", name: value, --name value, with a name that looks secret.
size_t Redaction::TakeAssignment(std::string_view text, size_t at, std::string* out) {
  const size_t length = RunOf(text, at, IsNameByte);
  if (length == 0 || length > kNameMost) return 0;
  const std::string_view name = text.substr(at, length);
  size_t next = at + length;
  while (next < text.size() && (IsQuote(text[next]) || text[next] == '\\')) ++next;
  const size_t after_name = next;
  next += RunOf(text, next, IsBlank);
  const bool assigned = next < text.size() && (text[next] == '=' || text[next] == ':');
  if (assigned) {
    ++next;
    if (next < text.size() && text[next] == '=') ++next;
    next += RunOf(text, next, IsBlank);
  } else if (!name.starts_with("--") || next == after_name) {
    return 0;
  }
  if (!NamesSecret(name)) return 0;
  const size_t escapes = RunOf(text, next, [](char byte) { return byte == '\\'; });
  next += escapes;  // before a quote inside quoted text
  const char quote = next < text.size() && IsQuote(text[next]) ? text[next] : 0;
  if (quote != 0) ++next;
  for (const std::string_view scheme : {"bearer ", "basic ", "token "}) {
    if (StartsAlike(text, next, scheme)) next += scheme.size();
  }
  const size_t end = escapes > 0 ? std::min(text.find_first_of("\\\n", next), text.size())
                                 : ValueEnd(text, next, quote);
  const std::string_view value = text.substr(next, end - next);
  if (value.empty() || text.substr(next, kHidden.size()) == kHidden ||
      (!assigned && value.starts_with("-")))
    return 0;
  if (IsNumber(value) && MayBeNumber(name)) return 0;
  if (quote == 0 && (value.starts_with("//") || value.starts_with("[") || value.starts_with("{") ||
                     IsPlainWord(value))) {
    return 0;  // a URL's scheme, a list, an object
  }
  out->append(text.substr(at, next - at));
  Hide("values of secret names", out);
  return end - at;
}

// scheme://user:password@host
size_t Redaction::TakeUrl(std::string_view text, size_t at, std::string* out) {
  const size_t length = RunOf(text, at, [](char byte) { return IsNameByte(byte) || byte == '+'; });
  if (length == 0 || text.substr(at + length, 3) != "://") return 0;
  const size_t authority = at + length + 3;
  const size_t end = std::min(text.find_first_of("/ \t\r\n\"'<>?#", authority), text.size());
  const size_t user = text.substr(authority, end - authority).rfind('@');
  if (user == std::string_view::npos || user == 0) return 0;
  if (text.substr(authority, user) == kHidden) return 0;
  out->append(text.substr(at, authority - at));
  Hide("users and passwords in URLs", out);
  return authority + user - at;
}

size_t Redaction::TakeBearer(std::string_view text, size_t at, std::string* out) {
  for (const std::string_view scheme : {"bearer ", "basic "}) {
    if (!StartsAlike(text, at, scheme)) continue;
    const size_t length = RunOf(text, at + scheme.size(), IsTokenByte);
    const std::string_view value = text.substr(at + scheme.size(), length);
    // "basic training" is not a credential.
    const bool is_word = value.find_first_of("0123456789=+/_") == std::string_view::npos;
    if (length < kBearerLeast || is_word) continue;
    out->append(text.substr(at, scheme.size()));
    Hide("bearer tokens", out);
    return scheme.size() + length;
  }
  return 0;
}

size_t Redaction::TakeToken(std::string_view text, size_t at, std::string* out) {
  for (const std::string_view start : kTokenStarts) {
    if (text.substr(at, start.size()) != start) continue;
    const size_t length = RunOf(text, at, IsNameByte);
    if (length < kTokenLeast) continue;
    Hide("tokens of known forms", out);
    return length;
  }
  return 0;
}

size_t Redaction::TakePrivateKey(std::string_view text, size_t at, std::string* out) {
  constexpr std::string_view kBegin = "-----BEGIN ";
  if (text.substr(at, kBegin.size()) != kBegin) return 0;
  if (text.substr(at, kPrivateKeyLine).find("PRIVATE KEY") == std::string_view::npos) return 0;
  const size_t last = text.find("-----END ", at);
  const size_t end = last == std::string_view::npos
                         ? text.size()
                         : std::min(text.find_first_of("\n\\\"'", last), text.size());
  Hide("private keys", out);
  return end - at;
}

std::string Redaction::Apply(std::string_view original) {
  const std::string text = WithoutKnownValues(original);
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t taken = 0;
    if (BeginsWord(text, at)) {
      taken = TakePrivateKey(text, at, &out);
      if (taken == 0) taken = TakeUrl(text, at, &out);
      if (taken == 0) taken = TakeAssignment(text, at, &out);
      if (taken == 0) taken = TakeBearer(text, at, &out);
      if (taken == 0) taken = TakeToken(text, at, &out);
    }
    if (taken == 0) {
      out += text[at];
      taken = 1;
    }
    at += taken;
  }
  return out;
}

void Redaction::Apply(v1::JobSpec* spec) {
  for (auto& [name, value] : *spec->mutable_env()) {
    if (value.empty()) continue;
    if (!common::LooksSecret(name)) {
      value = Apply(value);
      continue;
    }
    value.clear();
    Hide("values of the job's secret variables", &value);
  }
  bool is_secret = false;  // the argument before named a secret
  for (std::string& word : *spec->mutable_command()) {
    const bool is_name = word.starts_with("-") && word.find('=') == std::string::npos;
    if (is_secret && !is_name) {
      word.clear();
      Hide("secret arguments", &word);
    } else {
      word = Apply(word);
    }
    is_secret = is_name && NamesSecret(word);
  }
}

void Redaction::ApplyToTexts(google::protobuf::Message* message) {
  if (auto* spec = dynamic_cast<v1::JobSpec*>(message)) return Apply(spec);
  const google::protobuf::Reflection* reflection = message->GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    using Type = google::protobuf::FieldDescriptor;
    const int count = field->is_repeated() ? reflection->FieldSize(*message, field) : 0;
    if (field->cpp_type() == Type::CPPTYPE_MESSAGE && field->is_repeated()) {
      for (int i = 0; i < count; ++i) {
        ApplyToTexts(reflection->MutableRepeatedMessage(message, field, i));
      }
    } else if (field->cpp_type() == Type::CPPTYPE_MESSAGE) {
      ApplyToTexts(reflection->MutableMessage(message, field));
    } else if (field->type() == Type::TYPE_STRING && field->is_repeated()) {
      for (int i = 0; i < count; ++i) {
        reflection->SetRepeatedString(message, field, i,
                                      Apply(reflection->GetRepeatedString(*message, field, i)));
      }
    } else if (field->type() == Type::TYPE_STRING) {
      reflection->SetString(message, field, Apply(reflection->GetString(*message, field)));
    }
  }
}

}  // namespace muster::client
