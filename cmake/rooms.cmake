# One library per room, one test program per room, the same flags for all.

add_library(rf_flags INTERFACE)
target_compile_options(rf_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough -Werror
  # Results must not depend on whether a compiler fuses a multiply and an add.
  -ffp-contract=off
  # g++ 12 sees overlapping copies in std::string where there are none (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_include_directories(rf_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
# Library assertions stay on in release: an index past the end ends in a message, not in someone else's memory.
target_compile_definitions(rf_flags INTERFACE _GLIBCXX_ASSERTIONS)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT RF_SANITIZE)
  target_compile_options(rf_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong)
endif()
if(RF_SANITIZE)
  target_compile_options(rf_flags INTERFACE -fsanitize=${RF_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  string(REPLACE ",fuzzer-no-link" "" rf_link_sanitize "${RF_SANITIZE}")
  target_link_options(rf_flags INTERFACE -fsanitize=${rf_link_sanitize})
endif()

# rf_room(NAME SOURCES a.cpp... [DEPENDS rooms...] [LIBRARIES libs...])
# defines library rf_NAME from the files of this folder.
function(rf_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(rf_${name} STATIC ${ROOM_SOURCES})
  list(TRANSFORM ROOM_DEPENDS PREPEND rf_)
  target_link_libraries(rf_${name} PUBLIC rf_flags ${ROOM_DEPENDS} PRIVATE ${ROOM_LIBRARIES})
endfunction()

# rf_test(NAME LABEL fast|slow SOURCES x_test.cpp... [DEPENDS rooms...] [LIBRARIES libs...] [TIMEOUT s]
#         [PROPERTIES ctest properties...] [CI_FILTER names])
# defines the test program NAME; every TEST in it becomes one ctest case with that label. Those whose names match the
# filter have the label ci instead: `make test` leaves them to `make ci`.
function(rf_test name)
  if(NOT RF_TESTS)
    return()
  endif()
  cmake_parse_arguments(T "" "LABEL;TIMEOUT;CI_FILTER" "SOURCES;DEPENDS;LIBRARIES;PROPERTIES" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  add_executable(${name} ${T_SOURCES})
  list(TRANSFORM T_DEPENDS PREPEND rf_)
  target_link_libraries(${name} PRIVATE ${T_DEPENDS} ${T_LIBRARIES} rf_test_support GTest::gtest GTest::gtest_main)
  set(with DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${T_TIMEOUT} ${T_PROPERTIES} LABELS)
  if(T_CI_FILTER)
    gtest_discover_tests(${name} TEST_FILTER "-${T_CI_FILTER}" ${with} ${T_LABEL})
    gtest_discover_tests(${name} TEST_FILTER "${T_CI_FILTER}" ${with} ci)
  else()
    gtest_discover_tests(${name} ${with} ${T_LABEL})
  endif()
endfunction()
