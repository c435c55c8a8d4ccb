// Makes the DataParallel of a model; apart from the public header because it names c10d.
#pragma once

#include <memory>

#include "muster/parallel/data_parallel.h"
#include "parallel/process_group.h"

namespace muster {

enum class Reducing {
  by_buckets,   // c10d's reducer, while backward runs
  by_somebody,  // not here: gradients are left as backward makes them
};

// Collective. Checks that all ranks built the same model, sends rank 0's parameters and buffers to
// all (those that have memory), and hooks a reducer to the parameters. With a null group only the
// frame is made. The module must be owned by a std::shared_ptr, as LibTorch's holders do; the
// result shares it. Throws CommunicationError that names the first parameter that differs.
std::unique_ptr<DataParallel> make_data_parallel(torch::nn::Module& module,
                                                 const ProcessGroupPtr& group,
                                                 const DataParallelOptions& options,
                                                 Reducing reducing = Reducing::by_buckets);

}  // namespace muster
