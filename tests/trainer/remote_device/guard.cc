// Devices, streams and events, as LibTorch asks for them.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "memory.h"
#include "registration.h"
#include "streams.h"

namespace remote {
namespace {

struct Event {
  MomentPtr moment;  // of the last record
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Device getDevice() const override { return current_device(); }
  void setDevice(c10::Device device) const override { exchangeDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { exchangeDevice(device); }
  c10::Device exchangeDevice(c10::Device device) const override {
    return device.has_index() ? exchange_device(device.index()) : current_device();
  }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(index_of(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return default_stream(index_of(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high_priority*/) const override {
    return pooled_stream(index_of(device));
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    return new_stream(index_of(device));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  bool queryStream(const c10::Stream& stream) const override { return is_idle(stream); }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream); }
  void synchronizeDevice(c10::DeviceIndex device) const override { synchronize_device(device); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    device_allocator().recordStream(data, stream);
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->moment = remote::record(stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) wait_on_stream(stream, static_cast<Event*>(event)->moment);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<Event*>(event)->moment->reached();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) static_cast<Event*>(event)->moment->wait();
    require_no_failure();
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }

 private:
  static c10::DeviceIndex index_of(c10::Device device) {
    return device.has_index() ? device.index() : current_device().index();
  }
};

}  // namespace

void register_guard() {
  static const Guard guard;
  static const c10::impl::DeviceGuardImplRegistrar registrar(kType, &guard);
}

}  // namespace remote
