// Notes about parts of a command that are taken literally, but are rarely meant that way. They are not errors,
// because they may be intended.
#pragma once

#include "client/command_line/arguments.h"
#include "client/session/session.h"
#include "muster/v1/job.pb.h"

namespace muster::client {

void NoteCommand(Session& session, const Arguments& arguments, const v1::JobSpec& spec);

}  // namespace muster::client
