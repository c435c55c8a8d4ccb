// The /bin/sh scripts that jobctl runs on a node over ssh. All inserted values are checked (node_list.h,
// identity/names.h) and quoted. Pure.
//
// A node's directory is DIRECTORY/CLUSTER/NODE, as homes may be shared. It has id (the cluster's), bin,
// log, runtime (the path of the directory of sockets), worker, and on the head coordinator and its keys.
#pragma once

#include <cstdint>
#include <string>

namespace muster::client::cluster {

struct NodePlace {
  std::string cluster;
  std::string id;         // of the cluster
  std::string directory;  // of all clusters, as in the record
  std::string node;

  std::string Path() const;  // DIRECTORY/CLUSTER/NODE
};

// Makes the directory. Fails if the machine is not a `machine` ("Linux x86_64"), if the directory exists,
// or if its disk has less than `room_kib` free.
std::string PrepareScript(const NodePlace& place, const std::string& machine, uint64_t room_kib);
// Makes the coordinator's identity, starts it and prints what its init printed.
std::string CoordinatorScript(const NodePlace& place, const std::string& host, uint32_t port);
struct WorkerStart {
  std::string coordinator;  // HOST:PORT of its HTTPS
  std::string token;
  std::string advertise;  // empty: the worker guesses
  std::string devices;    // empty: all
  std::string sandbox;    // empty: on where the account is not root
};
std::string WorkerScript(const NodePlace& place, const WorkerStart& start);
// The end of the worker's log.
std::string WorkerLogScript(const NodePlace& place);
// Stops what runs from the directory, supervisors first, with `grace_s` for their ranks, and removes the
// directory. Succeeds if there is none; fails if it belongs to another cluster.
std::string RemoveScript(const NodePlace& place, int64_t grace_s);

}  // namespace muster::client::cluster
