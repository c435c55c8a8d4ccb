// Which of a job's metrics its row shows.
#include "coordinator/stores/newest_metrics.h"

#include <gtest/gtest.h>

#include "coordinator/findings/loss_name.h"

namespace muster::coordinator {
namespace {

TEST(NewestMetricsTest, ALossIsWhatIsCalledOne) {
  for (const char* name :
       {"loss", "Loss", "train_loss", "Loss/train", "eval/loss", "loss/train/step",
        "train_loss_epoch", "train.loss", "loss_mean", "validation loss"}) {
    EXPECT_TRUE(IsLossName(name)) << name;
  }
  for (const char* name : {"", "loss_scale", "glossary", "lossless", "losses_seen", "lr", "step",
                           "grad_norm", "loss_scaler/growth", "packet_loss_rate", "/", "_"}) {
    EXPECT_FALSE(IsLossName(name)) << name;
  }
}

}  // namespace
}  // namespace muster::coordinator
