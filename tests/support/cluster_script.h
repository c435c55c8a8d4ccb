// Runs the coordinator's pure core from a script: lines of input in, the text of every event,
// command and reply out. The scenarios in tests/scenarios are such scripts with their output;
// cluster_script.cc documents the verbs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/state/apply.h"
#include "coordinator/core/turn.h"

namespace muster::testing {

class ClusterScript {
 public:
  ClusterScript();
  // Runs one line and returns its consequences, one per line.
  std::vector<std::string> Run(const std::string& line);

  const coordinator::ClusterState& state() const { return state_; }
  common::Now now() const { return now_; }

 private:
  using Words = std::vector<std::string>;
  using Options = std::map<std::string, std::string>;
  using AttemptKey = std::pair<uint64_t, uint32_t>;

  void Dispatch(const Words& words, Options& options);
  void Node(const Words& words, Options& options);
  void Cleared(const Words& words);
  v1::JobSpec SpecOf(Options& options);
  void Submit(const Words& words, Options& options);
  void Plan(Options& options);
  void Status(const Words& words, Options& options);
  void Launch(uint64_t job);
  void Finish(uint64_t job);
  void Exit(const Words& words, Options& options);
  void Checkpoint(const Words& words, Options& options);
  void Bulk(const Words& words, Options& options);
  void Advance(int64_t milliseconds, bool heartbeats);
  void Restart(int64_t down_ms, const std::string& head);
  std::string Blob(const std::string& name);
  void Why(uint64_t job);
  void Usage(const std::string& by);
  void Queue();

  void Say(const std::string& node, v1::WorkerMessage message);
  void SayStatus(const std::string& node, const AttemptKey& key);
  v1::AttemptStatus& StatusOf(const std::string& node, const AttemptKey& key);
  const v1::Attempt& AttemptOf(uint64_t job) const;
  void Take(coordinator::Input input);
  void Show(const coordinator::Turn& turn);

  coordinator::ClusterState state_;
  common::Now now_{1'000'000, 1'700'000'000'000, 1'000};
  std::map<std::string, std::string> blob_names_;  // by hash
  uint64_t session_ = 0;
  std::map<std::string, v1::NodeFacts> facts_;
  std::map<std::string, std::map<AttemptKey, v1::AttemptStatus>> statuses_;
  std::map<uint64_t, v1::JobRecord> finished_;
  v1::Snapshot base_;               // replay starts here …
  std::vector<v1::Event> journal_;  // … and applies these
  std::vector<std::string> out_;
};

// Runs a whole scenario file: each line that starts with "> " is an input; everything after it is
// output. Comments and blank lines are kept. Returns the file as it should be.
std::string RunScenario(const std::string& text);

}  // namespace muster::testing
