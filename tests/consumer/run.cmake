# Installs BUILD into a fresh prefix, configures, builds and runs the project in SOURCE against it.
set(prefix ${BUILD}/consumer/prefix)
set(work ${BUILD}/consumer/build)
file(REMOVE_RECURSE ${BUILD}/consumer)

function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${result}:\n${output}")
  endif()
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${work} -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_C_COMPILER=${CC}
  -DCMAKE_CXX_COMPILER=${CXX} -DSANITIZE=${SANITIZE} -DEXAMPLES=${EXAMPLES})
step(${CMAKE_COMMAND} --build ${work})
step(${work}/consumer)
step(${work}/run_model ${MODEL} 2)
step(${prefix}/bin/downhaul --version)
if(SHARED)
  step(${work}/consumer_c ${MODEL})
  # The shared library offers the C interface and nothing else.
  file(GLOB library ${prefix}/lib*/libdownhaul.so ${prefix}/lib*/*/libdownhaul.so)
  execute_process(COMMAND nm -D --defined-only ${library} RESULT_VARIABLE result
    OUTPUT_VARIABLE symbols)
  string(REGEX REPLACE "[0-9a-f]+ [A-Za-z] dh_[a-z_]+\n" "" others "${symbols}")
  if(NOT result EQUAL 0 OR symbols STREQUAL "" OR NOT others STREQUAL "")
    message(FATAL_ERROR "${library} exports more than dh_*:\n${others}")
  endif()
endif()
