// Which torch Python would import, from the package's own files: importing it takes seconds.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "absl/strings/str_split.h"
#include "client/doctor/machine.h"
#include "common/files.h"
#include "common/strings.h"

extern char** environ;

namespace muster::client::doctor {
namespace {

using common::StrCat;
using std::chrono::steady_clock;

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

int MsUntil(steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

// Reads until the end of the pipe or the deadline; false at the deadline.
bool ReadUntil(int fd, steady_clock::time_point deadline, std::string* output) {
  char buffer[4096];
  while (output->size() < kOutputBytesMax) {
    pollfd waited{fd, POLLIN, 0};
    const int ready = poll(&waited, 1, MsUntil(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count <= 0) return true;
    output->append(buffer, static_cast<size_t>(count));
  }
  return true;
}

// Its exit status. At the deadline its process group is killed: a shim script's real program, too.
int EndOf(pid_t pid, steady_clock::time_point deadline) {
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (steady_clock::now() > deadline) kill(-pid, SIGKILL);
    usleep(500);
  }
  return status;
}

}  // namespace

std::string FindInDirectories(const std::string& name, const std::string& path_variable) {
  for (const absl::string_view directory : absl::StrSplit(path_variable, ':', absl::SkipEmpty())) {
    const std::string path = StrCat(common::FromAbsl(directory), "/", name);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string OutputOf(const std::vector<std::string>& argv, std::string* trouble) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    *trouble = std::string(common::ErrnoStatus("cannot be asked").message());
    return "";
  }
  const common::UniqueFd from(ends[0]);
  common::UniqueFd to(ends[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, to.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words[0], &files, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    *trouble = StrCat("cannot be started: ", strerror(error));
    return "";
  }
  to.Reset();
  std::string output;
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(kAnswerLimitMs);
  const bool answered = ReadUntil(from.get(), deadline, &output);
  const int status = EndOf(pid, deadline);
  if (!answered) *trouble = StrCat("does not answer within ", kAnswerLimitMs / 1000, " s");
  if (answered && status != 0) *trouble = "fails when asked for its packages";
  return trouble->empty() ? output : "";
}

PythonFacts ReadPython(const std::string& path_variable) {
  PythonFacts facts;
  facts.program = FindInDirectories("python", path_variable);
  if (facts.program.empty()) facts.program = FindInDirectories("python3", path_variable);
  if (facts.program.empty()) return facts;
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
