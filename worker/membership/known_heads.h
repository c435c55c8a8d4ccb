// The coordinators of this node's cluster: those that the command line or the credentials name, and those that the
// coordinator which leads has named. The latter are kept in a file, so that a node which was started with one address
// finds the others when that one is gone, also after a restart. Control loop.
//
// A text file of `key=value` lines: cluster (its id), authority (fingerprint; empty: not encrypted), configured and head
// (one address each).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace muster::worker {

class KnownHeads {
 public:
  struct Here {
    std::vector<std::string> configured;  // at least one
    std::string authority;  // fingerprint of the one that this node has joined, or empty
  };

  // Reads the file, unless it is about another cluster than the one that `here` points to: of another authority, or
  // without any address that is configured here.
  KnownHeads(std::string path, Here here, std::function<void(const std::string&)> warn);

  // Configured ones first; at most kHeadsMax.
  const std::vector<std::string>& All() const { return all_; }
  // From the coordinator of this cluster that leads now; those that cannot be used are left out. None: it is alone,
  // and the file is removed.
  void Learned(const std::string& cluster_id, const std::vector<std::string>& heads);
  // Some have come or gone since: those that are not named are tried after those that are.
  void AlsoLearned(const std::vector<std::string>& heads);

 private:
  struct Kept {
    std::string cluster_id;
    std::string authority;
    std::vector<std::string> configured;
    std::vector<std::string> heads;
    bool operator==(const Kept&) const = default;
  };

  static Kept Read(const std::string& path);
  bool IsOurs(const Kept& kept) const;
  void Write() const;

  const std::string path_;
  const Here here_;
  const std::function<void(const std::string&)> warn_;
  Kept kept_;
  std::vector<std::string> all_;
};

}  // namespace muster::worker
