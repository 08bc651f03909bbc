# cmake -DPROGRAM=rocmforge -DOUT=folder -P texts.cmake
# writes the man pages and the completion scripts, which the program makes from its own commands and flags. The settings
# of whoever builds do not count.

set(PROGRAM ${CMAKE_COMMAND} -E env ROCMFORGE_CONFIG= ${PROGRAM})

function(write words file)
  execute_process(COMMAND ${PROGRAM} ${words} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${OUT}/${file} "${text}")
endfunction()

write("manual" man/rocmforge.1)
execute_process(COMMAND ${PROGRAM} manual OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "BR rocmforge.-[a-z]+" commands "${text}")
foreach(command IN LISTS commands)
  string(REGEX REPLACE ".*-" "" command ${command})
  write("manual;${command}" man/rocmforge-${command}.1)
endforeach()
write("completion;bash" completion/rocmforge)
write("completion;zsh" completion/_rocmforge)
write("completion;fish" completion/rocmforge.fish)
