// The frame around a trainer's main function.
#pragma once

#include <functional>

namespace muster {

// Exit code that asks never to be retried; a DoNotRetryError ends with it.
inline constexpr int kDoNotRetryExitCode = 93;

// Runs body(argc, argv) and returns its result as the exit code:
//
//   int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
//
// When body throws, the message goes to stderr with the rank in front, and, where the launcher
// named a file in TORCHELASTIC_ERROR_FILE, there too in torchrun's form, so that the launcher can
// show the cause. The exit code is then 93 for a DoNotRetryError and 1 for anything else. Source of
// the file's form: pytorch elastic/multiprocessing/errors/error_handler.py.
int run_main(int argc, char** argv, const std::function<int(int argc, char** argv)>& body);

}  // namespace muster
