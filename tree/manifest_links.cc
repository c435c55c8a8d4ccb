// Follows links as the kernel would in a tree that has only the entries of the manifest.
#include <algorithm>

#include "common/text/utf8.h"
#include "tree/manifest.h"

namespace muster::tree {
namespace {

constexpr int kFollowedMax = 40;  // like Linux
// For all links of a tree together, because hostile ones would cost hours. Real trees need a few
// steps per link, and the longer the compared paths are, the more a step costs.
constexpr uint64_t kStepsMax = 4'000'000;
constexpr uint64_t kBytesOfAStep = 64;

// The components of `target`, the first one last.
void PushComponents(std::string_view target, std::vector<std::string_view>& todo) {
  for (size_t end = target.size();;) {
    const size_t slash = end == 0 ? std::string_view::npos : target.rfind('/', end - 1);
    const size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
    const std::string_view component = target.substr(begin, end - begin);
    if (!component.empty() && component != ".") todo.push_back(component);
    if (slash == std::string_view::npos) return;
    end = slash;
  }
}

std::string_view TargetProblem(std::string_view target) {
  if (target.empty()) return "is a link to nothing";
  if (target.size() > kLinkTargetBytesMax) return "is a link to more than 4,096 bytes";
  if (target.front() == '/') return "is a link to an absolute path, out of the tree";
  if (target.find('\0') != std::string_view::npos || !common::IsUtf8(target)) {
    return "is a link to a name that is not UTF-8";
  }
  return {};
}

}  // namespace

LinkRules::LinkRules(const Manifest& manifest) : manifest_(manifest), steps_left_(kStepsMax) {
  for (size_t i = 0; i < manifest.entries.size(); ++i) {
    if (manifest.entries[i].kind == Kind::kLink) links_.push_back(static_cast<uint32_t>(i));
  }
}

const Entry* LinkRules::Find(std::string_view path, bool links_only) const {
  if (links_only) {
    const auto found = std::lower_bound(links_.begin(), links_.end(), path,
                                        [this](uint32_t at, std::string_view wanted) {
                                          return PathLess(manifest_.entries[at].path, wanted);
                                        });
    if (found == links_.end() || manifest_.entries[*found].path != path) return nullptr;
    return &manifest_.entries[*found];
  }
  const auto found = std::lower_bound(
      manifest_.entries.begin(), manifest_.entries.end(), path,
      [](const Entry& entry, std::string_view wanted) { return PathLess(entry.path, wanted); });
  return found == manifest_.entries.end() || found->path != path ? nullptr : &*found;
}

std::string_view LinkRules::Problem(const Entry& link, bool* dangling) {
  if (const std::string_view why = TargetProblem(link.target); !why.empty()) return why;
  std::string at(ParentOf(link.path));
  std::vector<std::string_view> todo;
  PushComponents(link.target, todo);
  int followed = 0;
  while (!todo.empty()) {
    const uint64_t cost = 1 + at.size() / kBytesOfAStep;
    if (steps_left_ < cost) return "is one link too many: where they lead is too long to follow";
    steps_left_ -= cost;
    const std::string_view component = todo.back();
    todo.pop_back();
    if (component == "..") {
      if (at.empty()) return "is a link that leads out of the tree";
      at.resize(ParentOf(at).size());
      continue;
    }
    if (!at.empty()) at += '/';
    at += component;
    const Entry* through = Find(at, true);
    if (through == nullptr) continue;
    if (++followed > kFollowedMax) return "is a link that goes through more than 40 links";
    if (through->target.empty() || through->target.front() == '/') {
      return "is a link that leads out of the tree through another link";
    }
    at.resize(ParentOf(at).size());
    PushComponents(through->target, todo);
  }
  if (dangling != nullptr) *dangling = !at.empty() && Find(at, false) == nullptr;
  return {};
}

}  // namespace muster::tree
