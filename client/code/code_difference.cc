#include "client/code/code_difference.h"

#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

bool IsSame(const tree::Entry& a, const tree::Entry& b) {
  return a.kind == b.kind && a.content == b.content && a.size == b.size && a.target == b.target;
}

std::string EntryText(const tree::Entry& entry) {
  if (entry.kind == tree::Kind::kLink) return StrCat("link to ", common::Printable(entry.target));
  return common::HumanBytes(entry.size);
}

// Describes how a file has changed.
std::string ChangeText(const tree::Entry& a, const tree::Entry& b) {
  std::string text = EntryText(b);
  if (EntryText(a) != text) StrAppend(&text, ", was ", EntryText(a));
  if (a.IsFile() && b.IsFile() && a.kind != b.kind)
    StrAppend(&text,
              b.kind == tree::Kind::kExecutable ? ", now executable" : ", no longer executable");
  return text;
}

common::JsonText EntryJson(const tree::Entry* entry) {
  if (entry == nullptr) return common::JsonNull();
  common::JsonObject json;
  if (entry->kind == tree::Kind::kLink) return json.Add("link", entry->target).Done();
  return json.Add("size", entry->size)
      .Add("sha256", tree::Hex(entry->content))
      .Add("executable", entry->kind == tree::Kind::kExecutable)
      .Done();
}

}  // namespace

std::vector<FileDifference> DifferencesOf(const tree::Manifest& a, const tree::Manifest& b) {
  std::vector<FileDifference> differences;
  const auto add = [&](const tree::Entry* in_a, const tree::Entry* in_b) {
    // Directories are not compared themselves, only their contents.
    if (in_a != nullptr && in_a->kind == tree::Kind::kDirectory) in_a = nullptr;
    if (in_b != nullptr && in_b->kind == tree::Kind::kDirectory) in_b = nullptr;
    if (in_a == nullptr && in_b == nullptr) return;
    if (in_a != nullptr && in_b != nullptr && IsSame(*in_a, *in_b)) return;
    differences.push_back({(in_b != nullptr ? in_b : in_a)->path, in_a, in_b});
  };
  auto left = a.entries.begin();
  auto right = b.entries.begin();
  while (left != a.entries.end() || right != b.entries.end()) {
    const bool only_left = right == b.entries.end() ||
                           (left != a.entries.end() && tree::PathLess(left->path, right->path));
    const bool only_right =
        !only_left && (left == a.entries.end() || tree::PathLess(right->path, left->path));
    add(only_right ? nullptr : &*left, only_left ? nullptr : &*right);
    if (!only_right) ++left;
    if (!only_left) ++right;
  }
  return differences;
}

std::string DifferenceText(const std::vector<FileDifference>& differences) {
  std::string text;
  for (size_t i = 0; i < differences.size() && i < kDifferencesShown; ++i) {
    const auto& [path, a, b] = differences[i];
    const std::string_view sign = a == nullptr ? "+ " : b == nullptr ? "- " : "~ ";
    const std::string what =
        a != nullptr && b != nullptr ? ChangeText(*a, *b) : EntryText(a == nullptr ? *b : *a);
    StrAppend(&text, sign, common::Printable(path), "  ", what, "\n");
  }
  if (differences.size() > kDifferencesShown) {
    StrAppend(&text, "… and ", common::Counted(differences.size() - kDifferencesShown, "more file"),
              " (-o json has all)\n");
  }
  return text;
}

common::JsonText DifferenceJson(const std::vector<FileDifference>& differences) {
  common::JsonArray list("\n  ");
  for (const auto& [path, a, b] : differences) {
    list.Add(common::JsonObject()
                 .Add("path", path)
                 .Add("change", a == nullptr   ? "added"
                                : b == nullptr ? "removed"
                                               : "changed")
                 .Add("a", EntryJson(a))
                 .Add("b", EntryJson(b))
                 .Done());
  }
  return list.Done("\n ");
}

}  // namespace muster::client
