// The checks of `jobctl doctor`: a row and a function each, from facts to a verdict with its fix.
// Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "client/doctor/facts.h"

namespace muster::client::doctor {

enum class Grade {
  kGood,
  kWarning,  // works here, but not everywhere or not for long
  kBroken,   // a job would fail
};

struct Verdict {
  Grade grade = Grade::kGood;
  std::string value;  // the finding: "550.54.15, 8 devices"
  std::string fix = {};
};

struct Check {
  std::string_view thing;  // "clock"
  Verdict (*judge)(const MachineFacts& facts);
};

// judge_resources.cc. Good, almost full or full, with this fix.
Verdict JudgeDisk(const DiskFacts& disk, std::string_view fix);

// In the order in which they are shown.
std::span<const Check> Checks();

// judge_devices.cc
Verdict JudgeNvidiaDriver(const MachineFacts& facts);
Verdict JudgeCudaToolkit(const MachineFacts& facts);
Verdict JudgeNpuPorts(const MachineFacts& facts);
Verdict JudgeAscend(const MachineFacts& facts);
Verdict JudgeTorch(const MachineFacts& facts);
Verdict JudgePySpy(const MachineFacts& facts);
// judge_network.cc
Verdict JudgeHostname(const MachineFacts& facts);
Verdict JudgePorts(const MachineFacts& facts);
Verdict JudgeClock(const MachineFacts& facts);
Verdict JudgePrograms(const MachineFacts& facts);
Verdict JudgeCoordinator(const MachineFacts& facts);
Verdict JudgeAllReduce(const MachineFacts& facts);
// judge_resources.cc
Verdict JudgeDataDisk(const MachineFacts& facts);
Verdict JudgeTempDisk(const MachineFacts& facts);
Verdict JudgeSharedMemory(const MachineFacts& facts);
Verdict JudgeOpenFiles(const MachineFacts& facts);
Verdict JudgeProcesses(const MachineFacts& facts);
Verdict JudgeLockedMemory(const MachineFacts& facts);
Verdict JudgeCoreFiles(const MachineFacts& facts);
Verdict JudgeKilling(const MachineFacts& facts);
Verdict JudgeOutOfMemory(const MachineFacts& facts);

}  // namespace muster::client::doctor
