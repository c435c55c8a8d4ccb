// A separate directory for one test, with a path short enough for unix sockets, removed at the end.
#pragma once

#include <stdlib.h>

#include <string>

#include "common/files/files.h"

namespace muster::coordinator {

class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/mctXXXXXX";
    path_ = mkdtemp(name);
  }
  ~TempDir() { common::RemoveTree(path_).IgnoreError(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace muster::coordinator
