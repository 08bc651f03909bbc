# Writes OUT, a header with the commit that SOURCE is at, and only when it changed: cmake -DSOURCE=... -DOUT=... -P
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=10 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define RF_COMMIT \"@commit@\"\n" @ONLY)
