# `cmake --install build --prefix P`: commands in bin, the supervisor in libexec/muster (the daemons look
# beside themselves and there), systemd units, proto files.
# The trainer SDK has its own rules in trainer/install.cmake.
include(GNUInstallDirs)

foreach(target jobctl muster-coordinator muster-worker)
  if(TARGET ${target})
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT muster)
  endif()
endforeach()
if(TARGET muster-shim)
  install(TARGETS muster-shim RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT muster)
endif()

foreach(unit muster-coordinator.service muster-worker.service)
  set(MUSTER_BINDIR ${CMAKE_INSTALL_FULL_BINDIR})
  configure_file(${CMAKE_SOURCE_DIR}/deploy/systemd/${unit}.in ${CMAKE_BINARY_DIR}/deploy/${unit} @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/deploy/${unit} DESTINATION lib/systemd/system COMPONENT muster)
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/worker.env.example
              ${CMAKE_SOURCE_DIR}/deploy/systemd/coordinator.env.example
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT muster)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/proto/muster DESTINATION ${CMAKE_INSTALL_DATADIR}/muster/proto
        COMPONENT muster FILES_MATCHING PATTERN "*.proto")
