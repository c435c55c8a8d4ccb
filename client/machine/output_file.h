// A file that appears whole or not at all: what is written lies in an unnamed file of the target's
// directory, or where the file system has none in a temporary one beside it, until Commit gives it
// its name. One thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"

namespace muster::client {

class OutputFile {
 public:
  // Makes missing directories. Errors: JC1545 if `path` exists and `replace` is false, JC1601.
  static absl::StatusOr<OutputFile> Create(const std::string& path, bool replace);
  OutputFile(OutputFile&& other) noexcept = default;
  OutputFile& operator=(OutputFile&& other) = delete;
  ~OutputFile();

  const std::string& path() const { return path_; }
  // Errors: JC1601.
  absl::Status Write(std::string_view bytes);
  // Errors: JC1545 if another process made the file meanwhile, JC1601.
  absl::Status Commit();

 private:
  OutputFile(std::string path, bool replace) : path_(std::move(path)), replace_(replace) {}
  absl::Status Flush();

  std::string path_;
  bool replace_ = false;
  std::string temporary_;  // empty: the file has no name yet
  common::UniqueFd fd_;
  std::string buffer_;
};

}  // namespace muster::client
