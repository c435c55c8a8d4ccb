// Which torch Python would import, from the package's own files: importing it takes seconds.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "absl/strings/str_split.h"
#include "client/doctor/machine.h"
#include "client/machine/child_output.h"
#include "client/session/spec_environment.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::client::doctor {
namespace {

using common::StrCat;

constexpr size_t kOutputBytesMax = 64 * 1024;

// find_spec finds a package, in an editable install too, without running it. -B: writes nothing.
constexpr char kAsk[] =
    "import importlib.util as u\n"
    "for n in ('torch', 'torch_npu'):\n"
    "    s = u.find_spec(n)\n"
    "    if s and s.submodule_search_locations: print(n, list(s.submodule_search_locations)[0])\n";

// The value of `name = 'text'` or `name: Optional[str] = 'text'`; empty for None.
std::string Assigned(const std::string& source, std::string_view name) {
  for (const absl::string_view line : absl::StrSplit(source, '\n')) {
    std::string_view rest = common::FromAbsl(line);
    if (!rest.starts_with(name)) continue;
    rest.remove_prefix(name.size());
    if (rest.empty() || (rest[0] != ' ' && rest[0] != ':' && rest[0] != '=')) continue;
    const size_t begin = rest.find_first_of("'\"", std::min(rest.find('='), rest.size()));
    if (begin == std::string_view::npos) return "";
    const size_t end = rest.find(rest[begin], begin + 1);
    return std::string(rest.substr(begin + 1, end == rest.npos ? rest.npos : end - begin - 1));
  }
  return "";
}

// Finds py-spy like a worker that jobctl starts does (worker/inspection/py_spy.h), for ranks of this
// Python.
std::string FindPySpy(const std::string& python, const std::string& path_variable) {
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return FindInDirectories("py-spy", StrCat(path_variable, ":", self.parent_path().string(), ":",
                                            std::filesystem::path(python).parent_path().string(),
                                            ":", Variable("HOME"), "/.local/bin"));
}

}  // namespace

std::string OutputOf(const std::vector<std::string>& argv, std::string* trouble) {
  const absl::StatusOr<ChildOutput> output =
      OutputOfChild({.argv = argv,
                     .environment = OwnEnvironment(),
                     .limit = std::chrono::milliseconds(kAnswerLimitMs),
                     .bytes_max = kOutputBytesMax});
  if (absl::IsDeadlineExceeded(output.status())) {
    *trouble = StrCat("does not answer within ", kAnswerLimitMs / 1000, " s");
  } else if (!output.ok()) {
    *trouble = std::string(output.status().message());
  } else if (output->status != 0) {
    *trouble = "fails when asked for its packages";
  }
  return trouble->empty() ? output->text : "";
}

PythonFacts ReadPython(const std::string& path_variable) {
  PythonFacts facts;
  facts.program = FindInDirectories("python", path_variable);
  if (facts.program.empty()) facts.program = FindInDirectories("python3", path_variable);
  if (facts.program.empty()) return facts;
  facts.py_spy = FindPySpy(facts.program, path_variable);
  const std::string found = OutputOf({facts.program, "-B", "-c", kAsk}, &facts.trouble);
  for (const absl::string_view line : absl::StrSplit(found, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> package =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    const std::string source =
        common::ReadFile(package.second + "/version.py", kOutputBytesMax).value_or("");
    if (package.first == "torch") {
      facts.torch = Assigned(source, "__version__");
      facts.torch_cuda = Assigned(source, "cuda");
      facts.torch_hip = Assigned(source, "hip");
    } else {
      facts.torch_npu = Assigned(source, "__version__");
    }
  }
  return facts;
}

}  // namespace muster::client::doctor
