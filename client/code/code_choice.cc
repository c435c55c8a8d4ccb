#include "client/code/code_choice.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "client/command_line/errors.h"
#include "client/connection/addresses.h"
#include "common/base/loopback.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

// Without links. Empty: there is no such directory.
std::string RealDirectory(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), free);
  std::error_code error;
  return real != nullptr && std::filesystem::is_directory(real.get(), error) ? real.get() : "";
}

// Both are real directories, without links.
bool Contains(const std::string& outer, const std::string& inner) {
  return outer == "/" || inner == outer || inner.starts_with(outer + "/");
}

std::string RelativeTo(const std::string& outer, const std::string& inner) {
  if (inner == outer) return "";
  return inner.substr(outer == "/" ? 1 : outer.size() + 1);
}

// True for a directory that only the job file names and that lies outside of its own and the current one.
bool IsFar(const CodeOptions& options, const std::string& root) {
  if (options.workdir_is_flag || options.workdir.empty() || options.file_directory.empty())
    return false;
  const std::string beside = RealDirectory(options.file_directory);
  const std::string here = RealDirectory(options.here);
  return (beside.empty() || !Contains(beside, root)) && (here.empty() || !Contains(here, root));
}

absl::Status NoDirectory(const std::string& path) {
  return Usage("JC1713", StrCat("there is no directory ", common::Printable(path), " to send"),
               "correct --sync=DIR or workdir; --no-sync if the code is on the nodes already");
}

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || b == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

bool IsOfThisHost(const sockaddr* address) {
  if (common::IsLoopback(*address)) return true;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool found = false;
  for (const ifaddrs* each = all; each != nullptr && !found; each = each->ifa_next)
    found = SameAddress(each->ifa_addr, address);
  freeifaddrs(all);
  return found;
}

}  // namespace

std::string JoinedPath(const std::string& base, const std::string& path) {
  std::string joined = (std::filesystem::path(base) / path).lexically_normal().string();
  while (joined.size() > 1 && joined.back() == '/') joined.pop_back();
  return joined;
}

absl::StatusOr<CodeChoice> ChooseCode(const CodeOptions& options) {
  const bool has_file = !options.file_directory.empty();
  const std::string& beside = has_file ? options.file_directory : options.here;
  const std::string& base = options.workdir_is_flag ? options.here : beside;
  CodeChoice choice;
  if (options.root.empty()) {
    choice.root = JoinedPath(base, options.workdir);
    const std::string root = RealDirectory(choice.root);
    if (root.empty()) return NoDirectory(choice.root);
    choice.is_far = IsFar(options, root);
    return choice;
  }
  choice.root = JoinedPath(options.here, options.root);
  const std::string root = RealDirectory(choice.root);
  if (root.empty()) return NoDirectory(choice.root);
  if (options.workdir.empty()) {
    // The directory where the command line was typed, or where its file lies, if it is sent.
    const std::string directory = RealDirectory(beside);
    if (!directory.empty() && Contains(root, directory))
      choice.workdir = RelativeTo(root, directory);
    return choice;
  }
  const std::string named =
      JoinedPath(options.workdir_is_flag ? choice.root : base, options.workdir);
  const std::string directory = RealDirectory(named);
  if (directory.empty()) return NoDirectory(named);
  if (!Contains(root, directory)) {
    return Usage("JC1714",
                 StrCat("the working directory ", common::Printable(named), " is not below ",
                        common::Printable(choice.root), ", which is sent"),
                 "name a directory below it as workdir, or one above both with --sync=DIR");
  }
  choice.workdir = RelativeTo(root, directory);
  return choice;
}

absl::StatusOr<CodeChoice> ChooseCodeByDefault(const CodeOptions& options, const std::string& home,
                                               std::string* refused) {
  if (options.workdir.starts_with('/')) return CodeChoice();
  CodeOptions wanted = options;
  // Without sync, the default of `workdir` is the current directory; here too.
  if (wanted.workdir.empty()) wanted.file_directory.clear();
  ASSIGN_OR_RETURN(CodeChoice choice, ChooseCode(wanted));
  const std::string root = RealDirectory(choice.root);
  const std::string real_home = RealDirectory(home);
  if (root == "/" || (!real_home.empty() && Contains(root, real_home))) {
    *refused = choice.root;
    return CodeChoice();
  }
  choice.by_default = true;
  return choice;
}

namespace {

bool IsAddressOfAnotherHost(const std::string& server) {
  std::string host = server.substr(0, server.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) == 0 && host == name) return false;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  // The name does not resolve, so the connection will fail with a better message.
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool is_here = false;
  for (const addrinfo* each = found; each != nullptr && !is_here; each = each->ai_next)
    is_here = IsOfThisHost(each->ai_addr);
  freeaddrinfo(found);
  return !is_here;
}

}  // namespace

bool IsOnAnotherHost(const std::string& server) {
  if (server.empty() || server.starts_with("unix:")) return false;
  const std::vector<std::string> addresses = SplitAddresses(server);
  return std::any_of(addresses.begin(), addresses.end(), IsAddressOfAnotherHost);
}

}  // namespace muster::client
