// Flags that several commands take for a job, with the same words.
#pragma once

#include "client/command.h"

namespace muster::client {

inline constexpr Flag kEnvFromFlag = {
    "env-from", 0, "shell",
    "send all of the current environment, also to a coordinator on another host", "shell"};
inline constexpr Flag kSyncFlag = {
    "sync", 0, "=DIR",
    "send a directory with the job (default: the working directory) and start the ranks in it; "
    ".gitignore and .musterignore tell what is left out"};
inline constexpr Flag kNoSyncFlag = {"no-sync", 0, "", "send no code: it is on the nodes already"};
inline constexpr Flag kSetupFlag = {
    "setup", 0, "SCRIPT",
    "what each node runs once before any rank starts, in the directory that was sent: "
    "\"pip install -r requirements.txt --target $MUSTER_SETUP_DIR\""};
inline constexpr Flag kOutputsFlag = {
    "outputs", 0, "PATH",
    "a directory or file below the working directory that is kept when an attempt ends, for "
    "jobctl cp; may be repeated"};
inline constexpr Flag kImageFlag = {"image", 0, "IMAGE",
                                    "the container image that the ranks run in"};
inline constexpr Flag kIgnoreFlag = {
    "ignore", 0, "A,B",
    "of a batch script: leave out these options (array, dependency, …) and commands (lines), "
    "although the job means something else without them"};

}  // namespace muster::client
