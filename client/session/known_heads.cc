#include "client/session/known_heads.h"

#include <utility>

#include "absl/status/statusor.h"
#include "client/connection/addresses.h"
#include "client/session/settings.h"
#include "client/session/sign_in.h"
#include "common/address_list.h"
#include "identity/credential_files.h"
#include "identity/names.h"

namespace muster::client {
namespace {

void KeepInCredentials(const std::string& path, const std::string& server) {
  absl::StatusOr<identity::Credentials> credentials = identity::LoadCredentials(path);
  if (!credentials.ok() || credentials->endpoint == server) return;
  // `http`, which renews them, stays: coordinators do not name their addresses for HTTPS.
  credentials->endpoint = server;
  identity::SaveCredentials(path, *credentials).IgnoreError();
}

}  // namespace

std::vector<std::string> AddressesToKeep(const v1::GetServerResponse& server,
                                         const std::string& dialed) {
  std::vector<std::string> heads = HostsAndPorts({server.heads().begin(), server.heads().end()});
  if (heads.empty() || dialed.starts_with("unix:")) return {};
  return MergeAddresses(std::move(heads), {dialed});
}

void KeepHeads(const Settings& settings, const v1::GetServerResponse& server,
               const std::string& dialed) {
  const std::string context = settings.Get("context");
  const auto known = settings.file().contexts.find(context);
  if (known == settings.file().contexts.end()) return;
  const std::vector<std::string> heads = AddressesToKeep(server, dialed);
  if (heads.empty() || HaveSameAddresses(SplitAddresses(known->second), heads)) return;
  const std::string list = common::JoinAddresses(heads);
  if (!ConfigFile::ChangeServer(context, known->second, list).ok()) return;
  if (identity::IsName(context)) KeepInCredentials(CredentialsPath(settings.file(), context), list);
}

}  // namespace muster::client
