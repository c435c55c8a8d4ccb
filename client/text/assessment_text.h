// Formats findings, the ledger and the remaining time for jobctl. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "client/terminal/terminal.h"
#include "muster/v1/finding.pb.h"

namespace muster::client {

// The worst finding, above everything else of `show`:
//   ! 1 of 2 devices is busy: the launcher was forgotten, or started one process
//     fix: jobctl run -n 2 -- python train.py
// and a line that counts the others. Empty without findings.
std::string FindingHead(const v1::Assessment& assessment, const Terminal& terminal);
// Each with its cause and fix.
std::string FindingLines(const v1::Assessment& assessment, const Terminal& terminal);
// The same, with their numbers.
std::string FindingList(const v1::Assessment& assessment, const Terminal& terminal);
// Where the device time went: a line for each part with its share, and who lost how much.
std::string LedgerText(const v1::Ledger& ledger, const Terminal& terminal);
// "62.0 % of its device time"; empty if it is unknown.
std::string GoodputText(const v1::Ledger& ledger);
// "about 12m".
std::string EtaText(int64_t eta_ms);
// "0.4s", "41s", "3h 20m" of one device.
std::string DeviceTime(int64_t device_us);

}  // namespace muster::client
