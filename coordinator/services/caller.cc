#include "coordinator/services/caller.h"

namespace muster::coordinator {

Caller CallerOf(const grpc::CallbackServerContext& context, const Peers& peers) {
  return Caller{peers.PrincipalOf(context.peer())};
}

}  // namespace muster::coordinator
