// The versions that programs print, kept from one start of the worker to the next: some take ten milliseconds to print theirs.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace muster::worker {

class ToolVersions {
 public:
  // `path`: a file that only the worker may write. `ask` runs the program.
  ToolVersions(std::string path, std::function<std::string(const std::string&)> ask);

  // Asked again when the program's file has changed. Empty: it has none.
  std::string Of(const std::string& program);
  // Without them nothing is lost but time.
  void Save() const;

 private:
  const std::string path_;
  const std::function<std::string(const std::string&)> ask_;
  std::map<std::string, std::string> known_;  // by the program's file, see FileOf
  std::map<std::string, std::string> used_;
};

}  // namespace muster::worker
