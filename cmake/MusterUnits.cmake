# Units: a few sources of a target that are compiled as one, since headers and templates that they share then
# cost once. Not CMake's own unity builds: those name sources by absolute paths, which a compiler cache of
# another clone does not know, and they cannot compile a part of a target with other options.
# For work on single files -DMUSTER_UNITY=OFF compiles each one alone.
option(MUSTER_UNITY "Compile several sources of a target as one" ON)

set(MUSTER_COLD_OPTIONS -O1)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND
   CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  # -O2 sets these, and a precompiled header made with them is refused without.
  list(APPEND MUSTER_COLD_OPTIONS -munroll-only-small-loops -mvzeroupper)
endif()

# muster_sources(TARGET [COLD] [UNIT name] [SIZE n] source…): adds sources to a target, n of them a unit
# (8; COLD 16) in their order. May be called repeatedly.
#   COLD  no time is spent in them: -O1, which takes a quarter less to compile than -O2
#   UNIT  all in the unit of this name instead, together with those of other calls: for what shares a costly
#         header (gRPC, CLI11, nlohmann/json)
function(muster_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 in "COLD" "UNIT;SIZE" "")
  if(NOT in_SIZE AND in_COLD)
    set(in_SIZE 16)
  elseif(NOT in_SIZE)
    set(in_SIZE 8)
  endif()
  set(options "")
  set(kind "")
  if(in_COLD AND NOT MUSTER_SANITIZE)  # which is at -O1 anyway
    set(options ${MUSTER_COLD_OPTIONS})
    set(kind cold_)
  endif()
  get_property(call TARGET ${target} PROPERTY MUSTER_CALLS)
  if(NOT call)
    set(call 0)
  endif()
  math(EXPR next "${call} + 1")
  set_property(TARGET ${target} PROPERTY MUSTER_CALLS ${next})
  set(count 0)
  foreach(source IN LISTS in_UNPARSED_ARGUMENTS)
    get_filename_component(source ${source} ABSOLUTE)
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${source})
    if(NOT MUSTER_UNITY OR path MATCHES "^\\.\\./")
      target_sources(${target} PRIVATE ${source})
      set_property(SOURCE ${source} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS ${options})
    elseif(in_UNIT)
      muster_add_to_unit(${target} ${in_UNIT} "${options}" ${path})
    else()
      math(EXPR number "${count} / ${in_SIZE}")
      math(EXPR count "${count} + 1")
      muster_add_to_unit(${target} ${call}_${kind}${number} "${options}" ${path})
    endif()
  endforeach()
endfunction()

# The unit's text is known once all calls are made: when CMake generates.
function(muster_add_to_unit target name options path)
  set(unit ${CMAKE_BINARY_DIR}/units/${target}/${name}.cc)
  get_property(lines TARGET ${target} PROPERTY MUSTER_UNIT_${name})
  if(NOT lines)
    file(GENERATE OUTPUT ${unit} CONTENT "$<JOIN:$<TARGET_PROPERTY:${target},MUSTER_UNIT_${name}>,\n>\n")
    target_sources(${target} PRIVATE ${unit})
    set_property(SOURCE ${unit} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS ${options})
  endif()
  set_property(TARGET ${target} APPEND PROPERTY MUSTER_UNIT_${name} "#include \"${path}\"")
endfunction()
