// The table of pass_state.h.
#include "sharding/pass_state.h"

#include <array>
#include <optional>
#include <stdexcept>
#include <string>

namespace muster {
namespace {

using enum PassState;
using Next = std::optional<PassState>;
constexpr Next none = std::nullopt;

// By event, in the order of PassEvent.
using Row = std::array<Next, 7>;

// By state, in the order of PassState.
constexpr std::array<Row, 6> kTable = {{
    {forward, backward, resting, foreign_backward, gradients_waiting, none, none},
    {none, backward, gradients_waiting, foreign_backward, gradients_waiting, resting, none},
    {forward, backward, resting, foreign_backward, forward_again, none, none},
    {forward_again, backward, backward, backward, forward_again, resting, forward_again},
    {forward_again, backward, backward, backward, backward, resting, backward},
    {forward_again, backward, foreign_backward, foreign_backward, foreign_backward, resting,
     resting},
}};

}  // namespace

PassState next_state(PassState state, PassEvent event) {
  const Next next = kTable[static_cast<size_t>(state)][static_cast<size_t>(event)];
  if (next) return *next;
  throw std::logic_error(std::string("a sharded model is ") + name_of(state) + " when " +
                         name_of(event) + ": this is a mistake of the SDK, please report it");
}

const char* name_of(PassState state) {
  constexpr std::array<const char*, 6> kNames = {
      "resting", "gradients_waiting", "forward", "forward_again", "backward", "foreign_backward"};
  return kNames[static_cast<size_t>(state)];
}

const char* name_of(PassEvent event) {
  constexpr std::array<const char*, 7> kNames = {
      "forward_begins",  "forward_ends_with_graph", "forward_ends_without_graph",
      "backward_begins", "gradient_arrives",        "gradients_done",
      "no_gradient_came"};
  return kNames[static_cast<size_t>(event)];
}

}  // namespace muster
