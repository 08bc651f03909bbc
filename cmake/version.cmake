# rf_version(SOURCE): the version by the tags of SOURCE's repository, `v1.2.3`.
#
#   RF_NUMBER   1.2.3
#   RF_VERSION  1.2.3 at the tag, 1.2.3+7 seven commits later, 1.2.3-dev where no tag is reachable; without a
#               repository, as in a released archive, 1.2.3
#   RF_COMMIT   its first ten digits, or "unknown"
#
# Without a tag the number is RF_NEXT_VERSION.
set(RF_NEXT_VERSION 0.1.0)

function(rf_version source)
  set(number ${RF_NEXT_VERSION})
  set(version ${RF_NEXT_VERSION})
  set(commit "unknown")
  # A repository around a copy of the sources has other versions.
  execute_process(COMMAND git -C ${source} rev-parse --show-toplevel OUTPUT_VARIABLE top
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  file(REAL_PATH ${source} real)
  if(NOT failed AND top STREQUAL real)
    execute_process(COMMAND git -C ${source} rev-parse --short=10 HEAD OUTPUT_VARIABLE commit
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed)
      set(commit "unknown")
    endif()
    execute_process(COMMAND git -C ${source} describe --tags --long --match "v[0-9]*.[0-9]*.[0-9]*"
                    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(described MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)-([0-9]+)-g[0-9a-f]+$")
      set(number ${CMAKE_MATCH_1})
      set(version ${CMAKE_MATCH_1})
      if(CMAKE_MATCH_2 GREATER 0)
        string(APPEND version "+${CMAKE_MATCH_2}")
      endif()
    else()
      string(APPEND version "-dev")
    endif()
  endif()
  set(RF_NUMBER ${number} PARENT_SCOPE)
  set(RF_VERSION ${version} PARENT_SCOPE)
  set(RF_COMMIT ${commit} PARENT_SCOPE)
endfunction()
