// TLS for gRPC: the cluster's certificates, read again when they are renewed, and connections that
// were accepted elsewhere.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "coordinator/identity/cluster.h"
#include "coordinator/services/acceptor.h"

namespace muster::coordinator {

// Mutual TLS 1.3: a client needs a certificate of the cluster's authority before HTTP/2 begins.
std::shared_ptr<grpc::ServerCredentials> SecureCredentials(const Cluster& cluster);

// Gives a connection that speaks TLS to `secure`, which is the server's own, any other one to the server. Both outlive
// the acceptor.
Acceptor::HandOver HandOverTo(grpc::Server* server,
                              grpc::experimental::ExternalConnectionAcceptor* secure);

}  // namespace muster::coordinator
