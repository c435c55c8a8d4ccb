// Libraries that must be rejected, selected by UNFIT: each is a libmuster_trainer_NAME.so with one
// fault. Without LibTorch.
#include <cstdlib>

#include "muster/device/device_plugin.h"

#define OLD_ABI 1
#define OLD_TORCH 2
#define NO_FUNCTION 3
#define UNDEFINED_SYMBOL 4
#define UNLABELLED_ABI 5
#define OTHER_NAME 6
#define INCOMPLETE 7
#define NO_TABLE 8

#if UNFIT == OLD_ABI
extern "C" const char muster_device_plugin_label[];
const char muster_device_plugin_label[] = "muster-device-plugin abi=99 torch=" TORCH_TEXT;
#elif UNFIT == OLD_TORCH
extern "C" const char muster_device_plugin_label[];
const char muster_device_plugin_label[] = "muster-device-plugin abi=1 torch=1.13.1";
#endif

#if UNFIT == OLD_ABI || UNFIT == OLD_TORCH
// No code of an incompatible library may run.
[[maybe_unused]] static const int ran = (std::_Exit(70), 0);
#elif UNFIT == UNDEFINED_SYMBOL
extern "C" int a_function_of_another_libtorch();
[[maybe_unused]] static const int ran = a_function_of_another_libtorch();
#endif

#if UNFIT != NO_FUNCTION
static const MusterDeviceTable table = [] {
  MusterDeviceTable made{};
  made.abi_version = UNFIT == UNLABELLED_ABI ? 98 : MUSTER_DEVICE_ABI;
  made.torch_version = TORCH_TEXT;
  made.name = UNFIT == INCOMPLETE ? "incomplete" : "elsewhere";
  return made;
}();
extern "C" const MusterDeviceTable* muster_device_plugin(void) {
  return UNFIT == NO_TABLE ? nullptr : &table;
}
#endif
