#include "coordinator/init_command.h"
#include "coordinator/care/commands.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/files/private_directory.h"
#include "common/problem.h"
#include "common/terminal_secret.h"
#include "common/text/strings.h"
#include "coordinator/base/data_lock.h"
#include "coordinator/base/machine_name.h"
#include "coordinator/config/open_stores.h"
#include "coordinator/identity/browser_certificate.h"
#include "coordinator/identity/cluster.h"
#include "coordinator/identity/directory.h"
#include "coordinator/identity/issue_token.h"
#include "coordinator/store_parts/lived_clock.h"
#include "coordinator/stores/paths.h"
#include "identity/enroll.h"
#include "identity/names.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int kDoneExit = 0;
constexpr int kFailedExit = 1;
constexpr std::string_view kGrpcPort = "7700";
constexpr std::string_view kHttpPort = "7701";
constexpr int64_t kTokenLivesMs = 24 * 3'600'000;
constexpr size_t kTokenFileMax = 4 * 1024;
constexpr uid_t kFirstPerson = 1000;  // below are accounts of services; source: login.defs(5)

struct InitArguments {
  std::string data_dir;
  std::string name;
  std::string keys_dir;
  std::string admin;
  std::vector<std::string> hosts;
  BrowserFiles for_browsers;  // empty: none
  bool further = false;       // its users and jobs are those of coordinators that exist
  std::string join;           // HOST:PORT of one of them, which gives the keys; empty: none does
  std::string token_file;
  std::string state = "etcd://…/NAME";  // of the others
};

// The account of the person who runs this command, even through sudo: jobs' ranks run as their
// owner's account, and this account exists. Root and the accounts of services do not identify a
// person, and ranks with the coordinator's own account could read its keys.
std::string WhoTypesThis() {
  const char* const before_sudo = std::getenv("SUDO_USER");
  std::string name = before_sudo == nullptr ? "" : before_sudo;
  const passwd* const own = getpwuid(geteuid());
  if (name.empty() && own != nullptr && own->pw_uid >= kFirstPerson) name = own->pw_name;
  return name != "root" && identity::IsName(name) ? name : "admin";
}

// CLUSTER names the keys by their absolute path.
std::string Absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  char here[PATH_MAX] = {};
  return getcwd(here, sizeof here) == nullptr ? path : StrCat(here, "/", path);
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

struct Founded {
  std::unique_ptr<Cluster> cluster;
  std::string admin_token;
  std::string worker_token;
};

absl::StatusOr<std::string> TokenFor(Directory& directory, const Cluster& cluster,
                                     v1::CreateTokenRequest request) {
  request.set_lives_ms(kTokenLivesMs);
  ASSIGN_OR_RETURN(IssuedToken made, IssueToken(directory, cluster, request, "init"));
  return std::move(made.text);
}

// Runs before anything is created. Without a given host, uses the certificate's.
absl::StatusOr<BrowserCertificate> CheckForBrowsers(InitArguments& arguments, int64_t now_ms) {
  if (arguments.for_browsers.certificate.empty()) return BrowserCertificate();
  ASSIGN_OR_RETURN(BrowserCertificate read,
                   ReadBrowserCertificate(arguments.for_browsers, arguments.hosts, now_ms));
  if (arguments.hosts.empty()) arguments.hosts = HostsOfCertificate(read.certificate_pem);
  std::erase_if(arguments.hosts, [](const std::string& host) { return host.starts_with('*'); });
  return read;
}

absl::Status KeepForBrowsers(const BrowserCertificate& certificate, const std::string& keys_dir) {
  if (certificate.certificate_pem.empty()) return absl::OkStatus();
  const BrowserFiles files = BrowserFilesIn(keys_dir);
  RETURN_IF_ERROR(common::WriteFileDurably(files.key, certificate.key_pem));
  return common::WriteFileDurably(files.certificate, certificate.certificate_pem, 0644);
}

absl::StatusOr<Founded> FoundCluster(InitArguments& arguments) {
  const Paths paths(arguments.data_dir);
  RETURN_IF_ERROR(common::MakePrivateDirectory(arguments.data_dir));
  ASSIGN_OR_RETURN(const common::UniqueFd lock,
                   LockDataDirectory(paths.Lock(), std::chrono::milliseconds(0)));
  RETURN_IF_ERROR(identity::CheckName("an administrator", arguments.admin));
  ASSIGN_OR_RETURN(const std::unique_ptr<NoteStore> notes,
                   OpenNotes(ShareState(ConfigOf(arguments.data_dir))));
  LivedClock clock(*notes);
  ASSIGN_OR_RETURN(const BrowserCertificate for_browsers,
                   CheckForBrowsers(arguments, clock.Read().wall_ms));
  if (arguments.hosts.empty()) arguments.hosts.push_back(MachineName());
  Founded founded;
  ASSIGN_OR_RETURN(founded.cluster, Cluster::Found({.data_dir = arguments.data_dir,
                                                    .name = arguments.name,
                                                    .keys_dir = arguments.keys_dir,
                                                    .host_names = arguments.hosts},
                                                   clock.Read().wall_ms));
  RETURN_IF_ERROR(KeepForBrowsers(for_browsers, founded.cluster->keys_dir()));
  if (arguments.further) return founded;
  ASSIGN_OR_RETURN(const std::unique_ptr<IdentityStore> store,
                   OpenIdentities(ConfigOf(arguments.data_dir), clock));
  Directory directory(*store, clock);
  RETURN_IF_ERROR(directory.Load());
  v1::CreateTokenRequest person;
  person.set_kind(v1::TOKEN_KIND_SIGN_IN);
  person.set_subject(arguments.admin);
  person.set_role(v1::ROLE_ADMIN);
  ASSIGN_OR_RETURN(founded.admin_token, TokenFor(directory, *founded.cluster, person));
  v1::CreateTokenRequest worker;
  worker.set_kind(v1::TOKEN_KIND_JOIN);
  ASSIGN_OR_RETURN(founded.worker_token, TokenFor(directory, *founded.cluster, worker));
  return founded;
}

// Without the authority's key it would be the first one of another cluster.
absl::Status CheckFurther(const InitArguments& arguments) {
  if (!arguments.further) return absl::OkStatus();
  std::string missing;
  for (const std::string_view name : {"ca.pem", "ca.key", "secrets.key"}) {
    const std::string path = StrCat(arguments.keys_dir, "/", name);
    if (missing.empty() && !common::Exists(path)) missing = path;
  }
  if (missing.empty()) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1631",
       .what = StrCat("--further: there is no ", missing),
       .why = "a further coordinator of a cluster has the cluster's authority",
       .fix = "copy ca.pem, ca.key and secrets.key from the keys directory of another one, as "
              "root, and name the directory with --keys-dir; or use --join, which fetches them"});
}

// Makes the directory, and writes a file there.
absl::Status CheckMayWrite(const std::string& directory) {
  RETURN_IF_ERROR(common::MakePrivateDirectory(directory));
  const std::string probe = StrCat(directory, "/.probe");
  RETURN_IF_ERROR(common::WriteFileDurably(probe, std::string(4'096, '\n')));
  return common::RemoveTree(probe);
}

// The keys of a coordinator that leads, for its token. All that can be wrong here is looked at before, as the token
// works once.
absl::Status FetchKeys(InitArguments& arguments) {
  if (arguments.keys_dir.empty()) arguments.keys_dir = arguments.data_dir + "-keys";
  RETURN_IF_ERROR(Cluster::CheckIsNew(arguments.data_dir, arguments.keys_dir));
  RETURN_IF_ERROR(CheckForBrowsers(arguments, common::SystemClock().Read().wall_ms).status());
  RETURN_IF_ERROR(CheckMayWrite(arguments.data_dir));
  RETURN_IF_ERROR(CheckMayWrite(arguments.keys_dir));
  ASSIGN_OR_RETURN(
      const std::string token,
      common::ReadOrAskHidden(arguments.token_file, "Token (of `jobctl token create coordinator`)",
                              kTokenFileMax));
  if (arguments.hosts.empty()) arguments.hosts.push_back(MachineName());
  ASSIGN_OR_RETURN(const identity::CoordinatorKeys keys,
                   identity::FetchCoordinatorKeys(arguments.join, token, arguments.hosts.front()));
  arguments.further = true;
  arguments.name = keys.cluster;
  arguments.state = keys.state;
  return Cluster::PutKeys(arguments.keys_dir, {.authority_pem = keys.authority_pem,
                                               .authority_key_pem = keys.authority_key_pem,
                                               .secrets_key = keys.secrets_key});
}

absl::Status Prepare(InitArguments& arguments) {
  return arguments.join.empty() ? CheckFurther(arguments) : FetchKeys(arguments);
}

void SayWhatComesNextForFurther(const InitArguments& arguments, const Founded& founded) {
  const std::string text =
      StrCat("A further coordinator of cluster ", founded.cluster->name(), " is ready.\n",  //
             "  authority  SHA256:", founded.cluster->authority().Fingerprint(), "\n\n",
             "Start it with the --state of the others:\n\n",  //
             "  muster-coordinator --state ", arguments.state, " --head ", arguments.hosts.front(),
             " --data-dir ", arguments.data_dir, " --listen 0.0.0.0:", kGrpcPort, " --advertise ",
             arguments.hosts.front(), ":", kGrpcPort, " --http 0.0.0.0:", kHttpPort, "\n");
  std::fputs(text.c_str(), stdout);
}

void SayWhatIsNext(const InitArguments& arguments, const Founded& founded) {
  const std::string& data = arguments.data_dir;
  const std::string http = StrCat(arguments.hosts.front(), ":", kHttpPort);
  const std::string text =
      StrCat("Cluster ", founded.cluster->name(), " is ready.\n",  //
             "  data  ", data, "\n",                               //
             "  keys  ", founded.cluster->keys_dir(), "\n",
             "        Keep a copy of the keys where no one else can read it: no backup has them.\n",
             "  authority  SHA256:", founded.cluster->authority().Fingerprint(), "\n\n",
             "Start the coordinator:\n\n",  //
             "  muster-coordinator --data-dir ", data, " --listen 0.0.0.0:", kGrpcPort,
             " --http 0.0.0.0:", kHttpPort, "\n\n",
             "On the first worker's machine; it asks for the token below, which works once, until "
             "tomorrow:\n\n",  //
             "  muster-worker join ", http, " --state-dir DIR\n  ", founded.worker_token,
             "\n\nOn your own machine; it asks for the token below:\n\n",  //
             "  jobctl login ", http, "\n  ", founded.admin_token, "\n\n",
             "Then you are its administrator ", arguments.admin,
             ": `jobctl token create` makes the next tokens.\n",
             "Workers that are root run your jobs as their account ", arguments.admin,
             "; for another one:\n",  //
             "`jobctl user set ", arguments.admin, " --account NAME`.\n");
  std::fputs(text.c_str(), stdout);
}

int Init(InitArguments arguments) {
  arguments.data_dir = WithoutSlash(Absolute(arguments.data_dir));
  arguments.keys_dir = WithoutSlash(Absolute(arguments.keys_dir));
  if (arguments.admin.empty()) arguments.admin = WhoTypesThis();
  const absl::Status may = Prepare(arguments);
  const absl::StatusOr<Founded> founded =
      may.ok() ? FoundCluster(arguments) : absl::StatusOr<Founded>(may);
  if (!founded.ok()) {
    std::fprintf(stderr, "muster-coordinator init: %s\n",
                 common::Readable(common::ProblemOf(founded.status())).c_str());
    return kFailedExit;
  }
  arguments.further ? SayWhatComesNextForFurther(arguments, *founded)
                    : SayWhatIsNext(arguments, *founded);
  return kDoneExit;
}

}  // namespace

std::optional<int> RunInitCommand(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "init") return std::nullopt;
  InitArguments arguments;
  CLI::App app("make a cluster whose members are known: its authority, keys and certificate",
               "muster-coordinator init");
  app.add_option("--data-dir", arguments.data_dir,
                 "the coordinator's data directory, also a new one")
      ->required();
  CLI::Option* name =
      app.add_option("--name", arguments.name, "of the cluster; stands in every certificate");
  app.add_option("--keys-dir", arguments.keys_dir,
                 "where the authority and the keys go, or are when several coordinators share them "
                 "(default: DATA_DIR-keys)");
  app.add_option(
      "--admin", arguments.admin,
      "name of the first administrator (default: yours, also under sudo; admin for root)");
  app.add_option("--host", arguments.hosts,
                 "a name or address by which workers and people reach the coordinator; may be "
                 "repeated (default: this machine's name)");
  app.add_flag(
      "--further", arguments.further,
      "the cluster has coordinators already, which keep its state in etcd; --keys-dir has a "
      "copy of their ca.pem, ca.key and secrets.key");
  CLI::Option* join = app.add_option(
      "--join", arguments.join,
      "HOST:PORT of the HTTPS of the coordinator that leads such a cluster: fetches those keys "
      "with "
      "a token of `jobctl token create coordinator`, from standard input or asked for");
  app.add_option("--token-file", arguments.token_file, "with --join: where the token is")
      ->needs(join);
  join->excludes(name);
  CLI::Option* certificate = app.add_option(
      "--certificate", arguments.for_browsers.certificate,
      "your own certificate for browsers, with its chain, in PEM: kept with the keys");
  CLI::Option* key = app.add_option("--key", arguments.for_browsers.key,
                                    "with --certificate: its unencrypted key, in PEM");
  certificate->needs(key);
  key->needs(certificate);
  try {
    app.parse(argc - 1, argv + 1);
    if (arguments.name.empty() && arguments.join.empty()) throw CLI::RequiredError("--name");
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return kDoneExit;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr,
                 "muster-coordinator init: %s\n  fix: muster-coordinator init --help lists its "
                 "flags\n",
                 error.what());
    return kUsageExit;
  }
  umask(0077);
  return Init(std::move(arguments));
}

}  // namespace muster::coordinator
