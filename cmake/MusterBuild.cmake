# Compiler settings that every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Assertions of our own (CHECK) stay on in release; NDEBUG only silences third-party headers.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# __FILE__ is relative to the tree, so that two builds are equal wherever the trees lie.
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)

# Release binaries lie in build/bin, examples in build/bin/examples, tests in build/bin/tests.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# ccache serves every clone: paths below the source tree count as relative to it, whichever it is (the line
# numbers of sanitizers' reports may name another clone's folder). It compares precompiled headers by content
# when it is told to. No compile option may hold a path of the tree, except for includes and the one above, which
# makes __FILE__ the same in every tree.
find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_IGNOREOPTIONS=-fmacro-prefix-map=*
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${MUSTER_CCACHE})
endif()
# For a target that uses a precompiled header, not for the one that makes it: there the preprocessor would
# name the header's earlier version in place of what is in it now, and the cache would answer with whatever
# followed on that one.
function(muster_cache_precompiled target)
  if(MUSTER_CCACHE)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
# GCC collects garbage less often: 5 to 10 % of its time for 100 MB.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(--param=ggc-min-expand=300 --param=ggc-min-heapsize=1000000)
endif()
find_program(MUSTER_MOLD mold)
if(MUSTER_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# ./dev test --sanitize: everything that this project compiles runs with these sanitizers. The first
# finding aborts the process, so that the test that met it fails. -O1 -g1: half the time of -O2 to
# compile, and reports still name lines.
set(MUSTER_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize: address,undefined or thread")
if(MUSTER_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1 -DNDEBUG")
  add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
  if(MUSTER_SANITIZE MATCHES "undefined")
    add_compile_options(-fsanitize=float-cast-overflow)  # GCC counts it apart
    # To judge an object's type UBSan opens a pipe, and takes a process without free descriptors, as
    # some tests make one, for a damaged object.
    add_compile_options(-fno-sanitize=vptr)
  endif()
endif()

# ./dev fuzz: libFuzzer's view into all code. Needs clang.
option(MUSTER_FUZZ "Build tests/fuzz as libFuzzer programs" OFF)
if(MUSTER_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Every library and binary of the product: warnings on, includes from the root ("common/problem.h").
add_library(muster_settings INTERFACE)
target_compile_options(muster_settings INTERFACE -Wall -Wextra -Wno-unused-parameter
                                                 -Wno-missing-field-initializers)
if(MUSTER_UNITY)
  # GCC takes a source that a unit includes for a header, and warns of its file-local types.
  target_compile_options(muster_settings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
target_include_directories(muster_settings INTERFACE ${CMAKE_SOURCE_DIR})

# Everything that ends up in jobctl, the daemons and the supervisor: foreign bytes pass through it, so
# a slip of ours should end the process and not obey them. The trainer SDK lives in other people's
# processes and has none of it. tests/cmake/hardening_test.py looks at the result.
# Sanitizers see more without it: the fortified functions hide the calls that they watch.
add_library(muster_hardening INTERFACE)
if(NOT MUSTER_SANITIZE)
  target_compile_options(muster_hardening INTERFACE
    -fstack-protector-strong -fstack-clash-protection
    $<$<CONFIG:Release,RelWithDebInfo>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
  # gRPC's static libraries and crt1.o carry no such notes, so the linked binary cannot show it.
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    target_compile_options(muster_hardening INTERFACE -fcf-protection=full)
  endif()
endif()

# muster_harden(TARGET [STATIC]): position independent, every relocation done at the start and then
# read-only, no executable stack. A static program cannot include a sanitizer's runtime. The C++ runtime is
# linked into the others, so that they also run where it is older than our compiler's; libgcc_s is everywhere.
function(muster_harden target)
  if("STATIC" IN_LIST ARGN AND NOT MUSTER_SANITIZE)
    target_link_options(${target} PRIVATE -static-pie)
  elseif(MUSTER_SANITIZE)
    target_link_options(${target} PRIVATE -pie)
  else()
    target_link_options(${target} PRIVATE -pie -static-libstdc++)
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/common/base/arc4random.cc)
  endif()
  target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endfunction()
