// Turns ranks (or a job's setup) that would start directly on the node into containers: what they see of
// the image, the node and their attempt, written as one bundle each. Threads that may block.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/kernel/shim_protocol.h"
#include "muster/v1/job.pb.h"
#include "worker/confinement/rank_account.h"
#include "worker/containers/container_tools.h"
#include "worker/containers/ready_image.h"
#include "worker/launch/launch_environment.h"
#include "worker/launch/prepared_place.h"

namespace muster::worker {

// Whose containers: an attempt's, or a setup's.
struct ContainerPlace {
  std::string node;                 // for messages
  std::string directory;            // LaunchContainer.directory
  std::vector<std::string> own;     // directories that they see at the same paths as outside …
  std::vector<std::string> fixed;   // … and those that they cannot change
  std::vector<std::string> hidden;  // the worker's, of which they see nothing else
  std::string shim_binary = {};     // runs the barrier of several ranks; empty: there is only one
};

ContainerPlace PlaceOfAttempt(const std::string& node, const Paths& paths, const AttemptKey& key,
                              const v1::JobSpec& spec, const PreparedPlace& prepared);
// `directory`: of its bundle.
ContainerPlace PlaceOfSetup(const std::string& node, const Paths& paths,
                            const std::string& directory, const PreparedPlace& prepared);

// PATH, HOME, USER and LOGNAME that the job did not set are the node's defaults, which the image's
// values override. All other variables of `env` override the image's.
std::vector<std::string> EnvironmentIn(const ReadyImage& image, const v1::JobSpec& spec,
                                       const RankAccount& account,
                                       const std::vector<std::string>& env);

// Where a path of the ranks lies on the node; with an image that is in a mount, or in the layer that
// holds their changes.
struct PathOnNode {
  std::string base;       // a directory that no job can replace: a mount's source, or the layer
  std::string below;      // in there, made by the job: links may lead anywhere on the node
  bool is_layer = false;  // the base is the worker's

  std::string Text() const { return below.empty() ? base : base + "/" + below; }
};
PathOnNode FindOnNode(const Paths& paths, const AttemptKey& key, const v1::JobSpec& spec,
                      const std::string& path);
// The same for their working directory, which may be the image's. Reads a small file.
PathOnNode FindWorkdir(const Paths& paths, const AttemptKey& key, const v1::JobSpec& spec);

// Makes the directory with a bundle for each rank, and changes `ranks` to start inside them.
// `part`: whose devices they get. The problem names node, image, reason and fix.
std::optional<LaunchProblem> WrapRanks(const ContainerPlace& place, const ReadyImage& image,
                                       const v1::JobSpec& spec, const v1::NodePart& part,
                                       const RankAccount& account, const PreparedPlace& prepared,
                                       std::vector<common::RankLaunch>* ranks);

// Checks that a job's mounts, working directory and program exist, before anything starts on any node.
// `ranks`: as for WrapRanks.
std::optional<LaunchProblem> CheckContainers(const ContainerPlace& place, const ReadyImage& image,
                                             const v1::JobSpec& spec, const v1::NodePart& part,
                                             const RankAccount& account,
                                             const PreparedPlace& prepared,
                                             std::vector<common::RankLaunch>* ranks);

// What the shim needs to start them.
common::LaunchContainer LaunchOfContainers(const ContainerPlace& place, const ContainerTools& tools,
                                           const ReadyImage& image, const v1::ContainerSpec& spec);

}  // namespace muster::worker
