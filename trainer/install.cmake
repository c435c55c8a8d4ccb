# Installs the SDK as the CMake package MusterTrainer. LibTorch is not installed: the package finds it
# on the machine where it is used, with the modules that it brings along.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/MusterTrainer)
install(TARGETS muster_trainer EXPORT MusterTrainerTargets COMPONENT trainer
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/muster DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT trainer)
install(EXPORT MusterTrainerTargets NAMESPACE MusterTrainer:: DESTINATION ${package_dir}
        COMPONENT trainer)
configure_package_config_file(MusterTrainerConfig.cmake.in MusterTrainerConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(MusterTrainerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/MusterTrainerConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/MusterTrainerConfigVersion.cmake
              ${CMAKE_CURRENT_SOURCE_DIR}/MusterTrainerHeaders.cmake
              ${CMAKE_CURRENT_SOURCE_DIR}/../cmake/FindLibTorch.cmake
              ${CMAKE_CURRENT_SOURCE_DIR}/../cmake/TorchDirectory.cmake
        DESTINATION ${package_dir} COMPONENT trainer)
