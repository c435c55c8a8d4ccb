// Whether a job's directory is sent with it, and which one: what the command line, the job file and
// the coordinator's place make of it. Reads the file system's names, no file's content.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace muster::client {

// What was said about it.
struct CodeOptions {
  std::optional<bool> sync;  // --sync, --no-sync, or `sync` of the job file
  std::string root;          // DIR of --sync=DIR
  std::string workdir;       // of the command line or the job file; empty: not said
  bool workdir_is_flag = false;
  std::string here;            // the current directory
  std::string file_directory;  // the job file's; empty: there is none
};

struct CodeChoice {
  std::string root;     // the directory to send, absolute; empty: none is
  std::string workdir;  // of the command: relative to `root`, empty for itself
  bool by_default = false;
  // A job file alone names it, and it is neither below the file's directory nor below the current
  // one: the file's author chose what of this machine is sent.
  bool is_far = false;
};

// By `options`, which name a directory to send. Errors: JC1713 for a directory that is not there,
// JC1714 for a working directory outside of it.
absl::StatusOr<CodeChoice> ChooseCode(const CodeOptions& options);

// Where nothing was said: what is sent to a coordinator on another host. None if `workdir` is
// absolute, as it is then a directory of the nodes, or if it would be the root, the home directory
// or one that contains it (`refused` is that directory).
absl::StatusOr<CodeChoice> ChooseCodeByDefault(const CodeOptions& options, const std::string& home,
                                               std::string* refused);

// "/a/b" and "../c" are "/a/c". Pure.
std::string JoinedPath(const std::string& base, const std::string& path);

// False for a private coordinator, a unix socket, and an address of this host: what runs there finds
// this host's files. May ask a name server.
bool IsOnAnotherHost(const std::string& server);

}  // namespace muster::client
