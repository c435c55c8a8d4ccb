#include "client/cluster/node_list.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "client/command_line/errors.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/names.h"

namespace muster::client::cluster {
namespace {

using common::StrCat;

constexpr size_t kListBytesMax = 16 * 1024;
constexpr size_t kHostBytesMax = 253;
constexpr size_t kUserBytesMax = 64;
constexpr size_t kDirectoryBytesMax = 200;
constexpr std::string_view kShape = "write it like node1, alice@node1 or node1:2222";

bool IsPlain(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Excludes what ssh would take for an option, or a shell for more than one word.
bool IsWordOf(std::string_view text, std::string_view more, size_t most) {
  return !text.empty() && text.size() <= most && (IsPlain(text[0]) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), [more](char c) {
           return IsPlain(c) || more.find(c) != std::string_view::npos;
         });
}

absl::Status NotANode(std::string_view word, std::string_view why) {
  return Usage(
      "JC1801",
      StrCat("--nodes: \"", common::Printable(word.substr(0, 100)), "\" is not a node: ", why),
      kShape);
}

// Splits at commas outside of brackets.
std::vector<std::string_view> WordsOf(std::string_view list) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  bool inside = false;
  for (size_t at = 0; at <= list.size(); ++at) {
    if (at < list.size() && list[at] == '[') inside = true;
    if (at < list.size() && list[at] == ']') inside = false;
    if (at < list.size() && (list[at] != ',' || inside)) continue;
    words.push_back(list.substr(begin, at - begin));
    begin = at + 1;
  }
  return words;
}

bool ReadIndex(std::string_view text, uint32_t* number) {
  return !text.empty() && text.size() <= 6 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         absl::SimpleAtoi(common::ToAbsl(text), number);
}

// "node[01-03,7]": node01, node02, node03, node7. Numbers have the width of the first one of their range.
absl::StatusOr<std::vector<std::string>> Expanded(std::string_view word) {
  const size_t open = word.find('[');
  if (open == std::string_view::npos) return std::vector<std::string>{std::string(word)};
  const size_t close = word.find(']', open);
  if (close == std::string_view::npos || word.find('[', open + 1) != std::string_view::npos)
    return NotANode(word, "it may have one pair of brackets with numbers, like node[01-04]");
  std::vector<std::string> names;
  for (const std::string_view range : WordsOf(word.substr(open + 1, close - open - 1))) {
    const size_t dash = range.find('-');
    const std::string_view from = range.substr(0, dash);
    const std::string_view to = dash == std::string_view::npos ? from : range.substr(dash + 1);
    uint32_t first = 0, last = 0;
    if (!ReadIndex(from, &first) || !ReadIndex(to, &last) || last < first)
      return NotANode(word, StrCat("\"", common::Printable(range), "\" is not a range like 01-04"));
    if (names.size() + (last - first) >= kNodesMost)
      return NotANode(word, StrCat("a cluster has at most ", kNodesMost, " nodes"));
    for (uint32_t number = first; number <= last; ++number) {
      names.push_back(StrCat(word.substr(0, open),
                             absl::StrFormat("%0*d", static_cast<int>(from.size()), number),
                             word.substr(close + 1)));
    }
  }
  return names;
}

absl::StatusOr<SshNode> OneNode(std::string_view word) {
  SshNode node;
  std::string_view rest = word;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    node.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (!IsWordOf(node.user, "._-", kUserBytesMax))
      return NotANode(word, "the account in front of @ has letters, digits and \"._-\"");
  }
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    const std::string_view port = rest.substr(colon + 1);
    if (!ReadIndex(port, &node.port) || node.port == 0 || node.port > 65535)
      return NotANode(word, "the port behind : is a number from 1 to 65535");
    rest = rest.substr(0, colon);
  }
  if (!IsWordOf(rest, "._-", kHostBytesMax) || rest[0] == '_')
    return NotANode(word,
                    "a host has letters, digits and \"._-\"; others get a name in ~/.ssh/config");
  node.host = rest;
  return node;
}

}  // namespace

absl::StatusOr<std::vector<SshNode>> ParseSshNodes(std::string_view list) {
  if (list.size() > kListBytesMax)
    return Usage("JC1801", StrCat("--nodes has more than ", kListBytesMax, " bytes"), kShape);
  std::vector<SshNode> nodes;
  std::map<std::string, int> shared;
  for (const std::string_view word : WordsOf(list)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, Expanded(word));
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(SshNode node, OneNode(name));
      ++shared[node.host];
      nodes.push_back(std::move(node));
    }
    if (nodes.size() > kNodesMost)
      return NotANode(word, StrCat("a cluster has at most ", kNodesMost, " nodes"));
  }
  std::map<std::string, int> named;
  for (SshNode& node : nodes) {
    node.name =
        shared[node.host] > 1 && node.port > 0 ? StrCat(node.host, "-", node.port) : node.host;
    if (!identity::IsName(node.name))
      return NotANode(node.name,
                      "it is longer than 63 bytes; give it a short name in ~/.ssh/config");
    if (++named[node.name] > 1) return NotANode(node.name, "it is named twice");
  }
  return nodes;
}

absl::Status CheckDirectory(std::string_view directory) {
  const bool plain = std::all_of(directory.begin(), directory.end(), [](char c) {
    return IsPlain(c) || std::string_view("/._+@-").find(c) != std::string_view::npos;
  });
  if (!directory.empty() && directory.size() <= kDirectoryBytesMax && directory[0] != '-' &&
      plain && directory.find("..") == std::string_view::npos) {
    return absl::OkStatus();
  }
  return Usage("JC1801",
               StrCat("--dir: \"", common::Printable(directory.substr(0, kDirectoryBytesMax)),
                      "\" is not a directory for a cluster"),
               "at most 200 letters, digits and \"/._+@-\", without \"..\": --dir /scratch/muster");
}

}  // namespace muster::client::cluster
