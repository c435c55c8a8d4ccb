// What a model's data parallelism does when its parameters change after prepare(). Training thread.
#include "muster/parallel/data_parallel.h"

#include <sstream>
#include <utility>

#include "parallel/call_name.h"
#include "parallel/data_parallel_state.h"

namespace muster {
namespace {

constexpr size_t kChangesNamed = 3;

// "'a.weight' requires gradients, 'a.bias' requires gradients, … (5 in all)".
std::string some_changes(const std::vector<ParameterFacts::Change>& changes) {
  std::string text;
  for (size_t i = 0; i < changes.size() && i < kChangesNamed; ++i) {
    text += (i == 0 ? "" : ", ") + changes[i].what;
  }
  return changes.size() > kChangesNamed
             ? text + ", … (" + std::to_string(changes.size()) + " in all)"
             : text;
}

// All of them, to compare.
std::string all_changes(const std::vector<ParameterFacts::Change>& changes) {
  std::string text;
  for (const ParameterFacts::Change& change : changes) text += change.what + "\n";
  return text;
}

// The first lines that differ.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream of_a(a), of_b(b);
  std::string line_a, line_b;
  do {
    if (!std::getline(of_a, line_a)) line_a = "nothing more";
    if (!std::getline(of_b, line_b)) line_b = "nothing more";
  } while (line_a == line_b);
  return {line_a, line_b};
}

}  // namespace

void DataParallel::State::require_same_changes(
    const std::vector<ParameterFacts::Change>& changes) const {
  const std::string named = some_changes(changes);
  const std::string whole = all_changes(changes);
  // What the others read if they have not changed theirs, and call something else.
  const std::string call = named + " since the last forward, here";
  {
    const CallName name(call);
    const std::vector<std::string> all = all_gather_strings(group, whole);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      const auto [first, other] = first_difference(all[0], all[rank]);
      throw CommunicationError(
          "the ranks changed different parameters of a prepared model. Rank 0: " + first +
          "; rank " + std::to_string(rank) + ": " + other +
          ": make the same changes on all ranks, before the same forward");
    }
  }
  for (const ParameterFacts::Change& change : changes) {
    if (change.refused.empty()) continue;
    throw Error("a prepared model's parameter changed in a way that training cannot follow: " +
                change.what + "; " + change.refused);
  }
  if (join.enabled) {
    throw Error(named +
                ": inside JoinUnevenInputs, where ranks that are done cannot follow: change "
                "parameters outside of it");
  }
}

void DataParallel::State::train_as_marked(const std::shared_ptr<State>& state) {
  state->parameters = trained_of(state->all);
  state->sparse = sparse_flags(*state->module, state->parameters);
  if (state->group) require_collective_types(*state, state->by_buckets);
  if (!state->by_buckets) return;
  // Reports what the last backward left unreduced.
  if (state->reducer) state->rebuild_buckets();
  if (state->parameters.empty()) {
    state->logger.reset();
    state->reducer.reset();
    return;
  }
  state->reset_reducer(state->first_buckets());
  watch_gradients(state);
}

bool DataParallel::follow_parameters() {
  State& state = *state_;
  if (!state.facts.changed()) return false;
  const std::vector<ParameterFacts::Change> changes = state.facts.changes(state.all);
  if (!changes.empty()) {
    state.require_same_changes(changes);
    State::train_as_marked(state_);
  }
  state.facts.read(state.all, state.sharded);
  return !changes.empty();
}

}  // namespace muster
