# downhaul_protobuf(NAME schema.proto...): generates C++ from the schemas into the build directory for
# the library downhaul_NAME, to be included as "<stem>.pb.h". Only the small runtime is linked: no
# descriptors, no reflection.
find_package(Protobuf REQUIRED)

function(downhaul_protobuf name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/protobuf)
  file(MAKE_DIRECTORY ${folder})
  foreach(schema ${ARGN})
    get_filename_component(stem ${schema} NAME_WE)
    get_filename_component(where ${CMAKE_CURRENT_SOURCE_DIR}/${schema} DIRECTORY)
    set(source ${folder}/${stem}.pb.cc)
    add_custom_command(OUTPUT ${source} ${folder}/${stem}.pb.h
      COMMAND protobuf::protoc --cpp_out=${folder} -I ${where} ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      COMMENT "Generating ${stem}.pb.cc")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -w SKIP_LINTING ON)
    target_sources(downhaul_${name} PRIVATE ${source} ${folder}/${stem}.pb.h)
    add_custom_target(downhaul_${name}_${stem} DEPENDS ${folder}/${stem}.pb.h)
    add_dependencies(downhaul_${name}_schemas downhaul_${name}_${stem})
  endforeach()
  target_include_directories(downhaul_${name} SYSTEM PRIVATE ${folder})
  target_link_libraries(downhaul_${name} PUBLIC protobuf::libprotobuf-lite)
endfunction()
