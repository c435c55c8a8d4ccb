// The system calls that a sandboxed rank may not make. An allow list would break with every new
// libc and driver; this list has the calls with which a process without capabilities could attack
// the kernel or gain capabilities, and none that PyTorch, NCCL, Gloo, CUDA or MPI use.
// Async-signal-safe.
#pragma once

namespace muster::shim {

// Refuses them with EPERM in this process and all that it starts, from now on and forever. Needs
// no_new_privs. 0 or an errno.
int FilterCalls();

}  // namespace muster::shim
