# `cmake --install build --prefix P`: commands in bin, their helpers in libexec/muster (the daemons look
# beside themselves and there), systemd units, scripts of the images, proto files.
# The trainer SDK has its own rules in trainer/install.cmake.
include(GNUInstallDirs)

foreach(target jobctl muster-coordinator muster-worker)
  if(TARGET ${target})
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT muster)
  endif()
endforeach()
foreach(target muster-shim muster-rendezvous muster-unwind)
  if(TARGET ${target})
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT muster)
  endif()
endforeach()

# The units name the binaries by their installed path, which is only known when the prefix is.
install(CODE "set(source_dir \"${CMAKE_SOURCE_DIR}\")" COMPONENT muster)
install(CODE [[
  set(MUSTER_BINDIR "${CMAKE_INSTALL_PREFIX}/bin")
  foreach(unit muster-coordinator.service muster-worker.service)
    set(target "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/systemd/system/${unit}")
    message(STATUS "Installing: ${target}")
    configure_file("${source_dir}/deploy/systemd/${unit}.in" "${target}" @ONLY)
  endforeach()
]] COMPONENT muster)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/worker.env.example
              ${CMAKE_SOURCE_DIR}/deploy/systemd/coordinator.env.example
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT muster)
# What the images start and are asked with (deploy/containers).
install(PROGRAMS ${CMAKE_SOURCE_DIR}/deploy/containers/start-coordinator ${CMAKE_SOURCE_DIR}/deploy/containers/healthy
                 ${CMAKE_SOURCE_DIR}/deploy/containers/drain-node
        DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT muster)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/proto/muster DESTINATION ${CMAKE_INSTALL_DATADIR}/muster/proto
        COMPONENT muster FILES_MATCHING PATTERN "*.proto")
