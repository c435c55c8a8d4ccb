// The function table through which the trainer SDK uses a kind of device. It allows adding, at run
// time, a kind that the program was not built for: a library libmuster_trainer_NAME.so that exports
//
//   const MusterDeviceTable* muster_device_plugin(void);
//
// is loaded if AcceleratorOptions::device or MUSTER_DEVICE is NAME. It is searched for in the
// directories of MUSTER_PLUGIN_PATH (separated by ':'), next to the executable, and on the dynamic
// loader's path. It links LibTorch's shared libraries but not the SDK: this header and
// device_plugin_torch.h, which fills in most of the table, are all it needs. docs/device-plugins.md
// has an example.
//
// The table is plain C, and its first two fields have the same offsets in every version, so that a
// plug-in for another ABI or LibTorch is rejected with a clear message. The `void*` pointers refer
// to LibTorch objects, whose layout changes with LibTorch's minor version: that must match.
//
// Every function returns 0 on success, and otherwise a nonzero number after writing the reason to
// `error`. It must not throw. The SDK calls one at a time, from the training thread, unless stated
// otherwise. `index` counts the devices visible to this process, from 0.
#pragma once

#include <stdint.h>

#define MUSTER_DEVICE_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

// NUL-terminated; one or two sentences that name the offending value and what to change.
typedef struct MusterDeviceError {
  char text[1024];
} MusterDeviceError;

// Element types, used as bits of a set: 1u << MUSTER_FLOAT32. Complex types count as their
// component type.
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

// Collectives. The reductions are sum, minimum and maximum.
typedef enum MusterCollective {
  MUSTER_ALL_REDUCE = 0,
  MUSTER_REDUCE_SCATTER = 1,
  MUSTER_ALL_GATHER = 2,
  MUSTER_BROADCAST = 3,
  MUSTER_ALL_TO_ALL = 4,
  MUSTER_COLLECTIVE_COUNT = 5
} MusterCollective;

// In bytes; -1: the device does not report it.
typedef struct MusterDeviceMemory {
  int64_t allocated;       // held by tensors
  int64_t allocated_peak;  // since the start or reset_peak_memory
  int64_t reserved;        // allocated, plus what the allocator caches
  int64_t reserved_peak;
  int64_t free;  // on the whole device, across all processes
  int64_t total;
} MusterDeviceMemory;

// What a collectives backend is created for. Everything it points to lives until make_backend
// returns.
typedef struct MusterBackendRequest {
  const void* store;  // const c10::intrusive_ptr<c10d::Store>*, used by this group and device only
  int32_t rank;       // in the group, which may be a subset of the job's ranks
  int32_t world_size;
  int32_t device_index;  // as passed to set_current
  int64_t timeout_ms;    // of one collective
  // The network that the SDK's Gloo uses: addresses of this host, or interface names if
  // network_is_interfaces, separated by ','.
  const char* network;
  int32_t network_is_interfaces;
} MusterBackendRequest;

typedef struct MusterDeviceTable {
  uint32_t abi_version;       // MUSTER_DEVICE_ABI
  const char* torch_version;  // TORCH_VERSION that the plug-in was compiled with

  const char* name;     // the NAME of the library's file
  int32_t device_type;  // of its tensors: a c10::DeviceType

  // ---- The device ----

  // Loads what the device needs; called once per process, before all other functions. Must not
  // claim a device. May be null.
  int (*init)(MusterDeviceError* error);
  // Releases the devices; called once on a normal exit (exit, or return from main), before the
  // static objects that existed at init are destroyed. Must not wait for other ranks. May be null.
  void (*finalize)(void);
  // How many devices this process sees; 0 is not an error. The ranks of a host get one each, by
  // LOCAL_RANK; INT32_MAX means that any number of ranks can share what there is, as on a CPU.
  int (*count)(int32_t* count, MusterDeviceError* error);
  // Makes `index` the device that this rank computes on.
  int (*set_current)(int32_t index, MusterDeviceError* error);
  // Waits until all streams of the device are idle. Null: there is nothing to wait for.
  int (*synchronize)(int32_t index, MusterDeviceError* error);

  // ---- Collectives ----

  // The hardware series, which determines the element types, as people know it ("Atlas A2"); called
  // after set_current. The string lives as long as the process.
  const char* (*series)(int32_t index);
  // The set of element types that a MusterCollective supports on this device; called after
  // set_current.
  uint32_t (*collective_dtypes)(int32_t index, int32_t collective);
  // Writes to `backend`, which points to a null c10::intrusive_ptr<c10d::Backend>. Collective over
  // the group. On a rank that exits by an exception, the SDK calls Backend::abort and shuts down
  // the TCP connections to the addresses (a sockaddr) that were exchanged through the request's
  // store. Null: Gloo is used, which supports CPU and CUDA tensors.
  int (*make_backend)(const MusterBackendRequest* request, void* backend, MusterDeviceError* error);

  // ---- Random numbers: the default generator of a device ----

  int (*seed)(int32_t index, uint64_t seed, MusterDeviceError* error);
  // The generator's state in an opaque format, of the same size at each call. Always sets `size`;
  // writes the bytes if they fit into `capacity`.
  int (*random_state)(int32_t index, uint8_t* bytes, uint64_t capacity, uint64_t* size,
                      MusterDeviceError* error);
  // Fails if the bytes are not such a state.
  int (*set_random_state)(int32_t index, const uint8_t* bytes, uint64_t size,
                          MusterDeviceError* error);

  // ---- Memory ----

  int (*memory)(int32_t index, MusterDeviceMemory* memory, MusterDeviceError* error);
  // Resets allocated_peak and reserved_peak to the current use. Null: there are no peaks.
  int (*reset_peak_memory)(int32_t index, MusterDeviceError* error);
  // Returns cached memory that no tensor uses to the device. Null: nothing is cached.
  int (*empty_cache)(MusterDeviceError* error);
} MusterDeviceTable;

// The only function that a plug-in exports. The table must live and stay unchanged until the
// process exits.
typedef const MusterDeviceTable* (*MusterDevicePluginFunction)(void);

#ifdef __cplusplus
}
#endif
