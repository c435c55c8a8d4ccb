// The series of Ascend devices and the element types of their collectives. Needs neither LibTorch
// nor CANN, so it is compiled and tested everywhere.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::ascend {

enum class Series {
  unknown,         // supports what all the others support
  atlas_training,  // Ascend 910A, 910ProA, 910B without a digit: the first generation
  atlas_a2,        // Ascend 910B1 to 910B4
  atlas_a3,        // Ascend 910_93xx
  atlas_300i_duo,  // Ascend 310P
  ascend_950
};

// From the name that aclrtGetSocName() gives: "Ascend910B2" is an Atlas A2.
Series series_of(std::string_view soc_name);

// For people: "Atlas training (910A)".
const char* series_name(Series series);

// The set of MusterDtype that a MusterCollective supports in both HCCL and torch_npu, which does
// not pass on unsigned integers of more than 8 bits. Source: HcclAllReduce, HcclReduceScatter,
// HcclAllGather, HcclBroadcast and HcclAlltoAll in CANN's HCCL reference, and
// kScalarTypeToHcclDataType in torch_npu's HCCL code.
uint32_t collective_dtypes(Series series, int32_t collective);

}  // namespace muster::ascend
