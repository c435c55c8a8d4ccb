#include "identity/names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::identity {
namespace {

using common::StrCat;

constexpr size_t kNameMax = 63;
constexpr std::string_view kScheme = "spiffe://";
constexpr std::array kKinds = {std::pair{Kind::kWorker, std::string_view("worker")},
                               std::pair{Kind::kUser, std::string_view("user")},
                               std::pair{Kind::kCoordinator, std::string_view("coordinator")}};

absl::Status NotOurs(std::string_view uri) {
  return absl::InvalidArgumentError(
      StrCat("\"", common::Printable(uri), "\" does not name a worker, user or coordinator"));
}

}  // namespace

std::string_view KindName(Kind kind) {
  for (const auto& [each, name] : kKinds) {
    if (each == kind) return name;
  }
  return "";
}

std::string PathOf(const Subject& subject) {
  return StrCat(KindName(subject.kind), "/", subject.name);
}

absl::StatusOr<Subject> SubjectOfPath(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos || !IsName(path.substr(slash + 1))) return NotOurs(path);
  for (const auto& [kind, name] : kKinds) {
    if (path.substr(0, slash) == name) {
      return Subject{.kind = kind, .name = std::string(path.substr(slash + 1))};
    }
  }
  return NotOurs(path);
}

std::string PrincipalOf(const Subject& subject) {
  return StrCat(KindName(subject.kind), ":", subject.name);
}

std::string UriOf(std::string_view cluster, const Subject& subject) {
  return StrCat(kScheme, cluster, "/", PathOf(subject));
}

absl::StatusOr<Named> ParseUri(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return NotOurs(uri);
  const std::string_view rest = uri.substr(kScheme.size());
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos || !IsName(rest.substr(0, slash))) return NotOurs(uri);
  absl::StatusOr<Subject> subject = SubjectOfPath(rest.substr(slash + 1));
  if (!subject.ok()) return NotOurs(uri);
  return Named{.cluster = std::string(rest.substr(0, slash)), .subject = *std::move(subject)};
}

bool IsName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kNameMax && is_plain(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_plain(c) || c == '-' || c == '.' || c == '_' || c == '@';
         });
}

absl::Status CheckName(std::string_view what, std::string_view name) {
  if (IsName(name)) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1321",
       .what = StrCat("\"", common::Printable(name.substr(0, kNameMax)),
                      "\" cannot be the name of ", what),
       .why =
           StrCat("a name is 1 to ", kNameMax,
                  " letters, digits, '-', '.', '_' and '@', and begins with a letter or digit")});
}

}  // namespace muster::identity
