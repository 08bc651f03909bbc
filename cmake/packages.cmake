# The Debian packages that `make deb` makes: one for each install component, `system` joined to `program`. The modules
# that were not built are left out when cpack runs (packages_built.cmake).

set(packaging ${PROJECT_SOURCE_DIR}/packaging)

# The system's side of the service. Only the package has it: `cmake --install` does not touch /etc and /var.
install(FILES ${PROJECT_SOURCE_DIR}/examples/rocmforge.service DESTINATION lib/systemd/system COMPONENT system
  EXCLUDE_FROM_ALL)
install(FILES ${packaging}/sysusers.conf DESTINATION lib/sysusers.d RENAME rocmforge.conf COMPONENT system
  EXCLUDE_FROM_ALL)
install(FILES ${packaging}/config.toml DESTINATION /etc/rocmforge COMPONENT system EXCLUDE_FROM_ALL)
install(DIRECTORY DESTINATION /var/lib/rocmforge/models COMPONENT system EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rocmforge)
set(CPACK_PACKAGE_VENDOR ROCmForge)
set(RF_PACKAGE_MAINTAINER "The ROCmForge authors <rocmforge@localhost>" CACHE STRING "Who answers for the packages")
set(CPACK_PACKAGE_CONTACT ${RF_PACKAGE_MAINTAINER})
# "~": Debian orders 0.1.0~dev before 0.1.0.
string(REPLACE "-" "~" RF_PACKAGE_VERSION ${RF_VERSION})
set(CPACK_PACKAGE_VERSION ${RF_PACKAGE_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL program system hip cuda dev)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/packages_built.cmake)
set(CPACK_RF_BUILD ${PROJECT_BINARY_DIR})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

# rf_package(COMPONENT NAME SECTION SUMMARY TEXT [DEPENDS ...] [RECOMMENDS ...] [SUGGESTS ...])
macro(rf_package component name section summary text)
  cmake_parse_arguments(P "" "DEPENDS;RECOMMENDS;SUGGESTS" "" ${ARGN})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}")
  foreach(field DEPENDS RECOMMENDS SUGGESTS)
    if(P_${field})
      set(CPACK_DEBIAN_${upper}_PACKAGE_${field} "${P_${field}}")
    endif()
  endforeach()
endmacro()

rf_package(main rocmforge utils "runs large language models from GGUF files"
  "Commands to run, serve and inspect models, a server with OpenAI's API, and a\nsmall story model. The packages rocmforge-hip and rocmforge-cuda add GPUs."
  SUGGESTS "rocmforge-hip, rocmforge-cuda")
rf_package(hip rocmforge-hip utils "AMD GPUs for rocmforge"
  "The module with the kernels for AMD GPUs. It opens AMD's HIP library of the\nsystem at run time."
  DEPENDS "rocmforge (= ${RF_PACKAGE_VERSION})" SUGGESTS "hip-runtime-amd | libamdhip64-5")
rf_package(cuda rocmforge-cuda utils "NVIDIA GPUs for rocmforge"
  "The module with the kernels for NVIDIA GPUs. It opens the library of NVIDIA's\ndriver at run time."
  DEPENDS "rocmforge (= ${RF_PACKAGE_VERSION})" SUGGESTS "libcuda1")
rf_package(dev librocmforge-dev libdevel "library of rocmforge, static, with headers"
  "Headers, static libraries, and the files by which CMake and pkg-config find\nthem."
  DEPENDS "libfmt-dev, libspdlog-dev, libpcre2-dev, libutf8proc-dev")
set(CPACK_DEBIAN_MAIN_PACKAGE_CONTROL_EXTRA ${packaging}/debian/postinst ${packaging}/debian/prerm
  ${packaging}/debian/postrm ${packaging}/debian/conffiles)
set(CPACK_DEBIAN_MAIN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# Every package carries its licence under its own name.
foreach(pair system:rocmforge hip:rocmforge-hip cuda:rocmforge-cuda dev:librocmforge-dev)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 name)
  install(FILES ${packaging}/debian/copyright DESTINATION share/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

include(CPack)
cpack_add_component(program GROUP main)
cpack_add_component(system GROUP main)
cpack_add_component(hip)
cpack_add_component(cuda)
cpack_add_component(dev)
