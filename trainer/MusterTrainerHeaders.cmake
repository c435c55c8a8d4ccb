# muster_precompile_headers(TARGET… [HEADER muster/training_loop.h]): gives targets a precompiled header of the SDK,
# by default <muster/trainer.h> with all of torch/torch.h. The first target makes it and the others share it, so
# they must have the same compile options. What is saved: docs/trainer.md, "Compiling in less time".
function(muster_precompile_headers target)
  cmake_parse_arguments(PARSE_ARGV 1 pch "" "HEADER" "")
  if(NOT pch_HEADER)
    set(pch_HEADER muster/trainer.h)
  endif()
  target_precompile_headers(${target} PRIVATE <${pch_HEADER}>)
  foreach(other IN LISTS pch_UNPARSED_ARGUMENTS)
    target_precompile_headers(${other} REUSE_FROM ${target})
  endforeach()
  # Without it ccache cannot cache what is compiled with a precompiled header.
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    foreach(each IN LISTS target pch_UNPARSED_ARGUMENTS)
      target_compile_options(${each} PRIVATE -fpch-preprocess)
    endforeach()
  endif()
endfunction()
