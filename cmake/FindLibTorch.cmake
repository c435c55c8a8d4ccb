# Finds LibTorch below MUSTER_TORCH, or where TorchDirectory.cmake finds it: the directory of the torch Python package, or of a LibTorch
# distribution. Gives the target LibTorch::LibTorch and LibTorch_VERSION.
#
# Torch's own TorchConfig.cmake is not used: the CUDA wheel's asks for a whole CUDA toolkit, and
# Caffe2Config defines a false protobuf::libprotobuf. Nothing of gRPC or protobuf may share a target
# with this one: the wheel carries headers of an older protobuf.

set(MUSTER_TORCH "" CACHE PATH "Directory of the torch Python package or of a LibTorch distribution")

if(NOT MUSTER_TORCH)
  include("${CMAKE_CURRENT_LIST_DIR}/TorchDirectory.cmake")
  muster_torch_directory(MUSTER_TORCH)
endif()

find_path(LibTorch_INCLUDE_DIR torch/csrc/distributed/c10d/reducer.hpp
          PATHS "${MUSTER_TORCH}/include" NO_DEFAULT_PATH)
foreach(library torch torch_cpu c10)
  find_library(LibTorch_${library}_LIBRARY ${library} PATHS "${MUSTER_TORCH}/lib" NO_DEFAULT_PATH)
endforeach()
foreach(library torch_cuda c10_cuda)
  find_library(LibTorch_${library}_LIBRARY ${library} PATHS "${MUSTER_TORCH}/lib" NO_DEFAULT_PATH)
  mark_as_advanced(LibTorch_${library}_LIBRARY)
endforeach()
# The wheel has the code of gloo inside libtorch_cpu, but not its headers; Debian's libgloo-dev has
# them. Only the headers are used: no gloo library is linked.
find_path(LibTorch_GLOO_INCLUDE_DIR gloo/rendezvous/store.h)

# Newer releases keep the numbers in torch/headeronly/version.h.
set(LibTorch_VERSION "")
file(GLOB version_files "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h"
     "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h")
foreach(part MAJOR MINOR PATCH)
  foreach(version_file ${version_files})
    file(STRINGS "${version_file}" line REGEX "define TORCH_VERSION_${part} [0-9]+")
    if(line MATCHES "TORCH_VERSION_${part} ([0-9]+)")
      list(APPEND version_parts ${CMAKE_MATCH_1})
      break()
    endif()
  endforeach()
endforeach()
list(JOIN version_parts "." LibTorch_VERSION)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_torch_LIBRARY LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY
                LibTorch_INCLUDE_DIR LibTorch_GLOO_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "Set MUSTER_TORCH or Torch_DIR to the directory of the torch package or of LibTorch (in\
 Python: torch.__path__[0]), or add it to CMAKE_PREFIX_PATH, or put a python3 that imports torch first in PATH, and\
 install libgloo-dev for gloo's headers.")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED GLOBAL)
  foreach(library torch torch_cpu c10 torch_cuda c10_cuda)
    if(LibTorch_${library}_LIBRARY)
      add_library(LibTorch::${library} SHARED IMPORTED GLOBAL)
      set_target_properties(LibTorch::${library} PROPERTIES
        IMPORTED_LOCATION "${LibTorch_${library}_LIBRARY}")
    endif()
  endforeach()
  target_link_libraries(LibTorch::LibTorch INTERFACE LibTorch::torch LibTorch::torch_cpu
                                                     LibTorch::c10)
  if(TARGET LibTorch::torch_cuda)
    # libtorch_cuda registers its kernels when it is loaded; no symbol of it is referenced.
    target_link_libraries(LibTorch::LibTorch INTERFACE
      -Wl,--push-state,--no-as-needed LibTorch::torch_cuda LibTorch::c10_cuda -Wl,--pop-state)
  endif()
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    "${LibTorch_INCLUDE_DIR}" "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include"
    "${LibTorch_GLOO_INCLUDE_DIR}")
  # Without these two the c10d headers are empty.
  target_compile_definitions(LibTorch::LibTorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  target_compile_features(LibTorch::LibTorch INTERFACE cxx_std_20)
endif()

# ProcessGroupNCCL.hpp needs the headers of NCCL and CUDA; the CUDA wheel's dependencies bring them as
# nvidia/* packages beside torch, except for crt/ (nvidia-cuda-crt) and nv/ (nvidia-cuda-cccl), which
# every CUDA toolkit has too. Only one file of the SDK includes them.
set(LibTorch_NCCL_FOUND FALSE)
set(LibTorch_NCCL_INCLUDE_DIRS "")
set(LibTorch_NCCL_MISSING "")
if(TARGET LibTorch::torch_cuda)
  file(GLOB nvidia_includes "${MUSTER_TORCH}/../nvidia/*/include")
  set(LibTorch_NCCL_FOUND TRUE)
  foreach(header nccl.h cuda_runtime.h crt/host_config.h nv/target)
    string(MAKE_C_IDENTIFIER "${header}" name)
    find_path(LibTorch_${name}_DIR ${header} PATHS ${nvidia_includes} /usr/local/cuda/include)
    mark_as_advanced(LibTorch_${name}_DIR)
    if(LibTorch_${name}_DIR)
      list(APPEND LibTorch_NCCL_INCLUDE_DIRS "${LibTorch_${name}_DIR}")
    else()
      set(LibTorch_NCCL_FOUND FALSE)
      list(APPEND LibTorch_NCCL_MISSING ${header})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES LibTorch_NCCL_INCLUDE_DIRS)
endif()
