# What `cmake --install` puts where: the program, the story model, the modules that were built, and the library with its
# headers. Another CMake project finds the library as rocmforge::rocmforge, other builds through pkg-config.

include(CMakePackageConfigHelpers)

install(TARGETS rocmforge RUNTIME COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/models/story-q4_k_m.gguf ${PROJECT_SOURCE_DIR}/models/README.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/rocmforge/models COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT program)
install(DIRECTORY ${PROJECT_BINARY_DIR}/texts/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/texts/completion/rocmforge
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/texts/completion/_rocmforge
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/texts/completion/rocmforge.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program OPTIONAL)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# The program looks in its ../lib/rocmforge, whatever this system calls its library folder.
foreach(module hip cuda)
  if(TARGET rocmforge-${module})
    install(TARGETS rocmforge-${module} LIBRARY DESTINATION lib/rocmforge COMPONENT ${module} OPTIONAL)
  endif()
endforeach()

# The library: every room up to the engine, as static archives behind one name.
add_library(rf_all INTERFACE)
add_library(rocmforge::rocmforge ALIAS rf_all)
set_target_properties(rf_all PROPERTIES EXPORT_NAME rocmforge)
target_link_libraries(rf_all INTERFACE rf_engine)
target_include_directories(rf_all INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set(rf_rooms base tensor gguf jinja tokenizer grammar chat model weights kv plan cpu gpu engine)
list(TRANSFORM rf_rooms PREPEND rf_ OUTPUT_VARIABLE rf_libraries)
install(TARGETS rf_all ${rf_libraries} EXPORT rocmforge ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/rocmforge COMPONENT dev)
install(EXPORT rocmforge NAMESPACE rocmforge:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rocmforge COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rocmforge/ DESTINATION ${RF_INSTALL_HEADERS} COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ DESTINATION ${RF_INSTALL_HEADERS}/rooms COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "server" EXCLUDE PATTERN "emu" EXCLUDE PATTERN "kernels" EXCLUDE
  PATTERN "fragment" EXCLUDE PATTERN "runtime" EXCLUDE PATTERN "modules" EXCLUDE PATTERN "isa" EXCLUDE
  PATTERN "*_test.h" EXCLUDE PATTERN "test_*.h" EXCLUDE PATTERN "*_cases.h" EXCLUDE)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/rocmforge-config.cmake.in
  ${PROJECT_BINARY_DIR}/rocmforge-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rocmforge)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rocmforge-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rocmforge-config.cmake ${PROJECT_BINARY_DIR}/rocmforge-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rocmforge COMPONENT dev)

# Archives in the order a linker needs: users before what they use.
set(rf_archives ${rf_libraries})
list(REVERSE rf_archives)
list(TRANSFORM rf_archives PREPEND -l)
list(JOIN rf_archives " " RF_PKG_LIBRARIES)
# The prefix is found from where the file lies: a package moves it.
file(RELATIVE_PATH RF_PKG_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" RF_PKG_PREFIX ${RF_PKG_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/rocmforge.pc.in ${PROJECT_BINARY_DIR}/rocmforge.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/rocmforge.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
