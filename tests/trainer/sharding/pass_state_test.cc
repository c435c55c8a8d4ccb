// The state of a sharded model between its passes, what its stage shards, and which unit comes
// next.
#include "sharding/pass_state.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "sharding/stage_policy.h"
#include "sharding/unit_order.h"

namespace muster {
namespace {

using enum PassState;
using enum PassEvent;

constexpr PassState kStates[] = {resting,       gradients_waiting, forward,
                                 forward_again, backward,          foreign_backward};

PassState after(std::initializer_list<PassEvent> events) {
  PassState state = resting;
  for (const PassEvent event : events) state = next_state(state, event);
  return state;
}

TEST(PassState, AStepOfTrainingComesBackToRest) {
  EXPECT_EQ(after({forward_begins}), forward);
  EXPECT_EQ(after({forward_begins, forward_ends_with_graph}), backward);
  EXPECT_EQ(after({forward_begins, forward_ends_with_graph, backward_begins, gradient_arrives}),
            backward);
  EXPECT_EQ(after({forward_begins, forward_ends_with_graph, backward_begins, gradient_arrives,
                   gradients_done}),
            resting);
}

TEST(PassState, AnEvaluationLeavesAnOutstandingGraphAlone) {
  EXPECT_EQ(after({forward_begins, forward_ends_without_graph}), resting);
  EXPECT_EQ(
      after({forward_begins, forward_ends_with_graph, forward_begins, forward_ends_without_graph}),
      backward);
}

TEST(PassState, ABackwardOfAnotherModelsLossChangesNothing) {
  EXPECT_EQ(after({backward_begins}), foreign_backward);
  EXPECT_EQ(after({backward_begins, no_gradient_came}), resting);
  EXPECT_EQ(after({forward_begins, forward_ends_with_graph, backward_begins, no_gradient_came}),
            backward);
}

TEST(PassState, GradientsOfABackwardThatRanByItselfAreDueButNothingIsUnsharded) {
  const PassState state = after({gradient_arrives});
  EXPECT_EQ(state, gradients_waiting);
  EXPECT_TRUE(gradients_are_due(state));
  EXPECT_FALSE(unshards_on_use(state));
  EXPECT_EQ(next_state(state, gradients_done), resting);
}

TEST(PassState, AForwardThatThrewIsBegunAgain) {
  EXPECT_EQ(after({forward_begins, forward_begins, forward_ends_without_graph}), resting);
  EXPECT_EQ(after({forward_begins, forward_ends_with_graph, forward_begins, forward_begins,
                   forward_ends_without_graph}),
            backward);
}

TEST(PassState, AForwardWithGradientsAlwaysWaitsForItsBackward) {
  for (const PassState state : kStates) {
    EXPECT_EQ(next_state(state, forward_ends_with_graph), backward) << name_of(state);
  }
}

TEST(PassState, WhereGradientsAreDueTheyCanBeDoneAndNowhereElse) {
  for (const PassState state : kStates) {
    if (gradients_are_due(state)) {
      EXPECT_EQ(next_state(state, gradients_done), resting) << name_of(state);
    } else {
      EXPECT_THROW(next_state(state, gradients_done), std::logic_error) << name_of(state);
      EXPECT_THROW(next_state(state, no_gradient_came), std::logic_error) << name_of(state);
    }
  }
  EXPECT_THROW(next_state(gradients_waiting, forward_begins), std::logic_error);
  EXPECT_THROW(next_state(gradients_waiting, no_gradient_came), std::logic_error);
}

TEST(StagePolicy, EachStageShardsWhatTheOneBeforeDoesAndMore) {
  EXPECT_FALSE(policy_of(ZeroStage::zero1).shards_gradients);
  EXPECT_TRUE(policy_of(ZeroStage::zero2).shards_gradients);
  EXPECT_FALSE(policy_of(ZeroStage::zero2).shards_parameters);
  EXPECT_TRUE(policy_of(ZeroStage::zero3).shards_gradients);
  EXPECT_TRUE(policy_of(ZeroStage::zero3).shards_parameters);
}

TEST(UnitOrder, AsksForWhatThePassBeforeAskedForNext) {
  UnitOrder order;
  order.guess({2, 1, 0});
  EXPECT_EQ(order.after(2), 1);
  for (const int unit : {2, 0, 1, 0}) order.visit(unit);
  order.restart();
  order.restart();  // a pass without units is not remembered
  order.visit(2);
  EXPECT_EQ(order.after(2), 0);
  order.visit(0);
  EXPECT_EQ(order.after(0), 1) << "by its place, not by its first occurrence";
  order.visit(1);
  order.visit(0);
  EXPECT_EQ(order.after(0), 1) << "after the last one: where it stood first";
  EXPECT_EQ(order.after(7), -1);
}

}  // namespace
}  // namespace muster
