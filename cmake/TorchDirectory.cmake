# muster_torch_directory(VAR): the directory of the torch Python package or of a LibTorch distribution, found
# by what users of CMake and of Python set anyway; empty if nothing has one. In this order: Torch_DIR and
# TORCH_DIR (a variable or of the environment; the directory itself, or its share/cmake/Torch, which
# find_package(Torch) takes), CMAKE_PREFIX_PATH, and the torch that python3 imports.
function(muster_torch_directory result)
  set(marker torch/csrc/distributed/c10d/reducer.hpp)
  set(named "")
  foreach(name Torch_DIR TORCH_DIR)
    foreach(value "${${name}}" "$ENV{${name}}")
      if(value)
        cmake_path(NORMAL_PATH value)
        cmake_path(SET above NORMALIZE "${value}/../../..")
        list(APPEND named "${value}" "${above}")
      endif()
    endforeach()
  endforeach()
  find_path(include_directory ${marker} PATHS ${named} PATH_SUFFIXES include NO_DEFAULT_PATH NO_CACHE)
  if(NOT include_directory)
    find_path(include_directory ${marker} PATH_SUFFIXES torch/include libtorch/include
              NO_SYSTEM_ENVIRONMENT_PATH NO_CMAKE_SYSTEM_PATH NO_CACHE)
  endif()
  if(NOT include_directory)
    # Without an import, which takes seconds.
    find_program(python NAMES python3 python NO_CACHE)
    set(where "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')")
    if(python)
      execute_process(COMMAND "${python}" -c "${where}" OUTPUT_VARIABLE package OUTPUT_STRIP_TRAILING_WHITESPACE
                      ERROR_QUIET)
    endif()
    if(package AND EXISTS "${package}/include/${marker}")
      set(include_directory "${package}/include")
    endif()
  endif()
  set(directory "")
  if(include_directory)
    file(REAL_PATH "${include_directory}/.." directory)
  endif()
  set(${result} "${directory}" PARENT_SCOPE)
endfunction()
