# SPDX-License-Identifier: BSD-3-Clause
#
# sluice_embed(FOLDER NAME FILE): tools/FOLDER/FILE as a constant NAME of sluice::tools::FOLDER, in the header
# "tools/FOLDER/FILE.hpp" of the build tree. A change of the file configures the tree again.
function(sluice_embed folder name file)
  set(from "tools/${folder}/${file}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${from}")
  file(READ "${PROJECT_SOURCE_DIR}/${from}" text)
  configure_file("${PROJECT_SOURCE_DIR}/tools/page/embedded.hpp.in" "${PROJECT_BINARY_DIR}/generated/${from}.hpp" @ONLY)
endfunction()
