// An account of this node that ranks run as, and access to files as that account. Ranks own what they
// write, so a link or a swapped directory in it must not lead a worker that is root to a file that they
// could not reach themselves: threads open a job's paths under ActAs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernel/shim_protocol.h"
#include "worker/confinement/run_as.h"

namespace muster::worker {

struct RankAccount {
  common::LaunchAccount
      ids;  // if is_other is false, the worker's own account, and the rest is empty
  std::string name;
  std::string home;
};

// Looks in this node's user database, which may be remote, so it blocks. NOT_FOUND: no such account.
absl::StatusOr<RankAccount> FindAccount(const AccountName& wanted);
// Finds the account by the rules of run_as.h. Blocks. Errors: JC1414 if there is no such account on this
// node, JC1415 if it is root's and that is not allowed.
absl::StatusOr<RankAccount> AccountFor(const RunAs& run_as, std::string_view node,
                                       std::string_view owner, std::string_view account);

// The account's name, also where it is the worker's own; empty if the node's user database does not have
// it.
struct Person {
  std::string name;
  std::string home;
};
Person PersonOf(const RankAccount& account);

// Writes the record of an attempt's account into the attempt's directory.
std::string EncodeAccount(const RankAccount& account);
// Without a record ranks have the worker's account. A damaged one yields an account without rights.
RankAccount ReadAccount(const std::string& path);

// Gives this thread the account's access to files until the end of the scope. Not for threads that may
// start others or connect meanwhile. Does nothing if the account is the worker's own.
class ActAs {
 public:
  explicit ActAs(const RankAccount& account);
  ~ActAs();
  ActAs(const ActAs&) = delete;

 private:
  friend class ActAsWorker;
  static void Enter(const common::LaunchAccount& ids);
  static void Leave();
  const common::LaunchAccount* const outer_;
  const common::LaunchAccount ids_;
};

// Inside the scope of an ActAs: gives access to the worker's own files again.
class ActAsWorker {
 public:
  ActAsWorker();
  ~ActAsWorker();
  ActAsWorker(const ActAsWorker&) = delete;

 private:
  const common::LaunchAccount* const suspended_;
};

}  // namespace muster::worker
