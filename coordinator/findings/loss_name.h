// Which metrics are losses. Pure; any thread.
#pragma once

#include <string_view>

namespace muster::coordinator {

// Whether a metric of this name is a loss. Users choose the names: "loss", "train_loss",
// "Loss/train" (PyTorch's tutorials), "eval/loss", "train_loss_epoch" (Lightning) are; "loss_scale"
// and "glossary" are not.
bool IsLossName(std::string_view name);

}  // namespace muster::coordinator
