// What people read about jobs: states, ages, layouts, verdicts. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "client/terminal/terminal.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

std::string StateName(v1::JobState state);  // "RUNNING"
std::string_view StateColor(v1::JobState state, bool color);
bool IsOver(v1::JobState state);
// Over, or held: nothing more happens unless a person acts.
bool IsAtRest(const v1::JobRecord& record);
std::string NodeStateName(v1::NodeState state);
// The name of JobSummary.loss; a coordinator of version 0.2.0 does not send it.
std::string_view LossName(const v1::JobSummary& summary);
// "user:alice", "user:alice (removed)": another person may have the name now.
std::string OwnerText(const v1::JobSummary& summary);
std::string CauseName(v1::StopCause cause);  // "rank failed"

int64_t WallMs();
// "2026-11-21 03:04:05" in local time; empty for 0.
std::string LocalTime(int64_t unix_ms);
std::string ClockTime(int64_t unix_ms);  // "03:04:05"
// A duration for people: "0.04s", "3.2s", "41s", "12m 3s".
std::string Took(int64_t milliseconds);
// "12s", "3m 4s" since `unix_ms`; empty for 0.
std::string Age(int64_t unix_ms);

// "2 ranks on 1 node", of the newest attempt, or as requested.
std::string Layout(const v1::JobRecord& record);
// "node1: ranks 0-1 on cpu 0,1"
std::string PartText(const v1::NodePart& part);
using LabelsByKey = std::map<std::string, std::string>;
LabelsByKey SortedLabels(const google::protobuf::Map<std::string, std::string>& labels);
// "sweep=7, team=vision"
std::string LabelsText(const LabelsByKey& labels);
// "0-3,7"
std::string Ranges(const google::protobuf::RepeatedField<uint32_t>& numbers);

// "✓ succeeded in 41s", "✗ failed after 3s: …", "cancelled after 2s".
std::string Verdict(const v1::JobRecord& record, bool color);
// What `jobctl run` returns: 0, the culprit's code or 128 + signal, 103 when cancelled.
int RunExitCode(const v1::JobRecord& record);
// What following or waiting returns: 0, 100, 103; with `propagate` RunExitCode.
int WaitExitCode(const v1::JobRecord& record, bool propagate);

// One word of the command line as a shell would take it.
std::string ShellQuote(std::string_view word);
// The same on one line, for people to copy: "$'two\\nlines'", which bash, zsh and ksh accept.
std::string ShellQuoteOnOneLine(std::string_view word);

}  // namespace muster::client
