// Decides whether a directory is sent with a job, and which one, from the command line, the job file and
// where the coordinator is. Reads names in the file system, but no file's content.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace muster::client {

// The user's options about this.
struct CodeOptions {
  std::optional<bool> sync;  // --sync, --no-sync, or `sync` of the job file
  std::string root;          // DIR of --sync=DIR
  std::string workdir;       // of the command line or the job file; empty: not given
  bool workdir_is_flag = false;
  std::string here;            // the current directory
  std::string file_directory;  // the job file's; empty: there is none
};

struct CodeChoice {
  std::string root;     // the directory to send, absolute; empty: none is
  std::string workdir;  // of the command: relative to `root`, empty for itself
  bool by_default = false;
  // Only a job file names the directory, and it is neither below the file's directory nor below the
  // current one, so the file's author chose which files of this machine are sent.
  bool is_far = false;
};

// The choice for `options` that name a directory to send. Errors: JC1713 for a directory that does not
// exist, JC1714 for a working directory outside of it.
absl::StatusOr<CodeChoice> ChooseCode(const CodeOptions& options);

// The choice if the user has given none, for a coordinator on another host. Sends nothing if `workdir` is
// absolute, as it is then a directory of the nodes, or if the directory would be the root, the home
// directory or one that contains it (`refused` is that directory).
absl::StatusOr<CodeChoice> ChooseCodeByDefault(const CodeOptions& options, const std::string& home,
                                               std::string* refused);

// "/a/b" and "../c" are "/a/c". Pure.
std::string JoinedPath(const std::string& base, const std::string& path);

// False for a private coordinator, a unix socket, and an address of this host: programs there find this host's
// files. Of several addresses one on another host is enough. May ask a name server.
bool IsOnAnotherHost(const std::string& server);

}  // namespace muster::client
