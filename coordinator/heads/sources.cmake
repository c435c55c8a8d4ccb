# Coordinators that replace each other.
muster_sources(muster_coordinator COLD
  etcd/address.cc
  etcd/client.cc
  etcd/refusals.cc
  heads/head.cc
  heads/log.cc
  heads/snapshot.cc)
