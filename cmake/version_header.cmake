# Writes OUT, a header with the version and commit of SOURCE, when they changed: cmake -DSOURCE=... -DOUT=... -P
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/version.cmake)
rf_version(${SOURCE})
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define RF_VERSION \"@RF_VERSION@\"\n#define RF_COMMIT \"@RF_COMMIT@\"\n" @ONLY)
