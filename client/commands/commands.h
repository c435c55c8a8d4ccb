// All commands, in the order of the help page. A command is a file in this folder, which defines its row (command.h),
// and its name in this list, from which it is declared and found.
#pragma once

#include "client/command.h"

#define MUSTER_COMMANDS(COMMAND) \
  COMMAND(Run)                   \
  COMMAND(Submit)                \
  COMMAND(Plan)                  \
  COMMAND(Init)                  \
  COMMAND(Validate)              \
  COMMAND(Ls)                    \
  COMMAND(Show)                  \
  COMMAND(Why)                   \
  COMMAND(Logs)                  \
  COMMAND(Events)                \
  COMMAND(Metrics)               \
  COMMAND(Compare)               \
  COMMAND(Diff)                  \
  COMMAND(Export)                \
  COMMAND(Top)                   \
  COMMAND(CkptLs)                \
  COMMAND(CkptShow)              \
  COMMAND(CkptVerify)            \
  COMMAND(CkptPull)              \
  COMMAND(CkptRm)                \
  COMMAND(Outputs)               \
  COMMAND(Cp)                    \
  COMMAND(Wait)                  \
  COMMAND(Cancel)                \
  COMMAND(Signal)                \
  COMMAND(Release)               \
  COMMAND(Stack)                 \
  COMMAND(Rerun)                 \
  COMMAND(Diagnose)              \
  COMMAND(Exec)                  \
  COMMAND(Attach)                \
  COMMAND(Rm)                    \
  COMMAND(NodesLs)               \
  COMMAND(NodesShow)             \
  COMMAND(NodesDrain)            \
  COMMAND(NodesUndrain)          \
  COMMAND(NodesDeclareDead)      \
  COMMAND(NodesRm)               \
  COMMAND(Doctor)                \
  COMMAND(AllReduce)             \
  COMMAND(WhoAmI)                \
  COMMAND(UserLs)                \
  COMMAND(UserSet)               \
  COMMAND(UserDisable)           \
  COMMAND(UserEnable)            \
  COMMAND(UserRm)                \
  COMMAND(TokenCreate)           \
  COMMAND(TokenLs)               \
  COMMAND(TokenRevoke)           \
  COMMAND(CertLs)                \
  COMMAND(CertRevoke)            \
  COMMAND(ProjectLs)             \
  COMMAND(ProjectCreate)         \
  COMMAND(ProjectAdd)            \
  COMMAND(ProjectRemove)         \
  COMMAND(ProjectRm)             \
  COMMAND(SecretSet)             \
  COMMAND(SecretLs)              \
  COMMAND(SecretRm)              \
  COMMAND(Audit)                 \
  COMMAND(Ui)                    \
  COMMAND(Up)                    \
  COMMAND(Down)                  \
  COMMAND(ClusterUp)             \
  COMMAND(ClusterLs)             \
  COMMAND(ClusterDown)           \
  COMMAND(Login)                 \
  COMMAND(Logout)                \
  COMMAND(ContextLs)             \
  COMMAND(ContextUse)            \
  COMMAND(ContextAdd)            \
  COMMAND(ContextRm)             \
  COMMAND(ContextShow)           \
  COMMAND(ConfigView)            \
  COMMAND(Completion)            \
  COMMAND(Complete)              \
  COMMAND(Explain)               \
  COMMAND(Version)               \
  COMMAND(Help)

namespace muster::client {

#define MUSTER_DECLARED(name) extern const Command k##name##Command;
MUSTER_COMMANDS(MUSTER_DECLARED)
#undef MUSTER_DECLARED

}  // namespace muster::client
