// Which of a run's metrics is its loss: one rule for lists, pages, charts, comparisons and findings.
// page/job/choose.js has the same rule, and tests/common/loss_names.json tests both. Pure; any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::common {

// Whether a metric of this name is a loss. Users choose the names: "loss", "train_loss",
// "Loss/train" (PyTorch's tutorials), "eval/loss", "train_loss_epoch" (Lightning) are; "loss_scale"
// and "glossary" are not.
bool IsLossName(std::string_view name);

// Of two losses of one run, whether `name` stands for it rather than `other`. In this order: "loss";
// "train/loss" in any spelling; other losses; those that name an evaluation ("eval_loss",
// "val/loss"). Among equals the shorter name, then the lower in bytes.
bool IsRatherTheLoss(std::string_view name, std::string_view other);

// The name that stands for the run; empty: none of them is a loss.
std::string LossOf(const std::vector<std::string>& names);

}  // namespace muster::common
