// The table by which the trainer SDK uses a kind of device, so that one that this program was not
// built for can be added at run time: a library libmuster_trainer_NAME.so that exports
//
//   const MusterDeviceTable* muster_device_plugin(void);
//
// is loaded when AcceleratorOptions::device or MUSTER_DEVICE says NAME. It is looked for in the
// directories of MUSTER_PLUGIN_PATH (separated by ':'), beside the executable, and where the
// system's loader looks. It links LibTorch's shared libraries and none of the SDK: this header and
// device_plugin_torch.h, which writes most of the table, are all it needs. docs/device-plugins.md
// shows one.
//
// The table is plain C, and its first two fields have the same place in every version of it, so
// that a plug-in for another ABI or LibTorch is refused with words. What stands behind `void*` are
// objects of LibTorch, whose layout changes with its minor version: that must be the same.
//
// Of each function: returns 0 when done, else another number after writing the reason to `error`.
// No exception may leave it. Called from the training thread, one at a time, unless said otherwise.
// `index` counts the devices that this process sees, from 0.
#pragma once

#include <stdint.h>

#define MUSTER_DEVICE_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

// NUL-terminated; one or two sentences that name the value met and what to change.
typedef struct MusterDeviceError {
  char text[1024];
} MusterDeviceError;

// Types of elements, as bits of a set: 1u << MUSTER_FLOAT32. Complex numbers count as their parts.
typedef enum MusterDtype {
  MUSTER_BOOL = 0,
  MUSTER_UINT8 = 1,
  MUSTER_INT8 = 2,
  MUSTER_INT16 = 3,
  MUSTER_UINT16 = 4,
  MUSTER_INT32 = 5,
  MUSTER_UINT32 = 6,
  MUSTER_INT64 = 7,
  MUSTER_UINT64 = 8,
  MUSTER_FLOAT16 = 9,
  MUSTER_BFLOAT16 = 10,
  MUSTER_FLOAT32 = 11,
  MUSTER_FLOAT64 = 12,
  MUSTER_FLOAT8_E4M3 = 13,
  MUSTER_FLOAT8_E5M2 = 14,
  MUSTER_DTYPE_COUNT = 15
} MusterDtype;

// What the ranks do together. The reductions are sums, minima and maxima.
typedef enum MusterCollective {
  MUSTER_ALL_REDUCE = 0,
  MUSTER_REDUCE_SCATTER = 1,
  MUSTER_ALL_GATHER = 2,
  MUSTER_BROADCAST = 3,
  MUSTER_ALL_TO_ALL = 4,
  MUSTER_COLLECTIVE_COUNT = 5
} MusterCollective;

// In bytes; -1: the device does not say.
typedef struct MusterDeviceMemory {
  int64_t allocated;       // held by tensors
  int64_t allocated_peak;  // since the start or reset_peak_memory
  int64_t reserved;        // allocated and what the allocator keeps for later
  int64_t reserved_peak;
  int64_t free;  // of the device as a whole, whoever uses the rest
  int64_t total;
} MusterDeviceMemory;

// What a backend of collectives is made for. All of it lives until make_backend returns.
typedef struct MusterBackendRequest {
  const void* store;  // const c10::intrusive_ptr<c10d::Store>*, of this group and device alone
  int32_t rank;       // of the group, which may be a part of the job
  int32_t world_size;
  int32_t device_index;  // that set_current got
  int64_t timeout_ms;    // of one collective
  // The network that the SDK's Gloo uses: addresses of this host or names of interfaces, separated
  // by ','.
  const char* network;
  int32_t network_is_interfaces;
} MusterBackendRequest;

typedef struct MusterDeviceTable {
  uint32_t abi_version;       // MUSTER_DEVICE_ABI
  const char* torch_version;  // TORCH_VERSION that the plug-in was compiled with

  const char* name;     // the NAME of the library's file
  int32_t device_type;  // of its tensors: a c10::DeviceType

  // ---- The device ----

  // Loads what the device needs; once per process, before all the others. Must not claim a device.
  // May be null.
  int (*init)(MusterDeviceError* error);
  // Lets go of the devices; once, when the process ends in order (exit, or main's return), before
  // the static objects that existed at init are destroyed. May be null. Must not wait for other
  // ranks.
  void (*finalize)(void);
  // How many devices this process sees; 0 is not an error. The ranks of a host get one each, by
  // LOCAL_RANK; INT32_MAX says that they share what there is.
  int (*count)(int32_t* count, MusterDeviceError* error);
  // The rank computes on device `index` from now on.
  int (*set_current)(int32_t index, MusterDeviceError* error);
  // Waits until all streams of the device have done their work. Null: there is none to wait for.
  int (*synchronize)(int32_t index, MusterDeviceError* error);

  // ---- Collectives ----

  // A name for what decides the types of elements, as people know it ("Atlas A2"); after
  // set_current. Lives as long as the process.
  const char* (*series)(int32_t index);
  // The set of element types that a MusterCollective takes on this device; after set_current.
  uint32_t (*collective_dtypes)(int32_t index, int32_t collective);
  // Writes to `backend`, a c10::intrusive_ptr<c10d::Backend>* that is null. All ranks of the group
  // call it at the same point. For a rank that leaves by an exception the SDK calls
  // Backend::abort and breaks the TCP connections to addresses (a sockaddr) that were told through
  // the request's store. Null: Gloo does the work, which is possible for tensors of the CPU and
  // CUDA.
  int (*make_backend)(const MusterBackendRequest* request, void* backend, MusterDeviceError* error);

  // ---- Random numbers: the default generator of a device ----

  int (*seed)(int32_t index, uint64_t seed, MusterDeviceError* error);
  // The generator's state in a format of its own, the same number of bytes at each call. Always
  // sets `size`; writes the bytes where `capacity` has room for them.
  int (*random_state)(int32_t index, uint8_t* bytes, uint64_t capacity, uint64_t* size,
                      MusterDeviceError* error);
  // Fails for bytes that are no such state.
  int (*set_random_state)(int32_t index, const uint8_t* bytes, uint64_t size,
                          MusterDeviceError* error);

  // ---- Memory ----

  int (*memory)(int32_t index, MusterDeviceMemory* memory, MusterDeviceError* error);
  // Starts allocated_peak and reserved_peak again at what is in use now. Null: there are no peaks.
  int (*reset_peak_memory)(int32_t index, MusterDeviceError* error);
  // Returns memory that no tensor uses to the device. Null: nothing is kept.
  int (*empty_cache)(MusterDeviceError* error);
} MusterDeviceTable;

// The one function of a plug-in. The table lives and stays the same until the process ends.
typedef const MusterDeviceTable* (*MusterDevicePluginFunction)(void);

#ifdef __cplusplus
}
#endif
