# Installs BUILD into a fresh prefix, configures, builds and runs the project in SOURCE against it.
set(prefix ${BUILD}/consumer/prefix)
set(work ${BUILD}/consumer/build)
file(REMOVE_RECURSE ${BUILD}/consumer)
foreach(step
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${prefix}"
    "${CMAKE_COMMAND};-S;${SOURCE};-B;${work};-DCMAKE_PREFIX_PATH=${prefix};-DCMAKE_CXX_COMPILER=${CXX};-DSANITIZE=${SANITIZE}"
    "${CMAKE_COMMAND};--build;${work}"
    "${work}/consumer"
    "${prefix}/bin/downhaul;--version")
  execute_process(COMMAND ${step} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${step}\nended with ${result}:\n${output}")
  endif()
endforeach()
