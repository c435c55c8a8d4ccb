// Every index and sum of the state is checked: each of these breaks one of them.
#include "coordinator/core/state/invariants.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/cluster_script.h"

namespace muster::coordinator {
namespace {

// Job 1 runs, 2 is told what it needs, 3 waits behind it.
ClusterState SoundState() {
  testing::ClusterScript script;
  for (const char* line : {"node a gpu:2", "node b gpu:2", "submit n=3 kind=gpu", "launch 1",
                           "submit n=2 kind=gpu", "submit n=2 kind=gpu"}) {
    script.Run(line);
  }
  return script.state();
}

TEST(Invariants, HoldOfAStateThatRulesMade) { EXPECT_EQ(BrokenInvariant(SoundState()), ""); }

TEST(Invariants, EachIsCheckedOfEachIndexAndSum) {
  const struct {
    const char* what;
    std::function<void(ClusterState&)> breaks;
    const char* says;
  } cases[] = {
      {"a queued job is not in the queue",
       [](auto& s) { s.queue.erase({.priority = 0, .job = 2}); },
       "job 2, QUEUED: the queue disagrees"},
      {"a running job is in the queue",
       [](auto& s) { s.queue.insert(QueuePlace{.priority = 0, .job = 1}); },
       "job 1, RUNNING: the queue disagrees"},
      {"a job that is not there waits",
       [](auto& s) { s.queue.insert(QueuePlace{.priority = 0, .job = 9}); },
       "the queue has a job that is not there"},
      {"its priority changed", [](auto& s) { s.jobs.Edit(2).mutable_spec()->set_priority(3); },
       "job 2, QUEUED: the queue disagrees"},
      {"a running job is not active", [](auto& s) { s.active.erase(1); },
       "the active jobs disagree"},
      {"a queued job is active", [](auto& s) { s.active.insert(3); }, "the active jobs disagree"},
      {"a job that is not there is active", [](auto& s) { s.active.insert(9); },
       "a job that is not there is active"},
      {"a job that waits is in no line",
       [](auto& s) { s.lines.begin()->second.erase({.priority = 0, .job = 2}); }, "is in no line"},
      {"a job is in another project's line",
       [](auto& s) {
         s.lines[{"toys", "gpu"}] = s.lines.begin()->second;
         s.lines.erase(s.lines.begin());
       },
       "in the line of others"},
      {"a job that was told something is forgotten", [](auto& s) { s.told.erase(2); },
       "what it was told disagrees: needs 2 gpu"},
      {"one behind others was told something", [](auto& s) { s.told.insert(3); },
       "what it was told disagrees: waits behind"},
      {"a running job steps aside", [](auto& s) { s.asides.jobs.insert(1); }, "it steps aside"},
      {"a live job counts as finished", [](auto& s) { s.finished.push_back(3); },
       "the finished jobs disagree"},
      {"a job has no timers", [](auto& s) { s.timers.erase(2); }, "it has no timers"},
      {"timers are left", [](auto& s) { s.timers[9]; }, "there are timers without a job"},
      {"a number is given twice", [](auto& s) { s.next_job_id = 3; }, "its number is not its own"},
      {"an older attempt is alive",
       [](auto& s) {
         *s.jobs.Edit(1).add_attempts() = s.jobs.at(1).attempts(0);
         s.jobs.Edit(1).mutable_attempts(1)->set_number(1);
         s.jobs.Edit(1).set_next_attempt(2);
       },
       "an older attempt is alive"},
      {"two attempts have a number", [](auto& s) { s.jobs.Edit(1).set_next_attempt(0); },
       "number is taken"},
      {"a rank has no place",
       [](auto& s) { s.jobs.Edit(1).mutable_attempts(0)->mutable_parts(1)->set_first_rank(0); },
       "the ranks on b are out of order"},
      {"a rank is missing", [](auto& s) { s.jobs.Edit(1).mutable_attempts(0)->set_world_size(4); },
       "its parts do not make up its ranks"},
      {"a record has files",
       [](auto& s) { s.jobs.Edit(1).add_checkpoints()->add_files()->set_path("x"); },
       "its record has the files of a checkpoint"},
      {"files are left", [](auto& s) { s.checkpoint_files[{.job = 9}]; },
       "files of job 9 are left"},
      {"bytes are not counted", [](auto& s) { s.holdings.bytes += 1; }, "do not add up"},
      {"an owner's bytes are not counted",
       [](auto& s) { s.holdings.owners.begin()->second.bytes += 1; }, "do not add up"},
      {"an owner's job is forgotten",
       [](auto& s) { s.holdings.owners.begin()->second.jobs.erase(2); }, "not counted"},
      {"a job has another owner", [](auto& s) { s.jobs.Edit(2).set_owner("user:eve"); },
       "job 2 is not one of"},
      {"a silent node is not counted", [](auto& s) { s.silent_nodes += 1; }, "miscounted"},
      {"a lost node is not counted", [](auto& s) { s.lost_nodes += 1; }, "miscounted"},
      {"facts are not counted", [](auto& s) { s.node_facts_bytes += 1; }, "facts do not add up"},
      {"a session is left", [](auto& s) { s.nodes.at("b").record.set_connected(false); },
       "connected without a session"},
      {"a node is gone under its ranks",
       [](auto& s) {
         s.node_facts_bytes -= s.nodes.at("b").record.facts().ByteSizeLong();
         s.due_nodes.Set("b", std::nullopt);
         s.kinds["gpu"] = 1;
         s.nodes.erase("b");
       },
       "runs on no node"},
      {"a device is in two gangs",
       [](auto& s) {
         v1::JobRecord& other = s.jobs.Edit(3);
         *other.add_attempts() = s.jobs.at(1).attempts(0);
         other.set_next_attempt(1);
         other.set_state(v1::JOB_STATE_RUNNING);
         s.queue.erase({.priority = 0, .job = 3});
         s.lines.begin()->second.erase({.priority = 0, .job = 3});
         s.active.insert(3);
         s.live_parts.Add(3, other.attempts(0));
         muster::coordinator::Occupy(s, other.attempts(0), true);
         s.due_jobs.Set(3, 0);
       },
       "is in job 1 and job 3"},
      {"a device in use is forgotten", [](auto& s) { s.nodes.at("a").used.clear(); },
       "in use on a are miscounted"},
      {"a kind is forgotten", [](auto& s) { s.kinds.clear(); }, "kinds of devices"},
      {"a part is not counted",
       [](auto& s) { s.jobs.Edit(1).mutable_attempts(0)->mutable_parts(0)->set_ended(true); },
       "miscounted"},
      {"an attempt's parts are not known",
       [](auto& s) { s.live_parts.Remove(1, s.jobs.at(1).attempts(0)); }, "miscounted"},
      {"parts of an attempt are left",
       [](auto& s) { s.live_parts.Add(2, s.jobs.at(1).attempts(0)); }, "miscounted"},
      {"a job is looked at too late",
       [](auto& s) {
         s.jobs.Edit(1).mutable_spec()->set_max_duration_ms(1);
         s.due_jobs.Set(1, std::nullopt);
       },
       "job 1, RUNNING: it is due"},
      {"a node is looked at too late", [](auto& s) { s.due_nodes.Set("a", std::nullopt); },
       "node a is due"},
      {"a job that is not there is due",
       [](auto& s) {
         s.due_jobs.Set(8, 1);
         s.due_jobs.Set(9, 1);
         s.due_jobs.Set(10, 1);
         s.due_jobs.Set(11, 1);
       },
       "what is not there is due"},
  };
  for (const auto& each : cases) {
    ClusterState state = SoundState();
    each.breaks(state);
    EXPECT_NE(BrokenInvariant(state).find(each.says), std::string::npos)
        << each.what << ": " << BrokenInvariant(state);
  }
}

}  // namespace
}  // namespace muster::coordinator
