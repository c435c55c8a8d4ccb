# gRPC, protobuf and abseil, linked statically: a client that makes one call starts in 5 ms that
# way and in 13 ms with shared libraries. Debian's CMake targets point at the shared ones, so the
# list comes from pkg-config.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_program(MUSTER_PYTHON python3 REQUIRED)
find_program(MUSTER_PROTOC protoc REQUIRED)
find_program(MUSTER_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

pkg_check_modules(MUSTER_GRPCPP REQUIRED grpc++)
pkg_check_modules(MUSTER_PROTOBUF REQUIRED protobuf)

# ThreadSanitizer passes over modules without instrumentation: for it the libraries must be modules.
set(muster_link_as -Wl,-Bstatic)
if(MUSTER_SANITIZE MATCHES "thread")
  set(muster_link_as -Wl,-Bdynamic)
endif()

# Turns pkg-config's static list of the modules into the INTERFACE library TARGET.
function(muster_static_library target)
  set(modules ${ARGN})
  execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --static --libs-only-l ${modules}
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  list(REMOVE_DUPLICATES flags)
  list(REMOVE_ITEM flags -ldl -lm -lrt -latomic -lpthread)
  list(JOIN flags " " joined)
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE
    "-Wl,--start-group ${muster_link_as} ${joined} -Wl,-Bdynamic -Wl,--end-group"
    Threads::Threads ${CMAKE_DL_LIBS} rt)
endfunction()

muster_static_library(muster_protobuf protobuf)
# gRPC's list names these by -l, without what they need in turn: a newer re2 needs abseil's log.
muster_static_library(muster_grpc grpc++ re2 libcares openssl zlib)
muster_static_library(muster_absl absl_status absl_statusor absl_strings absl_str_format absl_flat_hash_map absl_time)
muster_static_library(muster_crypto libcrypto)
muster_static_library(muster_tls libssl)
muster_static_library(muster_sqlite sqlite3)
# Its header declares sessions (coordinator/sqlite/database/changes.h) only with these; Debian's library has them.
target_compile_definitions(muster_sqlite INTERFACE SQLITE_ENABLE_SESSION SQLITE_ENABLE_PREUPDATE_HOOK)
muster_static_library(muster_yaml yaml-cpp)
muster_static_library(muster_re2 re2)
muster_static_library(muster_zlib zlib)
muster_static_library(muster_expat expat)

# libcurl's headers alone: the library is loaded when it is needed (common/http/curl_library.h).
find_path(MUSTER_CURL_INCLUDE_DIR curl/curl.h)
if(NOT MUSTER_CURL_INCLUDE_DIR)
  message(FATAL_ERROR "libcurl's headers are missing, which object stores are reached with.\n"
                      "fix: install them (Debian: libcurl4-openssl-dev), or run ./dev build")
endif()

# Beast and Asio, headers alone, for the coordinator's HTTP server. Debian 12's libboost-dev is 1.74.
find_path(MUSTER_BOOST_INCLUDE_DIR boost/beast/core/basic_stream.hpp)
if(NOT MUSTER_BOOST_INCLUDE_DIR)
  message(FATAL_ERROR "Boost's headers are missing, which the coordinator serves HTTP with.\n"
                      "fix: install Boost 1.81 or later (Debian 12: libboost1.81-dev, Debian 13: libboost-dev), or run ./dev build")
endif()

# What draws the charts of the page that the coordinator serves.
find_path(MUSTER_DYGRAPHS dygraph.min.js PATHS /usr/share/javascript/dygraphs NO_DEFAULT_PATH)
if(NOT MUSTER_DYGRAPHS)
  message(FATAL_ERROR "dygraphs is missing, which draws the page's charts.\n"
                      "fix: install dygraphs 2.2 (Debian: libjs-dygraphs; elsewhere -DMUSTER_DYGRAPHS=DIR with its dygraph.min.js), or run ./dev build")
endif()

find_package(fmt REQUIRED)
find_path(MUSTER_SPDLOG_INCLUDE_DIR spdlog/logger.h REQUIRED)
add_library(muster_spdlog INTERFACE)
target_compile_definitions(muster_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_include_directories(muster_spdlog SYSTEM INTERFACE ${MUSTER_SPDLOG_INCLUDE_DIR})
target_link_libraries(muster_spdlog INTERFACE fmt::fmt-header-only)

# elfutils, for muster-unwind alone.
pkg_check_modules(MUSTER_LIBDW QUIET libdw)
if(NOT MUSTER_LIBDW_FOUND)
  message(FATAL_ERROR "libdw is missing, which muster-unwind reads other programs' stacks with.\n"
                      "fix: install elfutils' development files (Debian: libdw-dev), or run ./dev build")
endif()
muster_static_library(muster_dw libdw)
# Debian 13's static libdw (0.192) lacks the search trees that it calls itself: there the shared one is linked, and
# packages that are built there need it.
include(CheckCXXSourceCompiles)
get_target_property(flags muster_dw INTERFACE_LINK_LIBRARIES)
list(GET flags 0 CMAKE_REQUIRED_LIBRARIES)
check_cxx_source_compiles("#include <elfutils/libdwfl.h>
int main() { return dwfl_linux_proc_attach(dwfl_begin(nullptr), 1, false) +
                    dwfl_getthread_frames(nullptr, 1, nullptr, nullptr) +
                    (dwfl_module_getsrc(nullptr, 0) != nullptr); }" MUSTER_LIBDW_IS_WHOLE)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT MUSTER_LIBDW_IS_WHOLE)
  set_property(TARGET muster_dw PROPERTY INTERFACE_LINK_LIBRARIES ${MUSTER_LIBDW_LIBRARIES})
endif()
