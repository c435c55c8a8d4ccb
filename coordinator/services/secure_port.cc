#include "coordinator/services/secure_port.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_posix.h>

namespace muster::coordinator {
namespace {

constexpr unsigned kLookAgainS = 60;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> SecureCredentials(const Cluster& cluster) {
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      cluster.key_file(), cluster.certificate_file(), cluster.authority_file(), kLookAgainS);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

Acceptor::HandOver HandOverTo(grpc::Server* server,
                              grpc::experimental::ExternalConnectionAcceptor* secure) {
  return [server, secure](int fd, const Acceptor::Listener& from) {
    if (!from.is_tls) return grpc::AddInsecureChannelFromFd(server, fd);
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = from.fd.get();
    connection.fd = fd;
    secure->HandleNewConnection(&connection);
  };
}

}  // namespace muster::coordinator
