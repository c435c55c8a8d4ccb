#include "common/job/labels.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/job/refuse.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job.pb.h"

namespace muster::job {
namespace {

using common::StrCat;

constexpr size_t kLabelShownBytes = 100;

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Letters and digits, with - _ . in between.
bool IsLabelName(std::string_view text) {
  return !text.empty() && text.size() <= kLabelNameBytesMax && IsAlnum(text.front()) &&
         IsAlnum(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
           return IsAlnum(c) || c == '-' || c == '_' || c == '.';
         });
}

bool IsDnsLabel(std::string_view text) {
  return IsLabelName(text) && std::all_of(text.begin(), text.end(), [](char c) {
           return c == '-' || (IsAlnum(c) && !(c >= 'A' && c <= 'Z'));
         });
}

// Words of small letters, digits and -, separated by dots.
bool IsDnsName(std::string_view text) {
  if (text.size() > kLabelPrefixBytesMax) return false;
  while (true) {
    const size_t dot = text.find('.');
    if (!IsDnsLabel(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool IsLabelKey(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return IsLabelName(key);
  return IsDnsName(key.substr(0, slash)) && IsLabelName(key.substr(slash + 1));
}

bool IsLabelValue(std::string_view value) { return value.empty() || IsLabelName(value); }

std::string Quoted(std::string_view text) {
  return StrCat("\"", common::PrintableStart(text, kLabelShownBytes), "\"");
}

// What is wrong with a label; empty: nothing.
std::string WrongLabel(std::string_view key, std::string_view value) {
  if (!IsLabelKey(key)) {
    return StrCat(Quoted(key), " is not a valid key of a label: a key is 1 to ", kLabelNameBytesMax,
                  " letters, digits, -, _ and ., a letter or digit first and last; a DNS name and "
                  "a / may precede it");
  }
  if (!IsLabelValue(value)) {
    return StrCat(Quoted(value), " is not a valid value of the label ", key, ": a value is up to ",
                  kLabelNameBytesMax,
                  " letters, digits, -, _ and ., a letter or digit first and last");
  }
  return "";
}

absl::Status CheckLabel(std::string_view key, std::string_view value) {
  const std::string wrong = WrongLabel(key, value);
  return wrong.empty() ? absl::OkStatus() : Refuse("JC1108", wrong, "--label team=vision");
}

}  // namespace

absl::Status CheckLabels(const v1::JobSpec& spec) {
  if (spec.labels_size() > kLabelsMax) {
    return Refuse("JC1108",
                  StrCat("the job has ", spec.labels_size(), " labels; the limit is ", kLabelsMax),
                  "remove some");
  }
  // A map has no order: always report the first by key, so that everyone gets the same error.
  absl::Status wrong;
  const std::string* first = nullptr;
  for (const auto& [key, value] : spec.labels()) {
    if (first != nullptr && *first < key) continue;
    absl::Status checked = CheckLabel(key, value);
    if (checked.ok()) continue;
    wrong = std::move(checked);
    first = &key;
  }
  return wrong;
}

absl::StatusOr<std::pair<std::string, std::string>> ParseLabel(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return Refuse("JC1004", StrCat("the label ", Quoted(text), " is not KEY=VALUE"),
                  "--label team=vision");
  }
  const std::string_view key = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  RETURN_IF_ERROR(CheckLabel(key, value));
  return std::pair(std::string(key), std::string(value));
}

absl::StatusOr<LabelTerm> ParseLabelTerm(std::string_view text) {
  LabelTerm term;
  std::string_view key = text;
  const size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    key = text.substr(0, equals);
    std::string_view value = text.substr(equals + 1);
    if (key.ends_with('!')) {
      term.kind = LabelTerm::kDiffers;
      key.remove_suffix(1);
    } else if (value.starts_with('=')) {
      value.remove_prefix(1);
    }
    term.value = value;
  } else if (key.starts_with('!')) {
    term.kind = LabelTerm::kMissing;
    key.remove_prefix(1);
  } else {
    term.kind = LabelTerm::kExists;
  }
  term.key = key;
  if (const std::string wrong = WrongLabel(term.key, term.value); !wrong.empty()) {
    return Refuse("JC1004", StrCat("cannot select by ", Quoted(text), ": ", wrong),
                  "use K=V, K!=V, K or !K: -l team=vision");
  }
  return term;
}

absl::StatusOr<std::vector<LabelTerm>> ParseLabelTerms(const std::vector<std::string>& texts) {
  if (texts.size() > static_cast<size_t>(kLabelTermsMax)) {
    return Refuse("JC1004",
                  StrCat(texts.size(), " terms select by labels; the limit is ", kLabelTermsMax),
                  "use fewer");
  }
  std::vector<LabelTerm> terms;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(LabelTerm term, ParseLabelTerm(text));
    terms.push_back(std::move(term));
  }
  return terms;
}

bool MeetsLabelTerms(const LabelMap& labels, const std::vector<LabelTerm>& terms) {
  return std::all_of(terms.begin(), terms.end(), [&labels](const LabelTerm& term) {
    const auto label = labels.find(term.key);
    const bool has = label != labels.end();
    switch (term.kind) {
      case LabelTerm::kEquals:
        return has && label->second == term.value;
      case LabelTerm::kDiffers:
        return !has || label->second != term.value;
      case LabelTerm::kExists:
        return has;
      case LabelTerm::kMissing:
        return !has;
    }
    return false;
  });
}

}  // namespace muster::job
