#include "common/error_codes.h"

#include <cctype>

namespace muster::common {
namespace {

constexpr ErrorCode kCodes[] = {
    {"JC1001", "unknown command", "The first word after jobctl is not a command.",
     "`jobctl help` lists the commands; the error suggests the nearest one."},
    {"JC1002", "unknown flag", "The command has no flag of this name.",
     "`jobctl help COMMAND` lists its flags. The trainer's own arguments go after `--`."},
    {"JC1004", "wrong arguments",
     "An argument is missing, too many are given, or a value has the wrong form.",
     "`jobctl help COMMAND` shows the usage line and examples."},
    {"JC1005", "file cannot be read",
     "A file named on the command line does not exist or cannot be read.",
     "Check the path; relative paths start from the directory jobctl runs in."},
    {"JC1006", "bad configuration file", "config.yaml of jobctl has an error or cannot be written.",
     "Correct the named line; `jobctl config view --origin` shows every setting and where it comes "
     "from."},
    {"JC1007", "unknown context", "No context of this name is configured.",
     "`jobctl context ls` lists them; `jobctl context add NAME HOST:PORT` adds one."},
    {"JC1008", "bad output request", "A column, filter, sort key or output format does not exist.",
     "The error lists what exists."},
    {"JC1009", "confirmation needed",
     "The command deletes something and cannot ask for confirmation here.", "Rerun it with --yes."},
    {"JC1010", "foreign launcher line",
     "A flag of torchrun, accelerate or a similar launcher is unknown or wrong.",
     "Correct the flag, or start the script itself: jobctl run -n N -- python train.py"},
    {"JC1011", "launcher flag refused",
     "The flag of the foreign launcher asks for something that the coordinator does not support.",
     "Follow the fix in the message."},
    {"JC1012", "accelerate configuration",
     "The accelerate configuration file is missing, malformed or unsupported.",
     "Correct the named key, or give the values as flags: jobctl run -n N -- python train.py"},
    {"JC1013", "batch script that would mean something else",
     "The script has options or commands that Muster does not do, and the job would compute "
     "something else without them: an array, a dependency, lines that prepare files.",
     "Write what the message says instead, or leave them out: jobctl submit SCRIPT --ignore "
     "array,lines"},
    {"JC1014", "not from a package",
     "jobctl version --verify compares files with the list in their package, and there is no list "
     "next to this jobctl.",
     "Install the Debian packages or the wheel."},
    {"JC1019", "bad pattern",
     "The pattern of --grep is not a regular expression of RE2, or too large.",
     "Correct it at the named place; put a \\ before special characters that are meant as "
     "themselves."},
    {"JC1101", "job file has errors",
     "The job file is not valid YAML, has unknown, duplicate or ambiguous keys, or values of the "
     "wrong type. All "
     "errors are listed with file:line:column.",
     "Correct the listed lines, then `jobctl validate FILE`. docs/jobfile.md lists the keys."},
    {"JC1102", "job file too large",
     "A job file may be at most 256 KiB, and so may a job spec including its environment.",
     "Move data into files next to the job; send less of the environment with --clean-env and -e."},
    {"JC1103", "bad job name",
     "A job's name is 1 to 100 bytes of UTF-8 without control or invisible characters, spaces, "
     "`@` or `/`, does not start with a dot or `-`, and is not a number, because it becomes part "
     "of paths.",
     "Choose a different --name."},
    {"JC1104", "bad shape",
     "The numbers of ranks, nodes and devices contradict each other or are out of range (1 "
     "to 100,000 ranks).",
     "Give either a total (`-n`, processes) or nodes × per_node."},
    {"JC1105", "no command", "A job needs a command.", "jobctl run -n 2 -- python train.py"},
    {"JC1106", "bad environment variable",
     "An environment variable has an empty name, a name with `=`, control or invisible "
     "characters, or a value with a NUL byte.",
     "Use -e NAME=VALUE."},
    {"JC1107", "bad working directory",
     "The working directory must be an absolute path; of a job that brings its code, a path below "
     "it.",
     "Use --workdir /absolute/path."},
    {"JC1108", "bad value in a job spec",
     "A value of the spec is out of range, a label is malformed, or an argument of the command "
     "contains a NUL byte.",
     "The message gives the value and what is allowed."},
    {"JC1201", "no such job", "No job has this number, name or name prefix.",
     "`jobctl ls -a` lists all jobs; @last is your newest one."},
    {"JC1202", "ambiguous job", "The prefix matches several jobs.",
     "Type more of the name, or use the number."},
    {"JC1203", "job is over", "The job has ended for good, so it cannot be changed.",
     "`jobctl rerun JOB` starts a new job with the same spec."},
    {"JC1204", "job is not over", "This is only possible after the job has ended.",
     "`jobctl cancel JOB`, then `jobctl wait JOB`."},
    {"JC1205", "idempotency key used",
     "The idempotency key belongs to an earlier job with a different spec, so the submit was "
     "refused.",
     "Use a new key for a new job."},
    {"JC1206", "wait timed out",
     "The job did not reach the requested state in time. It keeps running.",
     "Wait longer with --timeout, or run `jobctl why JOB`."},
    {"JC1207", "job cannot reach that state",
     "The job ended in a different way than the one waited for.",
     "`jobctl show JOB` shows how it ended."},
    {"JC1208", "no rank is running",
     "No rank of the job is running at the moment, so there is none to signal or query.",
     "`jobctl why JOB` shows why."},
    {"JC1209", "too many jobs",
     "The coordinator has reached its limit of queued and running jobs, or of the bytes of their "
     "specs and lists of checkpoint files, for one owner or in total.",
     "Submit again after some have ended, or submit smaller ones."},
    {"JC1210", "no record of a rank",
     "No rank reported what it is doing, and no node's worker looked at it in time, or the "
     "directory "
     "holds no records.",
     "`jobctl stack JOB --wait 60s`; `jobctl nodes ls` shows whether the workers are connected."},
    {"JC1211", "not part of the job",
     "The job has no such rank or attempt, or never ran on that node.",
     "`jobctl show JOB` lists its attempts, ranks and nodes."},
    {"JC1213", "the bundle's file exists",
     "`jobctl diagnose --bundle` never replaces a file unasked.", "Another name, or `--force`."},
    {"JC1214", "of its project",
     "A job changes its project only while it waits, and only if no code was sent with it, which "
     "belongs to the project.",
     "Stop it first (jobctl stop), set it, and release it; or submit it again with --project."},
    {"JC1301", "coordinator unreachable", "The configured coordinator does not answer.",
     "Check the address with `jobctl context show`, and that muster-coordinator runs there. "
     "`jobctl context use "
     "private` works on this machine only."},
    {"JC1302", "incompatible versions",
     "The two sides speak different versions of the protocol. A coordinator accepts workers and "
     "clients that are older, down to the version in the message, and none newer than itself.",
     "Upgrade the coordinator first, then workers and clients; `jobctl version` shows both."},
    {"JC1303", "private coordinator did not start",
     "The private coordinator exited or did not answer in time.",
     "Read its log; the message gives the path."},
    {"JC1304", "socket is not safe",
     "The directory of the coordinator's socket belongs to another user or is writable by others, "
     "or "
     "another user's process answers there: it would receive your jobs and their environment. "
     "Nothing was sent.",
     "Remove the directory, or set JOBCTL_RUNTIME_DIR to a directory that you own with mode 0700. "
     "With "
     "`--server unix:/PATH`: ask the coordinator's administrator to keep its socket in a directory "
     "that no other user can write to."},
    {"JC1305", "program missing", "A Muster program is not where jobctl looks for it.",
     "Install all of jobctl, muster-coordinator, muster-worker and muster-shim in the same "
     "directory."},
    {"JC1306", "only for a private coordinator",
     "The command applies to this machine's private coordinator.",
     "`jobctl context use private`, or leave out --server and --context."},
    {"JC1307", "connection lost", "The connection to the coordinator broke during the call.",
     "The job is not affected unless it was attached; see `jobctl show JOB` and `jobctl logs -f "
     "JOB`."},
    {"JC1308", "coordinator is overloaded",
     "One of the coordinator's queues is full, or too many requests of this kind are open, from "
     "this caller or in total.",
     "Try again in a moment, or end some of the streams that are open."},
    {"JC1309", "cannot listen",
     "The coordinator's socket or port cannot be used: in use, too long, or not allowed.",
     "Stop the process that uses it (the message names it), or choose another --socket or "
     "--listen."},
    {"JC1310", "older coordinator",
     "The node has already taken commands from a newer coordinator than this one.",
     "Start the coordinator on the newest data directory."},
    {"JC1311", "too many connections",
     "More connections are open at the coordinator than its descriptors allow, or many that say "
     "nothing.",
     "Find out what opens them (`ss -tnp`), or raise the coordinator's limit of open files "
     "(LimitNOFILE, `ulimit -n`)."},
    {"JC1312", "another user's coordinator",
     "Another user's process connected to a private coordinator and was rejected.",
     "Each user has a separate private coordinator; to share one, run muster-coordinator "
     "--listen."},
    {"JC1313", "not signed in",
     "A request over HTTP came without a session: no cookie of a sign-in link, no token, or one "
     "that "
     "is not valid any more.",
     "`jobctl ui` prints a link that signs a browser in. Programs send `Authorization: Bearer "
     "TOKEN` "
     "with the token from HTTP-TOKEN in the coordinator's data directory."},
    {"JC1314", "foreign host or origin",
     "A request over HTTP was addressed to a name that is not the coordinator's, or came from a "
     "page "
     "of another site. Browsers can be made to send such requests behind their user's back.",
     "Use the address that the coordinator printed; behind a proxy, start it with --http-host "
     "NAME."},
    {"JC1316", "bad request over HTTP",
     "The request is malformed, too large, asks for something that does not exist, or cannot be "
     "served now.",
     "The message names what is wrong; GET /api/v1/openapi.json describes all requests."},
    {"JC1317", "no HTTP here", "The coordinator does not serve HTTP, or not to browsers.",
     "Start muster-coordinator with --http 127.0.0.1:7701."},
    {"JC1320", "not allowed",
     "The caller is known, but its role does not permit the call, or the object is another user's.",
     "`jobctl whoami` shows the role; an administrator changes it with `jobctl user set NAME "
     "--role ROLE`."},
    {"JC1321", "not a name",
     "Names of clusters, nodes, users, projects and secrets are restricted.",
     "Choose a name of letters, digits, '-', '.', '_' and '@'."},
    {"JC1322", "not a token", "The text is not a token that `jobctl token create` printed.",
     "Copy the whole line, or create another one."},
    {"JC1323", "credentials not usable",
     "The file with a node's or a person's key and certificate is damaged, or others may read it.",
     "Join or sign in again; for the mode, chmod 600."},
    {"JC1324", "certificate not accepted",
     "The certificate is expired or revoked, or this cluster did not issue it.",
     "Sign in again (`jobctl login`), or join again (`muster-worker join`)."},
    {"JC1325", "cluster's keys not usable",
     "The directory with the cluster's authority and keys is missing, damaged, or others may read "
     "it.",
     "Restore it from where you keep it, or name it with --keys-dir."},
    {"JC1330", "no identities here",
     "The call needs a cluster with identities (users, tokens, encrypted secrets), or an audit, "
     "which this coordinator does not have.",
     "Make one with `muster-coordinator init`; a private coordinator cannot have one."},
    {"JC1331", "not possible for it",
     "A user, token, certificate, project or secret cannot be made or changed like this.",
     "The message names what is wrong with the request."},
    {"JC1332", "no such entry", "No user, token, certificate, project or secret has this name.",
     "List them: `jobctl user ls`, `token ls`, `project ls`, `secret ls`."},
    {"JC1333", "last administrator",
     "Without an administrator, no one could manage users over the network any more.",
     "Make another user an administrator first: `jobctl user set NAME --role admin`."},
    {"JC1334", "too many entries",
     "The coordinator keeps a limited number of users, tokens, certificates, projects and secrets.",
     "Remove some; the message names the limit."},
    {"JC1335", "token not usable", "The token is unknown, expired, used up, or for something else.",
     "Ask an administrator for another one: `jobctl token create`."},
    {"JC1336", "audit cannot be written",
     "Changes are recorded in the audit, and its disk takes no entries, or too many wait for it. A "
     "change that cannot be recorded is not made.",
     "Look at the disk of the coordinator's data directory; then ask again."},
    {"JC1337", "audit does not verify",
     "The audit's entries do not form the chain that was written: entries were changed, removed or "
     "cut off.",
     "The output names the entries. Compare with a backup, and with the hashes that workers keep "
     "(`muster-worker audit-heads`)."},
    {"JC1338", "not a member", "Only members of a project may submit jobs to it.",
     "Choose another --project, or ask an administrator for `jobctl project add`."},
    {"JC1339", "no such secret", "The job asks for a secret that its owner does not have.",
     "Set it with `jobctl secret set NAME`, or remove it from the job."},
    {"JC1340", "priority too high",
     "The project has a highest priority, which this job would exceed.",
     "Ask for less, or have an operator raise it: jobctl project quota NAME --max-priority P."},
    {"JC1341", "not within the worker's reach",
     "A worker asked for checkpoint files of an attempt that has no part on its node, or for a "
     "file "
     "that the attempt does not resume from. A worker can only access files that were assigned to "
     "its node.",
     "Muster's own workers never ask for that: look for a foreign program that uses the node's "
     "certificate, and revoke it."},
    {"JC1342", "another node's name",
     "A worker registered under another name than the one that its certificate is for.",
     "Start muster-worker with the --name that the node joined under, or join again under the new "
     "name."},
    {"JC1343", "command not run in the job",
     "The node of the rank takes no commands, did not answer, or runs as many as it may.",
     "The message names the node; `jobctl nodes show NODE`."},
    {"JC1344", "change not recorded",
     "The change was made, but its entry in the audit could not be written. The coordinator keeps "
     "the entry and writes it as soon as the disk takes it; until then it makes no other changes.",
     "Look at the disk of the coordinator's data directory, then at the result of the change; a "
     "token or certificate that it made was not handed out."},
    {"JC1345", "job's environment unreadable",
     "The environment of a job is stored encrypted with the cluster's secrets key, and the "
     "coordinator runs with another one, as after a restore without the keys.",
     "Start the coordinator with the keys that it had (--keys-dir), or submit the job again."},
    {"JC1351", "node name belongs to another",
     "A node of this name is known. A token for any node cannot take its place.",
     "Join with another --name, or with a token for this node: `jobctl token create worker NAME`."},
    {"JC1352", "certificate not renewed",
     "A worker renews its certificate until 30 days after its end, a person until its end, unless "
     "it was revoked, or is not in this coordinator's list: another one issued it, or the data was "
     "restored from an older backup.",
     "Join again (`muster-worker join --again`) or sign in again with a new token."},
    {"JC1353", "unusable certificate request",
     "A certificate is issued for a P-256 key whose owner has signed the request.",
     "Use `muster-worker join` or `jobctl login`, which make the request."},
    {"JC1354", "not this cluster's coordinator",
     "The server does not have a coordinator's certificate of the cluster's authority: the address "
     "is wrong, the token is another cluster's, or another machine intercepts the connection.",
     "Check the address and the token with the person who gave them to you."},
    {"JC1355", "user may not sign in", "An administrator disabled or removed the user.",
     "Ask an administrator: `jobctl user ls`."},
    {"JC1356", "too many enrolments",
     "More nodes and people join, sign in or renew than the coordinator answers at once.",
     "Try again in a few seconds."},
    {"JC1357", "signed out",
     "The certificate that `jobctl login` got has expired, or there is none.",
     "`jobctl login HOST:PORT` with a new token, or --oidc."},
    {"JC1358", "joined already", "The state directory has a node's credentials already.",
     "Use another --state-dir, or --again to replace them."},
    {"JC1359", "too many valid certificates",
     "64 certificates of one node or person are valid at once.",
     "An administrator ends them: `jobctl cert revoke user/NAME`. Otherwise wait until some have "
     "expired."},
    {"JC1361", "no identity provider",
     "The coordinator was started without an OpenID Connect provider to sign in at.",
     "Sign in with a token: `jobctl login HOST:PORT`. An administrator sets a provider up with "
     "muster-coordinator --oidc-issuer."},
    {"JC1362", "identity provider unusable",
     "The coordinator cannot reach the identity provider, or got an invalid answer from it.",
     "Try again; if it stays, an administrator compares --oidc-issuer and --oidc-client-id with "
     "the "
     "provider, and looks into the coordinator's log."},
    {"JC1363", "sign-in not confirmed yet",
     "The person has not confirmed the sign-in at the identity provider.",
     "Open the address that `jobctl login --oidc` printed and confirm the code; jobctl waits."},
    {"JC1364", "sign-in ended",
     "A sign-in at the identity provider was denied, not confirmed in time, or used before.",
     "Begin another one: `jobctl login HOST:PORT --oidc`."},
    {"JC1365", "ID token refused",
     "The identity provider's ID token for the person is not signed by it, not for this cluster, "
     "or not current.",
     "The message tells which check failed. An administrator compares --oidc-issuer and "
     "--oidc-client-id with the provider, and the clocks of both machines."},
    {"JC1366", "unknown to this cluster",
     "The identity provider has signed the person in, but no user of the cluster is linked to it.",
     "An administrator links one: `jobctl user set NAME --oidc \"ISSUER SUBJECT\"`; the message "
     "has "
     "the subject."},
    {"JC1367", "cluster not confirmed",
     "`jobctl login --oidc` cannot tell whether the server is the cluster that is meant.",
     "Give the fingerprint that `muster-coordinator init` printed, and that `jobctl whoami` prints "
     "for those who are signed in: --authority SHA256:…"},
    {"JC1368", "client secret unusable",
     "The file of --oidc-client-secret-file cannot be read, is open to others, or holds no secret.",
     "Follow the fix in the message."},
    {"JC1369", "certificate for browsers unusable",
     "The certificate or key of `muster-coordinator init --certificate FILE --key FILE` cannot be "
     "read or used, has expired, or is for another name.",
     "Follow the fix in the message."},
    {"JC1370", "coordinator's certificate not renewed",
     "The coordinator renews its own certificate when a third of its 90 days is left, and could "
     "not "
     "write the new one beside the cluster's keys. It works until the certificate ends, and tries "
     "again; after that no client can connect, and the coordinator does not start.",
     "Let the coordinator's account write the keys' directory. Under systemd the unit needs "
     "ReadWritePaths= with that directory."},
    {"JC1371", "not what a coordinator answers",
     "The server answered with an address, a page or a code that is not valid: the server is "
     "broken, hostile, or not the intended one.",
     "Compare the authority of the cluster with what `muster-coordinator init` printed."},
    {"JC1401", "no such node", "No node of this name is registered.",
     "`jobctl nodes ls` lists them."},
    {"JC1402", "job can never fit",
     "The job would not fit on the registered nodes even if all of them were free.",
     "Ask for less (the message gives the largest that fits), or use --queue-anyway and add "
     "nodes."},
    {"JC1403", "node is alive", "A node that still sends reports cannot be declared dead.",
     "`jobctl nodes drain NODE`, or stop its worker first."},
    {"JC1404", "node name taken", "Another worker with this name is connected.",
     "Start this one with another --name and --state-dir, or stop the other."},
    {"JC1405", "too many nodes",
     "The coordinator is at its limit of nodes, or of what all nodes report of themselves.",
     "Run `jobctl nodes rm NODE` for nodes that are gone for good, or use a second coordinator."},
    {"JC1407", "bad node name",
     "A node's name is 1 to 100 bytes of UTF-8 without control characters.",
     "Start muster-worker with another --name."},
    {"JC1408", "bad facts from a node",
     "A worker reported something about its node that is out of range: a text, or its devices.",
     "Run the coordinator's release of muster-worker there."},
    {"JC1411", "node moved while it may hold ranks",
     "A worker on another machine took the name of a node whose ranks may still be running on the "
     "old machine.",
     "Wait until they count as stopped, or `jobctl nodes declare-dead NODE` if that machine is "
     "off."},
    {"JC1412", "node cannot be removed",
     "A node that is connected would register again; one whose ranks may still run is not "
     "forgotten.",
     "Stop its muster-worker; if its ranks may still run and the machine is off, `jobctl nodes "
     "declare-dead NODE`."},
    {"JC1413", "limits cannot be enforced",
     "The job limits its ranks (--cpus, --memory), and no node with room for it can enforce that: "
     "it takes a cgroup that the node's worker may divide.",
     "The message names the node, what is missing there and the fix (docs/limits.md); or omit the "
     "limit."},
    {"JC1414", "no such account on the node",
     "Ranks run as their job's owner there, and the owner has no account on that node that the "
     "worker finds.",
     "Make the account on the node, or give the owner another one: `jobctl user set USER --account "
     "NAME`; or start that worker with --run-as ACCOUNT (docs/security.md)."},
    {"JC1415", "ranks may not be root, nor a service",
     "The account that the ranks would run as is uid 0 on that node, or its uid is below UID_MIN "
     "in /etc/login.defs, like the accounts of services.",
     "Give the job's owner another account: `jobctl user set USER --account NAME`; or, for root, "
     "start that worker with --allow-root."},
    {"JC1416", "devices do not compute in this type",
     "The job declares a type to compute in (--mixed_precision, ACCELERATE_MIXED_PRECISION), and "
     "no "
     "node with room for it has devices that do.",
     "Declare one of the types that the message names, or use --queue-anyway to wait for other "
     "nodes (docs/npu.md)."},
    {"JC1417", "more than its project or owner may have",
     "The job needs more devices at once than the project's limit, or than one person may have in "
     "it.",
     "Ask for fewer, or have an operator raise it: jobctl project quota NAME --limit, "
     "--person-limit."},
    {"JC1501", "no such checkpoint", "The job has no committed checkpoint of this step.",
     "`jobctl ckpt ls JOB`."},
    {"JC1502", "checkpoint is damaged",
     "A file of the checkpoint is missing or does not match its SHA-256.",
     "Resume from an earlier one: `jobctl rerun JOB --from STEP`."},
    {"JC1503", "no such metric", "The job has recorded no metric of this name.",
     "`jobctl metrics JOB` lists them."},
    {"JC1504", "file differs",
     "A downloaded file does not match its size or SHA-256, or its name leads out of the directory "
     "that it belongs to. Nothing is written outside of it.",
     "Run the command again; a correct coordinator never sends a name that leads outside."},
    {"JC1505", "no such file in the checkpoint", "The checkpoint has no file of this name.",
     "`jobctl ckpt show JOB` lists its files."},
    {"JC1506", "checkpoint in use", "An attempt is starting from this checkpoint right now.",
     "Try again once it is running."},
    {"JC1507", "checkpoint not readable now",
     "The store with the checkpoint's files lacks a resource or cannot be reached. The files may "
     "be intact, so none is marked as damaged.",
     "Try again later; the message names the reason."},
    {"JC1508", "checkpoint was not uploaded",
     "A worker announced a checkpoint, and has not sent the bytes of one of its files for this "
     "attempt, "
     "or the coordinator's store lacks them. The checkpoint does not count.",
     "The job continues, and its next checkpoint counts again. After a restore from a backup this "
     "is expected for checkpoints that are younger than the backup, and after an upgrade from "
     "0.2.0 for "
     "one that was being announced; otherwise look for a damaged data directory or a foreign "
     "program "
     "on that node."},
    {"JC1541", "nothing to compare",
     "The runs have no step, or no epoch, in common, so they cannot be compared.",
     "`--by epoch` compares runs that log at different steps; `jobctl metrics JOB` shows the "
     "steps."},
    {"JC1542", "epochs unknown",
     "Epochs come from a metric \"epoch\" that the trainer logs next to the others, or from "
     "--steps-per-epoch. This run has neither.",
     "Compare `--by step`, give `--steps-per-epoch N`, or log a metric \"epoch\"."},
    {"JC1543", "not a file of metrics",
     "The path is not a TensorBoard event file, not a directory with event files and not a CSV "
     "file "
     "with a column \"step\", or its content is damaged.",
     "`jobctl help compare` describes what it reads."},
    {"JC1544", "too many points", "The metrics to compare do not fit into memory.",
     "Compare fewer metrics at once with --key."},
    {"JC1545", "file exists", "A file that would be written already exists. Nothing was written.",
     "Add --force to replace it, or choose another path."},
    {"JC1546", "tracking server refused the export",
     "The MLflow tracking server could not be reached, did not answer in time or answered with an "
     "error. A run that was begun there has been deleted.",
     "Check --url and the server's log; the message has its answer."},
    {"JC1601", "file cannot be written", "A file or directory could not be created or written.",
     "Check the path, its permissions and the free space (`df`)."},
    {"JC1602", "data cannot be trusted",
     "The coordinator's database, logs or metrics are damaged or truncated, or the disk failed to "
     "keep them. Nothing that was acknowledged is discarded.",
     "Check the disk; restore the data directory from a backup, or start with an empty "
     "--data-dir."},
    {"JC1603", "database from another version",
     "The database was written by a newer version, or by another program.",
     "Start the version of muster-coordinator that wrote it, or use another --data-dir."},
    {"JC1604", "data directory in use", "Another muster-coordinator is using the data directory.",
     "Stop it (the message names its pid), or use another --data-dir."},
    {"JC1605", "disk full",
     "The coordinator's disk is full: new jobs are refused, running jobs continue. A private "
     "coordinator does not start without room for its reserve. A backup that finds no room leaves "
     "the one before it as it was.",
     "Free some space on the disk that the message names; a coordinator needs no restart."},
    {"JC1606", "database lost",
     "The data directory holds logs, metrics or checkpoint files of jobs, but muster.db is "
     "missing. "
     "A coordinator that started there would number its jobs from 1 among the old ones' files.",
     "Restore a backup (`muster-coordinator restore`). To start over without these jobs, move the "
     "directory away or name an empty --data-dir."},
    {"JC1607", "backup not usable",
     "The directory holds no whole backup, or its MANIFEST or database is damaged.",
     "Name the --to directory of a backup that was completed, or use another backup."},
    {"JC1608", "directory not usable",
     "The directory cannot be checked, backed up or restored into: it is not a data directory, "
     "belongs to another user, is not empty, or holds something else.",
     "The message names the reason and what to do."},
    {"JC1611", "impossible upload",
     "A worker sent output, metrics or a checkpoint file with numbers that cannot be right. That "
     "stream is rejected; all others continue.",
     "Look for a damaged spool or disk on the node that the message names, or for a program that "
     "is "
     "not Muster's."},
    {"JC1612", "no free file descriptor",
     "The coordinator has reached its limit of open files and connections. It waits, and continues "
     "when some are closed; nothing is lost.",
     "Raise its limit of open files (LimitNOFILE in the unit, `ulimit -n`)."},
    {"JC1613", "database held up",
     "Events cannot be recorded at the moment: another process has locked the coordinator's "
     "database, or the disk does not finish an earlier write. The coordinator waits, answers that "
     "need the disk wait with it, and it continues when that ends; nothing is lost.",
     "Stop the other process that has the database open (`fuser -v FILE`), or look at the disk: "
     "the message names the cause."},
    {"JC1620", "damaged on disk",
     "Checksums show that bytes of logs or metrics changed on the coordinator's disk after they "
     "were written. Workers resend what they still have; the rest is a marked gap, and "
     "what follows is served.",
     "Look at the disk (SMART, the kernel's log); `muster-coordinator check` reads everything."},
    {"JC1624", "output quota not kept",
     "The output of a job has reached its quota, and its oldest segments could not be removed. "
     "Output "
     "is still stored.",
     "The message has the reason; look at the disk. `jobctl rm` removes finished jobs."},
    {"JC1625", "metrics quota reached",
     "The job has reached its metrics quota. Newer points are not stored; `jobctl ls` and "
     "the "
     "page still show their newest values.",
     "Report fewer values or less often; an operator raises --job-metrics-quota."},
    {"JC1626", "a job's file failed",
     "A file with output or metrics of a job could not be opened, read, written or synced. What "
     "was "
     "acknowledged is kept; the rest waits in the spools of its workers and is resent, after a "
     "second at first, then after up to 64. All other jobs continue.",
     "The message names the file: look at the disk (SMART, the kernel's log), the file's owner and "
     "what lies in its place. `muster-coordinator check` names every file that cannot be read."},
    {"JC1628", "output quota of a person exceeded",
     "The stored output of the caller's jobs, including finished ones, takes more of the "
     "coordinator's disk than one person may have. Running jobs continue.",
     "Remove old jobs: `jobctl rm`. An operator sees each user's share with `jobctl user ls "
     "--usage`, and raises --person-log-quota."},
    {"JC1630", "coordinator stands by",
     "Several coordinators serve this cluster, one at a time. The one that was asked does not "
     "lead, so it "
     "answers nothing but who does, and who is registered.",
     "Give all their addresses, separated by commas, so that the leader is found: `jobctl -s "
     "a:7700,b:7700`, `muster-worker --coordinator a:7700,b:7700`."},
    {"JC1631", "state in etcd not usable",
     "The coordinator was started with --state, and what is there, or the data directory beside "
     "it, does not "
     "fit.",
     "The message names what does not fit. Each coordinator of a cluster has a data directory of "
     "its own, which "
     "begins empty, and the same --state."},
    {"JC1632", "files at another coordinator",
     "Several coordinators replace each other, and each keeps the checkpoints, outputs and logs "
     "that came while it led, and the records of finished jobs that left etcd while it ran. "
     "Another one than the leader has what was asked for.",
     "Ask again when the named coordinator leads. A running job's next checkpoint is at the one "
     "that leads."},
    {"JC1640", "object store not usable",
     "The store of objects (S3, or what speaks it) refuses a request, or there are no credentials "
     "for it.",
     "Follow the fix in the message."},
    {"JC1641", "another object store",
     "The coordinator's --objects names a store that does not have this cluster's objects, so it "
     "ends before it puts or deletes anything there.",
     "Give every coordinator of the cluster the same --objects, and mount a shared directory "
     "before the coordinator starts."},
    {"JC1642", "output waits for the object store",
     "Output and metrics could not be put into the store of objects, or could not be recorded as "
     "there. They wait, at last in the workers' spools, and are tried again.",
     "None needed if the store is only away for now; otherwise look at its address, credentials "
     "and space."},
    {"JC1701", "code quota exceeded",
     "The code to be sent exceeds the project's quota on the coordinator, or the person's. An "
     "object counts at least 4 KiB.",
     "Leave out what the job does not need (.musterignore), or remove old jobs: code that no job "
     "uses is removed a day after its last use. An operator raises --code-quota."},
    {"JC1702", "code not uploaded",
     "The job names code of which the coordinator lacks something, or has it only from another "
     "project.",
     "Submit again with jobctl, which sends what is missing."},
    {"JC1703", "too many uploads",
     "The coordinator accepts code over a limited number of streams at once, in total and from one "
     "person.",
     "Try again when one of them has ended."},
    {"JC1704", "invalid code of a job", "The manifest or placement of the job's code is not valid.",
     "Submit the directory again with jobctl of this version."},
    {"JC1705", "upload of code refused",
     "Objects of a job's code arrived out of order, with other bytes than their names say, with "
     "more "
     "than announced, or too slowly.",
     "Submit again: received data stays for a day, and only the rest is sent."},
    {"JC1706", "not for you or not of this job",
     "The code of a job is for its owner, its project's members and administrators; or the object "
     "is "
     "not part of it.",
     "Ask an administrator for a membership; `jobctl show` prints which code a job has."},
    {"JC1710", "directory cannot be sent",
     "The directory that is to be sent with the job has entries that a tree cannot contain: links "
     "that lead out of it, sockets, names that are not UTF-8, files that cannot be read or that "
     "change all the time.",
     "Remove them, or list them in .musterignore in that directory; it has the syntax of "
     ".gitignore."},
    {"JC1711", "directory too large",
     "The directory that is to be sent with the job has more entries or bytes than a tree may "
     "have.",
     "List data sets, checkpoints and environments in .musterignore, or send a directory below it "
     "with --sync=DIR."},
    {"JC1712", "file changes while it is sent",
     "A file changed between the moment when its content was named and the moment when it was "
     "sent, "
     "in three tries.",
     "Run the command again when nothing writes to the file, or list it in .musterignore."},
    {"JC1713", "directory not readable",
     "The directory that is to be sent with the job does not exist or cannot be read.",
     "Correct --sync=DIR, --workdir or `workdir`; --no-sync if the nodes have the code already."},
    {"JC1714", "working directory is not sent",
     "The working directory of the command is not part of the directory that is sent: it lies "
     "elsewhere, or an ignore file leaves it out.",
     "Send a directory above it with --sync=DIR, or correct the ignore file."},
    {"JC1715", "coordinator too old",
     "The coordinator is older than this jobctl and would ignore a job's code, setup, outputs or "
     "image.",
     "Install this release there, or omit them."},
    {"JC1716", "impossible answer",
     "The coordinator answered a question about a job's code in a way that cannot be right.",
     "Install the same release on both sides; `jobctl version` shows both."},
    {"JC1717", "code differs from its name",
     "The bytes that the coordinator has of a job's code are not those that the job names.",
     "Run `muster-coordinator check` there; restore a backup if it reports damage."},
    {"JC1720", "no such outputs",
     "The attempt brought no outputs back: its job names none, it has not ended, or they were "
     "removed (those of a job's newest 10 attempts are kept).",
     "`jobctl show JOB` lists the existing ones. Name the paths to bring back with `outputs:` in "
     "the job file."},
    {"JC1721", "outputs are not here yet",
     "Outputs come back when an attempt has ended, and none of this job's has.",
     "`jobctl wait JOB`, then copy again; `jobctl cp --live` copies what a running rank has now."},
    {"JC1722", "no such path in the outputs",
     "No file of the outputs has this name or lies below it.",
     "`jobctl outputs JOB` lists the files."},
    {"JC1723", "a running rank's files could not be copied",
     "The files of a running job are read and written by sh, find, stat, head, tail, cat and "
     "sha256sum in "
     "the rank's place, with its rights; one of them failed or is missing there, or the file "
     "changed.",
     "Read its error, and try by hand: `jobctl exec JOB -- ls -l PATH`."},
    {"JC1801", "not nodes of a cluster",
     "A word of --nodes, --head or --dir cannot be a machine, a port or a directory. They become "
     "words of command lines, so only plain names are taken.",
     "Write nodes like node1, alice@node1, node1:2222 or node[01-04], separated by commas; what "
     "needs more gets a name in ~/.ssh/config."},
    {"JC1802", "no such cluster", "This jobctl has not started a cluster of this name.",
     "`jobctl cluster ls` lists them. A cluster that others started is a context: `jobctl login`."},
    {"JC1803", "damaged record of a cluster",
     "The file in which jobctl remembers a cluster is not what jobctl writes.",
     "End the cluster's processes by hand, then remove the file that the message names."},
    {"JC1804", "node not reached by ssh",
     "The system's ssh could not run a command on a node without asking, or not in time.",
     "`ssh -o BatchMode=yes NODE true` must succeed: keys, host keys and names are ssh's affair; "
     "--ssh-config and --ssh-option tell it more."},
    {"JC1805", "node cannot be used", "A command on a node failed: the message has what it wrote.",
     "Fix the problem that the message names, and rerun the command. A failed `jobctl cluster up` "
     "leaves nothing there."},
    {"JC1806", "cluster's coordinator not reachable",
     "The coordinator was started, but this machine cannot sign in to it.",
     "Open its two ports to this machine, or choose others with --port."},
    {"JC1807", "worker did not register",
     "A worker was started on a node, but the coordinator did not hear from it.",
     "Every node must reach the two ports of the head; choose others with --port."},
    {"JC1808", "cluster not removed from all nodes",
     "A node could not be cleaned. The cluster stays in `jobctl cluster ls` with the nodes that "
     "are "
     "left.",
     "Run `jobctl cluster down` again when they can be reached; --forget gives them up."},
    {"JC1809", "name of a cluster in use", "A cluster or a context of this name exists already.",
     "Choose another: `jobctl cluster up NAME …`; or `jobctl cluster down NAME` first."},
    {"JC1810", "jobs are not over",
     "The cluster that is to be taken down has running or queued jobs.",
     "Wait for them, or add --cancel-jobs."},
    {"JC1811", "Slurm's program failed",
     "sbatch, squeue or scancel is missing here, refused the request, or did not answer.",
     "The message has its output; arguments after -- are passed to sbatch unchanged."},
    {"JC1812", "allocation over", "The allocation of a cluster ended before the cluster was up.",
     "Read the allocation's output, which the message names, and run `jobctl cluster up` again."},
};

}  // namespace

std::span<const ErrorCode> ErrorCodes() { return kCodes; }

const ErrorCode* FindErrorCode(std::string_view code) {
  const auto letter = [&](size_t i, char c) {
    return std::toupper(static_cast<unsigned char>(code[i])) == c;
  };
  if (code.size() >= 2 && letter(0, 'J') && letter(1, 'C')) code.remove_prefix(2);
  for (const ErrorCode& row : kCodes) {
    if (row.code.substr(2) == code) return &row;
  }
  return nullptr;
}

}  // namespace muster::common
