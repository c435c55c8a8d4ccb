// The rows of all commands; each is defined in the file of its name.
#pragma once

#include "client/command.h"

namespace muster::client {

extern const Command kRunCommand;
extern const Command kSubmitCommand;
extern const Command kValidateCommand;
extern const Command kPlanCommand;
extern const Command kInitCommand;
extern const Command kLsCommand;
extern const Command kLoginCommand;
extern const Command kLogoutCommand;
extern const Command kShowCommand;
extern const Command kWhyCommand;
extern const Command kLogsCommand;
extern const Command kEventsCommand;
extern const Command kExecCommand;
extern const Command kAttachCommand;
extern const Command kMetricsCommand;
extern const Command kCompareCommand;
extern const Command kDiffCommand;
extern const Command kExportCommand;
extern const Command kCkptLsCommand;
extern const Command kCkptShowCommand;
extern const Command kCkptVerifyCommand;
extern const Command kCkptPullCommand;
extern const Command kCkptRmCommand;
extern const Command kCpCommand;
extern const Command kOutputsCommand;
extern const Command kWaitCommand;
extern const Command kCancelCommand;
extern const Command kSignalCommand;
extern const Command kReleaseCommand;
extern const Command kStackCommand;
extern const Command kTopCommand;
extern const Command kDiagnoseCommand;
extern const Command kRerunCommand;
extern const Command kRmCommand;
extern const Command kNodesLsCommand;
extern const Command kNodesShowCommand;
extern const Command kNodesDrainCommand;
extern const Command kNodesUndrainCommand;
extern const Command kNodesDeclareDeadCommand;
extern const Command kNodesRmCommand;
extern const Command kDoctorCommand;
extern const Command kAllReduceCommand;
extern const Command kWhoAmICommand;
extern const Command kUserLsCommand;
extern const Command kUserSetCommand;
extern const Command kUserDisableCommand;
extern const Command kUserEnableCommand;
extern const Command kUserRmCommand;
extern const Command kTokenCreateCommand;
extern const Command kTokenLsCommand;
extern const Command kTokenRevokeCommand;
extern const Command kCertLsCommand;
extern const Command kCertRevokeCommand;
extern const Command kProjectLsCommand;
extern const Command kProjectCreateCommand;
extern const Command kProjectAddCommand;
extern const Command kProjectRemoveCommand;
extern const Command kProjectRmCommand;
extern const Command kSecretSetCommand;
extern const Command kSecretLsCommand;
extern const Command kSecretRmCommand;
extern const Command kAuditCommand;
extern const Command kUiCommand;
extern const Command kUpCommand;
extern const Command kClusterUpCommand;
extern const Command kClusterDownCommand;
extern const Command kClusterLsCommand;
extern const Command kDownCommand;
extern const Command kContextLsCommand;
extern const Command kContextUseCommand;
extern const Command kContextAddCommand;
extern const Command kContextRmCommand;
extern const Command kContextShowCommand;
extern const Command kConfigViewCommand;
extern const Command kCompletionCommand;
extern const Command kCompleteCommand;
extern const Command kExplainCommand;
extern const Command kVersionCommand;
extern const Command kHelpCommand;

}  // namespace muster::client
