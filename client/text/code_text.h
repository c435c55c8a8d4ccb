// What people read about a job's code, setup and container, and how nodes prepared for it. Pure.
#pragma once

#include <string>

#include "muster/v1/job.pb.h"

namespace muster::client {

// "1,204".
std::string WithCommas(uint64_t number);
// "1,204 files", "1 file".
std::string CountedFiles(uint64_t files);

// "3f9a61c07b2e: 1,204 files, 18 MB, commit 1a2b3c4d5e6f with changes, from laptop:/home/alice/vit".
std::string CodeText(const v1::CodeTree& code);
// "1a2b3c4d5e6f with changes"; empty: none is known.
std::string CommitText(const v1::CodeTree& code);
// The directory of the ranks: a directory of the nodes, or one in the code.
std::string DirectoryText(const v1::JobSpec& spec);
// The script, or the command as a shell would take it; empty: none.
std::string SetupText(const v1::JobSpec& spec);
// "docker.io/x, /data read-only, /a at /b, 8 GiB of /dev/shm"; empty: none.
std::string ContainerText(const v1::ContainerSpec& container);
// "code: 18 MB fetched; setup took 12.1s"; empty: there is nothing to report.
std::string PreparationText(const v1::Preparation& preparation, const v1::JobSpec& spec);
// The output of a node's setup, each line after "[node1] ", below a line about it.
std::string SetupOutputText(const v1::NodePart& part);

// The flags of jobctl run that give a job the same code and surroundings, each after a space.
std::string CodeFlags(const v1::JobSpec& spec);

}  // namespace muster::client
