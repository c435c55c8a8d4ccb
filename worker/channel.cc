// channel: plaintext until transport security is added.
#include "worker/channel.h"

#include <grpc/impl/codegen/grpc_types.h>

#include <algorithm>

#include "common/limits.h"

namespace muster::worker {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint, bool own_connection) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Our own backoff paces dialing; gRPC's must not delay reaching a coordinator that is back.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // ignore proxy settings in the environment
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, own_connection ? 1 : 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(common::kBulkMessageBytesMax));
  arguments.SetMaxSendMessageSize(static_cast<int>(common::kBulkMessageBytesMax));
  return grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), arguments);
}

int64_t DialPauseMaxMs(int failures) {
  return std::min<int64_t>(5'000, int64_t{50} << std::min(failures, 10));
}

}  // namespace muster::worker
