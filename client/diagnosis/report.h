// A diagnosis on one screen, and the same for programs. Pure.
#pragma once

#include <string>

#include "client/diagnosis/case_file.h"
#include "client/diagnosis/first_cause.h"

namespace muster::client {

std::string DiagnosisText(const CaseFile& file, const FirstCause& cause);
std::string DiagnosisJson(const CaseFile& file, const FirstCause& cause);
// "muster 0.2.0, jobctl 0.2.0, protocol 3", then a line for each node with its devices and version.
std::string VersionsText(const CaseFile& file);

}  // namespace muster::client
