#include "common/error_codes.h"

#include <cctype>

namespace muster::common {
namespace {

constexpr ErrorCode kCodes[] = {
    {"JC1001", "unknown command", "The first word after jobctl names no command.",
     "`jobctl help` lists the commands; the error names the nearest one."},
    {"JC1002", "unknown flag", "The command has no flag of this name.",
     "`jobctl help COMMAND` lists its flags. Words of the trainer's own go after `--`."},
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
     "`jobctl context ls` lists them; `jobctl context add NAME HOST:PORT` makes one."},
    {"JC1008", "bad output request", "A column, filter, sort key or output format does not exist.",
     "The error lists what exists."},
    {"JC1009", "confirmation needed", "The command destroys something and no person can be asked.",
     "Repeat it with --yes."},
    {"JC1010", "foreign launcher line",
     "A flag of torchrun, accelerate or a like launcher is unknown or wrong.",
     "Correct the flag, or start the script itself: jobctl run -n N -- python train.py"},
    {"JC1011", "launcher flag refused",
     "The flag of the foreign launcher asks for something that the coordinator cannot honour.",
     "Follow the fix in the message."},
    {"JC1012", "accelerate configuration",
     "The accelerate configuration file is missing, malformed or unsupported.",
     "Correct the named key, or give the values as flags: jobctl run -n N -- python train.py"},
    {"JC1101", "job file has errors",
     "The job file is not valid YAML, has unknown, duplicate or ambiguous keys, or values of the "
     "wrong type. All "
     "errors are listed with file:line:column.",
     "Correct the listed lines, then `jobctl validate FILE`. docs/jobfile.md lists the keys."},
    {"JC1102", "job file too large",
     "A job file may have 256 KiB and a job spec 256 KiB with its environment.",
     "Put data into files beside the job; send less environment with --clean-env and -e."},
    {"JC1103", "bad job name",
     "A job's name has 1 to 100 bytes of UTF-8 without control or invisible characters, blanks, "
     "`@` or `/`, does not begin with a dot or `-`, and is not a number: paths are built from it.",
     "Choose another --name."},
    {"JC1104", "bad shape",
     "The numbers of ranks, nodes and devices contradict each other or lie outside their ranges (1 "
     "to 100,000 ranks).",
     "Give either a total (`-n`, processes) or nodes × per_node."},
    {"JC1105", "no command", "A job needs a command.", "jobctl run -n 2 -- python train.py"},
    {"JC1106", "bad environment variable",
     "An environment variable has an empty name, a name with `=`, control or invisible "
     "characters, or a value with a NUL byte.",
     "Use -e NAME=VALUE."},
    {"JC1107", "bad working directory", "The working directory must be an absolute path.",
     "Use --workdir /absolute/path."},
    {"JC1108", "bad value in a job spec",
     "A value of the spec is outside its range, or a word of the command "
     "holds a NUL byte.",
     "The message names the value and its range."},
    {"JC1201", "no such job", "No job has this number, name or name prefix.",
     "`jobctl ls -a` lists all jobs; @last is your newest one."},
    {"JC1202", "ambiguous job", "The prefix fits several jobs.",
     "Type more of the name, or use the number."},
    {"JC1203", "job is over", "The job has ended for good, so it cannot be changed.",
     "`jobctl rerun JOB` starts a new job like it."},
    {"JC1204", "job is not over", "This is possible only once the job has ended.",
     "`jobctl cancel JOB`, then `jobctl wait JOB`."},
    {"JC1205", "idempotency key used",
     "The idempotency key belongs to an earlier job with another spec, so the submit was refused.",
     "Use a new key for a new job."},
    {"JC1206", "wait timed out", "The job did not reach the wanted state in time. It goes on.",
     "Wait longer with --timeout, or `jobctl why JOB`."},
    {"JC1207", "job cannot reach that state",
     "The job ended in another way than the one waited for.",
     "`jobctl show JOB` says how it ended."},
    {"JC1208", "no rank runs",
     "No rank of the job runs at the moment, so no signal or question can reach one.",
     "`jobctl why JOB` says where it is."},
    {"JC1209", "too many jobs",
     "The coordinator already holds as many queued and running jobs as it may.",
     "Submit again when some have ended."},
    {"JC1210", "no record of a rank",
     "No rank said what it is doing: the program is not on the trainer SDK, its processes are "
     "stopped, or the directory holds no records.",
     "`jobctl stack JOB --wait 60s`; `jobctl show JOB` says where the ranks run."},
    {"JC1211", "not part of the job",
     "The job has no such rank or attempt, or never ran on that node.",
     "`jobctl show JOB` lists its attempts, ranks and nodes."},
    {"JC1301", "coordinator unreachable", "The configured coordinator does not answer.",
     "Check the address with `jobctl context show`, and that muster-coordinator runs there. "
     "`jobctl context use "
     "private` works on this machine alone."},
    {"JC1302", "versions do not fit",
     "Two sides speak different versions of the protocol. A coordinator takes older workers and "
     "clients as far as the message says, and none that is newer than itself.",
     "Upgrade the coordinator first, then workers and clients; `jobctl version` shows both."},
    {"JC1303", "private coordinator did not start",
     "The private coordinator ended, or did not answer in time.",
     "Read its log, named in the message."},
    {"JC1304", "socket is not safe",
     "The directory of the coordinator's socket belongs to someone else or is open to others, or "
     "another user's process answers there: it would get your jobs with their environment. "
     "Nothing was sent.",
     "Remove the directory, or set JOBCTL_RUNTIME_DIR to one of your own with mode 0700. With "
     "`--server unix:/PATH`: ask whoever runs the coordinator to keep its socket in a directory "
     "that nobody else can write to."},
    {"JC1305", "program missing", "A program of Muster is not where jobctl looks for it.",
     "Install all of jobctl, muster-coordinator, muster-worker and muster-shim in one directory."},
    {"JC1306", "only for a private coordinator",
     "The command concerns the private coordinator of this machine.",
     "`jobctl context use private`, or leave out --server and --context."},
    {"JC1307", "connection lost", "The connection to the coordinator ended in the middle.",
     "The job is not affected unless it was attached; `jobctl show JOB`, `jobctl logs -f JOB`."},
    {"JC1308", "coordinator is overloaded", "A queue of the coordinator is full.",
     "Try again in a moment."},
    {"JC1309", "cannot listen",
     "The coordinator's socket or port cannot be used: taken, too long, or not allowed.",
     "Stop what uses it (the message names it), or name another --socket or --listen."},
    {"JC1310", "older coordinator", "The node has obeyed a newer coordinator than this one.",
     "Start the coordinator on the newest data directory."},
    {"JC1311", "too many connections",
     "More connections are open at the coordinator than its descriptors allow, or many that say "
     "nothing.",
     "Find who opens them (`ss -tnp`), or raise the coordinator's limit of open files "
     "(LimitNOFILE, `ulimit -n`)."},
    {"JC1312", "somebody else's coordinator",
     "Another user's process connected to a private coordinator and was turned away.",
     "Each user has a private coordinator of their own; share one with muster-coordinator "
     "--listen."},
    {"JC1401", "no such node", "No node of this name is registered.",
     "`jobctl nodes ls` lists them."},
    {"JC1402", "job can never fit",
     "No set of the registered nodes, even if all were free, could hold the job.",
     "Ask for less (the message names the largest that fits), or --queue-anyway and add nodes."},
    {"JC1403", "node is alive", "A node that still reports cannot be declared dead.",
     "`jobctl nodes drain NODE`, or stop its worker first."},
    {"JC1404", "node name taken", "Another worker of this name is connected.",
     "Start this one with another --name and --state-dir, or stop the other."},
    {"JC1405", "too many nodes", "The coordinator already has as many nodes as it may.",
     "`jobctl nodes rm NODE` those that are gone for good, or use a second coordinator."},
    {"JC1407", "bad node name",
     "A node's name needs 1 to 100 bytes of UTF-8 without control characters.",
     "Start muster-worker with another --name."},
    {"JC1408", "bad facts of a node",
     "A worker says something of its node that is out of range: a text, or its devices.",
     "Start muster-worker of the coordinator's own release there."},
    {"JC1411", "node moved while it may hold ranks",
     "A worker on another machine took the name of a node whose ranks may still run where it was.",
     "Wait until they count as stopped, or `jobctl nodes declare-dead NODE` if that machine is "
     "off."},
    {"JC1412", "node cannot be removed",
     "A node that is connected would register again; one whose ranks may still run is not "
     "forgotten.",
     "Stop its muster-worker; if its ranks may still run and the machine is off, `jobctl nodes "
     "declare-dead NODE`."},
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
     "Run the command again; a name that leads outside comes from no sound coordinator."},
    {"JC1505", "no such file in the checkpoint", "The checkpoint has no file of this name.",
     "`jobctl ckpt show JOB` lists its files."},
    {"JC1506", "checkpoint in use", "An attempt is starting from this checkpoint just now.",
     "Try again when it runs."},
    {"JC1601", "file cannot be written", "A file or directory could not be made or written.",
     "Check the path, its permissions and the free space (`df`)."},
    {"JC1602", "data cannot be trusted",
     "The coordinator's database, logs or metrics are damaged, cut off, or the disk refused to "
     "keep them. Nothing that "
     "was acknowledged is thrown away.",
     "Check the disk; restore the data directory from a backup, or start with an empty "
     "--data-dir."},
    {"JC1603", "database of another version",
     "The database was written by a newer version, or by another program.",
     "Start the version of muster-coordinator that wrote it, or name another --data-dir."},
    {"JC1604", "data directory in use", "Another muster-coordinator holds the data directory.",
     "Stop it (the message names its pid), or name another --data-dir."},
    {"JC1605", "disk full",
     "The coordinator's disk is full: new jobs are refused, running jobs go on. A private "
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
     "stream is refused, all others go on.",
     "Look for a damaged spool or disk on the node that the message names, or for a program that "
     "is "
     "not Muster's."},
    {"JC1612", "no free descriptor",
     "The coordinator has as many files and connections open as it may. It waits, and goes on when "
     "some are closed; nothing is lost.",
     "Raise its limit of open files (LimitNOFILE in the unit, `ulimit -n`)."},
    {"JC1620", "damaged on disk",
     "Checksums show that bytes of logs or metrics changed on the coordinator's disk after they "
     "were written. What a worker still has of them is sent again; the rest is a marked gap, and "
     "what follows is served.",
     "Look at the disk (SMART, the kernel's log); `muster-coordinator check` reads everything."},
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
