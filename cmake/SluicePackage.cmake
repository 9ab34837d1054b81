# SPDX-License-Identifier: BSD-3-Clause
#
# What lets other projects find an installed Sluice: pkg-config files and the CMake package
# "Sluice" with its targets Sluice::sluice, ...

# sluice_pkg_config(NAME DESCRIPTION [LIBRARIES -lname...] [VERSION n]): installs NAME.pc for library NAME, or for
# those. A library that stands in for another has the other's version there.
function(sluice_pkg_config name description)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "VERSION" "LIBRARIES")
  if(NOT arg_VERSION)
    set(arg_VERSION "${PROJECT_VERSION}")
  endif()
  if(NOT arg_LIBRARIES)
    set(arg_LIBRARIES "-l${name}")
  endif()
  list(JOIN arg_LIBRARIES " " PC_LIBRARIES)
  set(PC_VERSION "${arg_VERSION}")
  # Relative to the file itself, so that an installation may be moved.
  file(RELATIVE_PATH PC_UP "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
  string(REGEX REPLACE "/$" "" PC_PREFIX "\${pcfiledir}/${PC_UP}")
  # A package isn't moved, and pkg-config leaves out only paths that it knows as the system's by how they are written.
  if(NOT SLUICE_RUNPATH)
    set(PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  endif()
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
  get_property(SLUICE_LIBRARIES GLOBAL PROPERTY SLUICE_LIBRARIES)
  foreach(name IN LISTS SLUICE_LIBRARIES)
    install(EXPORT SluiceTargets-${name} NAMESPACE Sluice:: DESTINATION "${where}" COMPONENT Development)
  endforeach()
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/SluiceConfig.cmake.in"
                                "${PROJECT_BINARY_DIR}/SluiceConfig.cmake" INSTALL_DESTINATION "${where}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake"
                                   COMPATIBILITY SameMajorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/SluiceConfig.cmake" "${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake"
          DESTINATION "${where}" COMPONENT Development)
endfunction()

# sluice_install_lab(): scripts/lab as the command sluice-lab, with the scripts that it needs in the
# same order as here.
function(sluice_install_lab)
  set(where "${CMAKE_INSTALL_DATADIR}/sluice/scripts")
  file(RELATIVE_PATH LAB_FROM_BIN "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_DATADIR}/sluice/scripts/lab")
  configure_file("${PROJECT_SOURCE_DIR}/scripts/lib/lab/sluice-lab.in" "${PROJECT_BINARY_DIR}/sluice-lab" @ONLY)
  install(PROGRAMS "${PROJECT_BINARY_DIR}/sluice-lab" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT Lab)
  install(PROGRAMS scripts/lab scripts/packages DESTINATION "${where}" COMPONENT Lab)
  install(FILES scripts/lib/common.sh scripts/lib/source.sh DESTINATION "${where}/lib" COMPONENT Lab)
  install(DIRECTORY scripts/lib/lab DESTINATION "${where}/lib" USE_SOURCE_PERMISSIONS COMPONENT Lab
          PATTERN "*.in" EXCLUDE)
endfunction()
