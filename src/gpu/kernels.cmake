# How kernels become code.

# rf_emu_kernels(OUT FILES a b... FRAGMENT_FILES c d... MMA_FILES e f... FOLDER folder)
# compiles FOLDER/a.cu ... for the emulation and gives the object libraries' names in OUT.
function(rf_emu_kernels out)
  cmake_parse_arguments(K "" "FOLDER" "FILES;FRAGMENT_FILES;MMA_FILES" ${ARGN})
  foreach(file IN LISTS K_FILES K_FRAGMENT_FILES K_MMA_FILES)
    set_source_files_properties(${K_FOLDER}/${file}.cu PROPERTIES
      LANGUAGE CXX COMPILE_DEFINITIONS "RF_EMU_FILE=\"${file}\"")
  endforeach()
  set(libraries)
  macro(rf_emu_variant wave fragment)
    set(variant ${out}_w${wave}_${fragment})
    set(sources ${ARGN})
    list(TRANSFORM sources PREPEND ${K_FOLDER}/)
    list(TRANSFORM sources APPEND .cu)
    add_library(${variant} OBJECT ${sources})
    target_link_libraries(${variant} PRIVATE rf_flags)
    target_compile_definitions(${variant} PRIVATE
      RF_EMU_KERNELS=kernels_w${wave}_${fragment} RF_EMU_WAVE=${wave} RF_EMU_FRAGMENT=${fragment})
    list(APPEND libraries ${variant})
  endmacro()
  if(K_FILES)
    rf_emu_variant(32 any ${K_FILES})
    rf_emu_variant(64 any ${K_FILES})
  endif()
  if(K_FRAGMENT_FILES)
    rf_emu_variant(32 mma ${K_FRAGMENT_FILES} ${K_MMA_FILES})
    rf_emu_variant(64 mfma ${K_FRAGMENT_FILES})
    rf_emu_variant(32 gfx11 ${K_FRAGMENT_FILES})
    rf_emu_variant(32 gfx12 ${K_FRAGMENT_FILES})
    rf_emu_variant(32 none ${K_FRAGMENT_FILES})
  endif()
  set(${out} ${libraries} PARENT_SCOPE)
endfunction()

# rf_gpu_module(NAME FILES a b... SUFFIX fatbin COMMAND command TOOLS files that COMMAND is made of)
# is librocmforge-NAME.so: modules/NAME.cpp with the code that COMMAND makes of each kernels/FILE.cu built in. In COMMAND,
# @SOURCE@ is that file, @IMAGE@ what is made of it; @IMAGE@.d lists what it depends on.
function(rf_gpu_module name)
  cmake_parse_arguments(M "" "SUFFIX" "FILES;COMMAND;TOOLS" ${ARGN})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  file(MAKE_DIRECTORY ${folder})
  set(images)
  set(declarations "")
  set(rows "")
  foreach(file IN LISTS M_FILES)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/kernels/${file}.cu)
    set(image ${folder}/${file}.${M_SUFFIX})
    string(REPLACE "@SOURCE@" "${source}" command "${M_COMMAND}")
    string(REPLACE "@IMAGE@" "${image}" command "${command}")
    add_custom_command(OUTPUT ${image}
      COMMAND ${command} COMMAND_EXPAND_LISTS
      DEPENDS ${source} ${M_TOOLS} DEPFILE ${image}.d COMMENT "Compiling ${file}.cu for ${name}" VERBATIM)
    list(APPEND images ${image})
    string(APPEND declarations "__asm__(\".section .rodata\\n.balign 4096\\nrf_image_${file}:\\n"
                               ".incbin \\\"${image}\\\"\\n.byte 0\\n.previous\");\n"
                               "extern \"C\" __attribute__((visibility(\"hidden\"))) const char rf_image_${file}[];\n")
    string(APPEND rows "    {\"${file}\", rf_image_${file}},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/kernel_files.cpp CONTENT
"// Written by kernels.cmake.
#include \"gpu/modules/kernel_files.h\"
${declarations}
namespace rocmforge::gpu::modules {
const KernelFile kKernelFiles[] = {
${rows}    {nullptr, nullptr},
};
}
" @ONLY)
  set_source_files_properties(${folder}/kernel_files.cpp PROPERTIES OBJECT_DEPENDS "${images}")
  add_library(rocmforge-${name} MODULE modules/driver_api.cpp modules/${name}.cpp ${folder}/kernel_files.cpp)
  target_link_libraries(rocmforge-${name} PRIVATE rf_flags ${CMAKE_DL_LIBS})
  rf_module_place(rocmforge-${name})
  add_custom_target(${name} DEPENDS rocmforge-${name})
endfunction()

# Modules lie beside the program and show nothing but their one function.
function(rf_module_place target)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
