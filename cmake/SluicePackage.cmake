# SPDX-License-Identifier: BSD-3-Clause
#
# What lets other projects find an installed Sluice: pkg-config files and the CMake package
# "Sluice" with its targets Sluice::sluice, ...

# sluice_pkg_config(NAME DESCRIPTION): installs NAME.pc for library NAME.
function(sluice_pkg_config name description)
  # Relative to the file itself, so that an installation may be moved.
  file(RELATIVE_PATH PC_UP "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
  string(REGEX REPLACE "/$" "" PC_UP "${PC_UP}")
  foreach(dir INCLUDE LIB)
    file(RELATIVE_PATH PC_${dir} "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_${dir}DIR}")
  endforeach()
  set(PC_NAME ${name})
  set(PC_DESCRIPTION "${description}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/library.pc.in" "${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
          COMPONENT Development)
endfunction()

# sluice_install_package(): to be called once, after all libraries are defined.
function(sluice_install_package)
  set(where "${CMAKE_INSTALL_LIBDIR}/cmake/Sluice")
  install(EXPORT SluiceTargets NAMESPACE Sluice:: DESTINATION "${where}" COMPONENT Development)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/SluiceConfig.cmake.in"
                                "${PROJECT_BINARY_DIR}/SluiceConfig.cmake" INSTALL_DESTINATION "${where}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake"
                                   COMPATIBILITY SameMajorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/SluiceConfig.cmake" "${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake"
          DESTINATION "${where}" COMPONENT Development)
endfunction()
