// One run of jobctl: its terminal, settings and connection, and its shutdown. Main thread, except
// Note.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/settings.h"
#include "client/terminal/terminal.h"

namespace muster::client {

class Arguments;
class Connection;
class PrivateCoordinator;
class SignInRenewal;
struct Listing;
struct ListingOptions;

class Session {
 public:
  Session(Terminal terminal, Settings settings, const Arguments& arguments);
  ~Session();

  const Terminal& terminal() const { return terminal_; }
  const Settings& settings() const { return settings_; }
  bool is_private() const { return settings_.server().empty(); }
  PrivateCoordinator& private_coordinator() { return *private_; }
  bool quiet() const { return quiet_; }
  bool verbose() const { return verbose_; }

  // The connection, opened at the first call; starts the private coordinator if needed.
  absl::StatusOr<Connection*> Connect();
  // Like Connect, but one that stands by will do (Connection::OpenToAny).
  absl::StatusOr<Connection*> ConnectToAny();
  // Like Connect, but null instead of starting a private coordinator that has no data.
  absl::StatusOr<Connection*> ConnectIfAny();
  Connection* connection() { return connection_.get(); }
  // The same for every retry of this process: a submit that is sent twice creates one job.
  const std::string& idempotency_key();
  // A command that fails because the private coordinator was just exiting is rerun once, unless it
  // has started something that cannot be repeated.
  bool may_repeat() const { return may_repeat_; }
  void DoNotRepeat() { may_repeat_ = false; }
  // Drops a broken connection; Connect opens a new one.
  void Disconnect();

  // Data, to stdout. If the reader has gone away, SIGPIPE ends jobctl, as for any filter.
  void Print(std::string_view text);
  // A line for people, to stderr; nothing with --quiet. Any thread.
  void Note(std::string_view line);
  // Asks on a terminal unless --yes. Errors: JC1009 if there is no terminal, CANCELLED if the
  // answer is no.
  absl::Status Confirm(const std::string& question);
  absl::Status PrintListing(Listing listing, const Arguments& arguments);
  // Prints a listing that arrives in pieces.
  absl::StatusOr<ListingOptions> OptionsOfListing(const Arguments& arguments) const;

  // Closes the connection; waits for the private coordinator to exit if nothing else needs it.
  void Leave();

 private:
  absl::Status OpenPrivate();
  absl::Status OpenServer(bool any);
  absl::StatusOr<Connection*> Connect(bool any);

  Terminal terminal_;
  Settings settings_;
  bool quiet_;
  bool verbose_;
  bool yes_;
  bool no_input_;
  bool may_repeat_ = true;
  std::string key_;
  std::unique_ptr<PrivateCoordinator> private_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::string> heads_;  // that an earlier connection of this process has learned
  std::unique_ptr<SignInRenewal> renewal_;
};

}  // namespace muster::client
