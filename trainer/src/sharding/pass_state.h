// The state of a sharded model between its passes: one value, and a table of transitions. Pure: no
// LibTorch, no thread.
//
//               forward  forward ends:      backward  gradient  gradients  no
//               begins   graph     none     begins    arrives   done       gradient
//   resting     forward  backward  resting  foreign   waiting   -          -
//   waiting     -        backward  waiting  foreign   waiting   resting    -
//   forward     forward  backward  resting  foreign   again     -          -
//   again       again    backward  backward backward  again     resting    again
//   backward    again    backward  backward backward  backward  resting    backward
//   foreign     again    backward  foreign  foreign   foreign   resting    resting
//
// waiting: gradients_waiting; again: forward_again; foreign: foreign_backward. "-" is a mistake of
// the engine: std::logic_error.
#pragma once

#include <cstdint>

namespace muster {

enum class PassState : std::uint8_t {
  resting,            // no graph is outstanding; with zero3 no parameter has memory
  gradients_waiting,  // resting, but a loss.backward() left gradients to reduce
  forward,            // in a forward, or one that threw
  forward_again,      // in a forward while a graph is outstanding
  backward,           // a graph is outstanding: its backward may run now, later or never
  foreign_backward,   // Accelerator::backward runs without a graph of this model, as far as known:
                      // the loss of another model, or a graph that was retained
};

enum class PassEvent : std::uint8_t {
  forward_begins,
  forward_ends_with_graph,
  forward_ends_without_graph,  // torch::NoGradGuard
  backward_begins,  // Accelerator::backward; loss.backward() itself is seen by its gradients
  gradient_arrives,
  gradients_done,    // reduced, and given to the shards
  no_gradient_came,  // asked for them, and there were none
};

// Throws std::logic_error where the table has no next state.
PassState next_state(PassState state, PassEvent event);

// Whether gradients may have to be reduced before the next step or forward.
constexpr bool gradients_are_due(PassState state) {
  return state != PassState::resting && state != PassState::forward;
}
// Whether an operator may unshard what it reads (zero3).
constexpr bool unshards_on_use(PassState state) {
  return state != PassState::resting && state != PassState::gradients_waiting;
}
constexpr bool in_forward(PassState state) {
  return state == PassState::forward || state == PassState::forward_again;
}
constexpr bool in_backward(PassState state) {
  return state == PassState::backward || state == PassState::foreign_backward;
}

const char* name_of(PassState state);
const char* name_of(PassEvent event);

}  // namespace muster
