#include "client/session/session.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "absl/strings/str_format.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/connection/addresses.h"
#include "client/connection/connection.h"
#include "client/connection/socket_trust.h"
#include "client/session/known_heads.h"
#include "client/session/private_coordinator.h"
#include "client/session/sign_in.h"
#include "client/terminal/listing.h"
#include "common/address_list.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::client {

Session::Session(Terminal terminal, Settings settings, const Arguments& arguments)
    : terminal_(terminal),
      settings_(std::move(settings)),
      quiet_(arguments.Has("quiet")),
      verbose_(arguments.Has("verbose")),
      yes_(arguments.Has("yes")),
      no_input_(arguments.Has("no-input")),
      private_(std::make_unique<PrivateCoordinator>(settings_.Get("runtime-dir"),
                                                    settings_.Get("data-dir"))) {}

Session::~Session() = default;

absl::Status Session::OpenPrivate() {
  // It may exit between our check and our connection; then it is restarted.
  absl::Status last;
  for (int attempt = 0; attempt < 5; ++attempt) {
    RETURN_IF_ERROR(private_->Ensure());
    absl::StatusOr<std::unique_ptr<Connection>> opened =
        Connection::Open(private_->endpoint(), settings_.timeout_ms());
    if (opened.ok()) {
      connection_ = *std::move(opened);
      connection_->Attend();
      private_->Watch(static_cast<int>(connection_->server().pid()));
      return absl::OkStatus();
    }
    last = opened.status();
    if (last.code() != absl::StatusCode::kUnavailable) return last;
    usleep(20'000 << attempt);
  }
  return last;
}

absl::Status Session::OpenServer(bool any) {
  constexpr std::string_view kUnix = "unix:";
  if (settings_.server().starts_with(kUnix)) {
    RETURN_IF_ERROR(CheckServerSocket(settings_.server().substr(kUnix.size())));
  }
  ASSIGN_OR_RETURN(const auto credentials,
                   CredentialsFor(settings_, common::SystemClock().Read().wall_ms));
  const std::string addresses =
      heads_.empty()
          ? settings_.server()
          : common::JoinAddresses(MergeAddresses(heads_, SplitAddresses(settings_.server())));
  ASSIGN_OR_RETURN(connection_,
                   any ? Connection::OpenToAny(addresses, settings_.timeout_ms(), credentials.get())
                       : Connection::Open(addresses, settings_.timeout_ms(), credentials.get()));
  KeepHeads(settings_, connection_->server(), connection_->endpoint());
  if (credentials != nullptr && renewal_ == nullptr)
    renewal_ = std::make_unique<SignInRenewal>(settings_, *credentials);
  return absl::OkStatus();
}

absl::StatusOr<Connection*> Session::Connect() { return Connect(/*any=*/false); }
absl::StatusOr<Connection*> Session::ConnectToAny() { return Connect(/*any=*/true); }

absl::StatusOr<Connection*> Session::Connect(bool any) {
  if (connection_ != nullptr) return connection_.get();
  if (is_private()) {
    RETURN_IF_ERROR(OpenPrivate());
  } else {
    RETURN_IF_ERROR(OpenServer(any));
  }
  if (verbose_) {
    Note(common::StrCat("connected to ", connection_->endpoint(), " (",
                        connection_->server().version(), ")"));
  }
  return connection_.get();
}

absl::StatusOr<Connection*> Session::ConnectIfAny() {
  if (is_private() && connection_ == nullptr && !private_->Running() && !private_->HasData())
    return nullptr;
  return Connect();
}

const std::string& Session::idempotency_key() {
  if (!key_.empty()) return key_;
  uint64_t bits[2] = {};
  // getrandom fails only before the kernel's pool is initialized, long before anyone types.
  if (getrandom(bits, sizeof(bits), 0) != sizeof(bits)) bits[0] = static_cast<uint64_t>(getpid());
  key_ = absl::StrFormat("%016x%016x", bits[0], bits[1]);
  return key_;
}

void Session::Disconnect() {
  if (connection_ == nullptr) return;
  if (!is_private() && !settings_.server().starts_with("unix:")) heads_ = connection_->addresses();
  connection_.reset();
}

void Session::Print(std::string_view text) {
  const std::string safe = Filtered(text);
  fwrite(safe.data(), 1, safe.size(), stdout);
}

void Session::Note(std::string_view line) {
  if (quiet_) return;
  const std::string text = Filtered(line) + "\n";
  fflush(stdout);
  fwrite(text.data(), 1, text.size(), stderr);
}

absl::Status Session::Confirm(const std::string& question) {
  if (yes_) return absl::OkStatus();
  if (no_input_ || isatty(STDIN_FILENO) != 1 || !terminal_.err_is_tty) {
    return Usage("JC1009", common::StrCat(question, " There is no terminal to ask on"),
                 "add --yes");
  }
  std::cerr << Filtered(question) << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return absl::OkStatus();
  return absl::CancelledError("nothing was changed");
}

absl::StatusOr<ListingOptions> Session::OptionsOfListing(const Arguments& arguments) const {
  return ListingOptions::From(arguments, settings_.Get("output"));
}

absl::Status Session::PrintListing(Listing listing, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const ListingOptions options, OptionsOfListing(arguments));
  ASSIGN_OR_RETURN(const std::string text, RenderListing(std::move(listing), options, terminal_));
  Print(text);
  return absl::OkStatus();
}

void Session::Leave() {
  if (connection_ == nullptr) return;
  if (!is_private()) {
    // Process exit closes the connection; a graceful shutdown of gRPC's threads would cost 2 ms.
    static_cast<void>(connection_.release());
    return;
  }
  // Only the last client waits: with live jobs, other clients or after `up` it keeps running
  // anyway.
  bool others = connection_->server().stays();
  if (!others) {
    const absl::StatusOr<v1::GetServerResponse> server = connection_->GetServer();
    others = server.ok() && (server->stays() || server->live_jobs() > 0 || server->attending() > 1);
  }
  if (others) {
    static_cast<void>(connection_.release());
    return;
  }
  connection_->CancelStreams();
  connection_.reset();
  constexpr int kEndLimitMs = 3000;
  if (!private_->WaitForEnd(kEndLimitMs) && verbose_) {
    Note("the private coordinator is still in use");
  }
}

}  // namespace muster::client
