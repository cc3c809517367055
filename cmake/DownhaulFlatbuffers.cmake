# downhaul_flatbuffers(NAME schema.fbs...): generates C++ from the schemas into the build directory
# for the library downhaul_NAME, to be included as "<stem>_generated.h". Only the headers of
# FlatBuffers are used, so nothing is linked and installed consumers do not need it.
find_program(FLATC_PROGRAM flatc REQUIRED)
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)

function(downhaul_flatbuffers name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/flatbuffers)
  set(headers)
  foreach(schema ${ARGN})
    get_filename_component(stem ${schema} NAME_WE)
    set(header ${folder}/${stem}_generated.h)
    add_custom_command(OUTPUT ${header}
      COMMAND ${FLATC_PROGRAM} --cpp --scoped-enums -o ${folder}
              ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      COMMENT "Generating ${stem}_generated.h")
    list(APPEND headers ${header})
  endforeach()
  target_sources(downhaul_${name} PRIVATE ${headers})
  add_custom_target(downhaul_${name}_schemas DEPENDS ${headers})  # for tools that only parse
  add_dependencies(downhaul_${name} downhaul_${name}_schemas)
  target_include_directories(downhaul_${name} SYSTEM PRIVATE ${folder} ${FLATBUFFERS_INCLUDE_DIR})
  if(TARGET ${name}_test)  # the generated headers exist once the library is built
    target_include_directories(${name}_test SYSTEM PRIVATE ${folder} ${FLATBUFFERS_INCLUDE_DIR})
  endif()
endfunction()
