# One library per room, one test program per room, the same flags for all.

include(GNUInstallDirs)
set(RF_INSTALL_HEADERS ${CMAKE_INSTALL_INCLUDEDIR}/rocmforge)

option(RF_PCH "Precompile the standard headers" ${PROJECT_IS_TOP_LEVEL})

# Other compilers warn of other things: a stranger's build does not end with one that nobody here has seen.
set(rf_is_our_compiler OFF)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13) OR
   (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 20))
  set(rf_is_our_compiler ${PROJECT_IS_TOP_LEVEL})
endif()
option(RF_WERROR "Warnings are errors; by default with g++ 12 and clang 19, which every change is built with"
       ${rf_is_our_compiler})

add_library(rf_flags INTERFACE)
target_compile_options(rf_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough $<$<BOOL:${RF_WERROR}>:-Werror>
  # Results must not depend on whether a compiler fuses a multiply and an add.
  -ffp-contract=off
  # g++ 12 sees overlapping copies in std::string where there are none (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # It forgets that precompiled headers are the system's and warns of what it inlined from them.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${RF_PCH}>>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>)
target_include_directories(rf_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
# Library assertions stay on in release: an index past the end ends in a message, not in someone else's memory.
target_compile_definitions(rf_flags INTERFACE _GLIBCXX_ASSERTIONS)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT RF_SANITIZE)
  target_compile_options(rf_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong
    $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-fcf-protection=full>)
endif()
# The program and its modules bind all symbols at the start and make the table of them read-only (tests/elf_test.py).
# The linker marks a program for CET only where the C library's start files carry the mark too; those of Debian 12 do not.
add_link_options(-Wl,-z,relro,-z,now)
if(RF_SANITIZE)
  target_compile_options(rf_flags INTERFACE -fsanitize=${RF_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  string(REPLACE ",fuzzer-no-link" "" rf_link_sanitize "${RF_SANITIZE}")
  target_link_options(rf_flags INTERFACE -fsanitize=${rf_link_sanitize})
endif()

# Headers that most files read are parsed once: half of a build's time. Every file still includes what it uses: the
# nightly run builds without this.
set(RF_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring>
  <deque> <filesystem> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view> <thread>
  <unordered_map> <utility> <variant> <vector>)
if(RF_PCH)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/headers.cpp CONTENT "int main() {}\n")
  add_library(rf_headers OBJECT ${CMAKE_BINARY_DIR}/headers.cpp)
  target_link_libraries(rf_headers PRIVATE rf_flags)
  target_precompile_headers(rf_headers PRIVATE ${RF_STANDARD_HEADERS})
endif()

function(rf_use_headers target)
  if(RF_PCH)
    target_precompile_headers(${target} REUSE_FROM rf_headers)
  endif()
endfunction()

# The same for tests, with GoogleTest. Called once, after it was found.
function(rf_test_headers)
  if(RF_PCH)
    add_executable(rf_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/headers.cpp)
    target_link_libraries(rf_test_headers PRIVATE rf_flags GTest::gtest)
    target_compile_options(rf_test_headers PRIVATE ${RF_TEST_FLAGS})
    target_precompile_headers(rf_test_headers PRIVATE ${RF_STANDARD_HEADERS} <gtest/gtest.h>)
  endif()
endfunction()

# Tests are compiled for a short build: most of their time is spent in what they test. The undefined sanitizer doubles
# the time to compile a test; the nightly run takes it.
option(RF_SANITIZE_TESTS "Compile the tests, too, with the undefined sanitizer and coverage" OFF)
if(NOT RF_SANITIZE)
  set(RF_TEST_FLAGS -O1 $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>)
elseif(RF_SANITIZE MATCHES "undefined" AND NOT RF_SANITIZE_TESTS)
  set(RF_TEST_FLAGS -fno-sanitize=undefined,fuzzer-no-link)
endif()

# rf_room(NAME SOURCES a.cpp... [DEPENDS rooms...] [LIBRARIES libs...])
# defines library rf_NAME from the files of this folder.
function(rf_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(rf_${name} STATIC ${ROOM_SOURCES})
  list(TRANSFORM ROOM_DEPENDS PREPEND rf_)
  # Programs outside this build get the headers and the standard, not our warnings.
  target_link_libraries(rf_${name} PUBLIC $<BUILD_INTERFACE:rf_flags> ${ROOM_DEPENDS} PRIVATE ${ROOM_LIBRARIES})
  target_include_directories(rf_${name} INTERFACE $<INSTALL_INTERFACE:${RF_INSTALL_HEADERS}/rooms>)
  target_compile_features(rf_${name} PUBLIC cxx_std_20)
  rf_use_headers(rf_${name})
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
  target_compile_options(${name} PRIVATE ${RF_TEST_FLAGS})
  if(RF_PCH)
    target_precompile_headers(${name} REUSE_FROM rf_test_headers)
  endif()
  set(with DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${T_TIMEOUT} ${T_PROPERTIES} LABELS)
  if(T_CI_FILTER)
    gtest_discover_tests(${name} TEST_FILTER "-${T_CI_FILTER}" ${with} ${T_LABEL})
    gtest_discover_tests(${name} TEST_FILTER "${T_CI_FILTER}" ${with} ci)
  else()
    gtest_discover_tests(${name} ${with} ${T_LABEL})
  endif()
endfunction()
