// Wraps a trainer's main function.
#pragma once

#include <functional>

namespace muster {

// The exit code of a DoNotRetryError, which tells Muster not to retry.
inline constexpr int kDoNotRetryExitCode = 93;

// Runs body(argc, argv) and returns its result as the exit code:
//
//   int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
//
// A result of 0 becomes 1 if the last checkpoint could not be saved, which only the end of training
// found out: an Accelerator must end, or its end_training() be called, before body returns.
//
// If body throws, prints the message to stderr, prefixed with the rank, and returns 93 for a
// DoNotRetryError and 1 for anything else. If the launcher set TORCHELASTIC_ERROR_FILE, also writes
// the error to that file in torchrun's format, so that the launcher can show the cause. Source of
// the format: pytorch elastic/multiprocessing/errors/error_handler.py.
int run_main(int argc, char** argv, const std::function<int(int argc, char** argv)>& body);

}  // namespace muster
