// Who is at the other end of a connection, as the kernel reports it. Any thread.
#pragma once

#include "coordinator/http/server/message.h"

namespace muster::coordinator::http {

// Without a principal: the peer is gone already, or not admitted. `own_uid_only`: on a socket, only our
// own uid and root are admitted.
Peer PeerOf(int fd, bool is_unix, bool own_uid_only);

}  // namespace muster::coordinator::http
