// From ranks (or a job's setup) as they would be started on the node to containers: what they see of
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
  std::string shim_binary = {};     // by which several meet; empty: there is only one
};

ContainerPlace PlaceOfAttempt(const std::string& node, const Paths& paths, const AttemptKey& key,
                              const v1::JobSpec& spec, const PreparedPlace& prepared);
// `directory`: of its bundle.
ContainerPlace PlaceOfSetup(const std::string& node, const Paths& paths,
                            const std::string& directory, const PreparedPlace& prepared);

// PATH, HOME, USER and LOGNAME that the job did not name are the node's defaults: in an image its own come before
// them. Everything else of `env` comes before the image's.
std::vector<std::string> EnvironmentIn(const ReadyImage& image, const v1::JobSpec& spec,
                                       const RankAccount& account,
                                       const std::vector<std::string>& env);

// Where a path of the ranks' lies on the node; in an image, that is in a mount or among what they
// changed.
struct PathOnNode {
  std::string base;       // a directory that no job can replace: a mount's source, or the layer
  std::string below;      // in there, made by the job: links may lead anywhere on the node
  bool is_layer = false;  // the base is the worker's

  std::string Text() const { return below.empty() ? base : base + "/" + below; }
};
PathOnNode FindOnNode(const Paths& paths, const AttemptKey& key, const v1::JobSpec& spec,
                      const std::string& path);
// Of their working directory, which may be the image's. Reads a small file.
PathOnNode FindWorkdir(const Paths& paths, const AttemptKey& key, const v1::JobSpec& spec);

// Makes the directory with a bundle for each rank, and changes the ranks to what they are in there.
// `part`: whose devices they get. The problem names node, image, reason and fix.
std::optional<LaunchProblem> WrapRanks(const ContainerPlace& place, const ReadyImage& image,
                                       const v1::JobSpec& spec, const v1::NodePart& part,
                                       const RankAccount& account, const PreparedPlace& prepared,
                                       std::vector<common::RankLaunch>* ranks);

// Whether a job's mounts, working directory and program are there: before anything starts anywhere.
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
