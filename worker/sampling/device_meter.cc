#include "worker/sampling/device_meter.h"

namespace muster::worker {
namespace {

constexpr DeviceMetering kMeterings[] = {
    {"gpu", "/dev/nvidia", [] { return OpenNvidiaMeter(); }},
    {"npu", "/dev/davinci", [] { return OpenFileMeter(); }},
};

class FileMeter final : public DeviceMeter {
 public:
  void Measure(uint32_t /*index*/, v1::DeviceSample* /*sample*/) override {}
  bool IndexOfFile(uint32_t number, uint32_t* index) override {
    *index = number;
    return true;
  }
};

}  // namespace

std::span<const DeviceMetering> DeviceMeterings() { return kMeterings; }

const DeviceMetering* FindDeviceMetering(std::string_view kind) {
  for (const DeviceMetering& row : kMeterings) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

std::unique_ptr<DeviceMeter> OpenFileMeter() { return std::make_unique<FileMeter>(); }

}  // namespace muster::worker
