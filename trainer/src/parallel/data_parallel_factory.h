// Creates the DataParallel of a model; separate from the public header because it uses c10d.
#pragma once

#include <memory>

#include "muster/parallel/data_parallel.h"
#include "parallel/process_group.h"

namespace muster {

enum class Reducing {
  by_buckets,   // c10d's reducer, while backward runs
  by_somebody,  // not here: backward leaves the gradients unreduced
};

// Collective. Checks that all ranks built the same model, broadcasts rank 0's parameters and
// buffers (those that have memory), and attaches a reducer to the parameters. With a null group,
// does none of this. The module must be owned by a std::shared_ptr, as in LibTorch's holders; the
// result shares it. Throws CommunicationError naming the first parameter that differs.
std::unique_ptr<DataParallel> make_data_parallel(torch::nn::Module& module,
                                                 const ProcessGroupPtr& group,
                                                 const DataParallelOptions& options,
                                                 Reducing reducing = Reducing::by_buckets);

}  // namespace muster
