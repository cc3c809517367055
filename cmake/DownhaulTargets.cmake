# One function per kind of target, so that every folder of src/ is a library in a few lines.

add_library(downhaul_options INTERFACE)
target_compile_options(downhaul_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow
  -Wno-missing-field-initializers -fno-math-errno -ffp-contract=off)
# GCC 12 sees uninitialised members inside moved-from variants where there are none.
target_compile_options(downhaul_options INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
# The library of GCC 12 uses in stable_sort what it declares deprecated; GCC still checks the rest.
target_compile_options(downhaul_options INTERFACE
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
if(DOWNHAUL_WERROR)
  target_compile_options(downhaul_options INTERFACE -Werror)
endif()
target_include_directories(downhaul_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(DOWNHAUL_SANITIZE)
  target_compile_options(downhaul_options INTERFACE -fsanitize=${DOWNHAUL_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(downhaul_options INTERFACE -fsanitize=${DOWNHAUL_SANITIZE})
endif()

# downhaul_library(NAME [DEPS lib...] [LINK external...])
# Takes every *.cc of the current folder and below as source; every *_test.cc becomes one test
# executable NAME_test; every FOO_bench.cc an executable FOO_bench.
function(downhaul_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(TRANSFORM ARG_DEPS PREPEND downhaul_)
  add_library(downhaul_${name} STATIC ${sources})
  target_link_libraries(downhaul_${name} PUBLIC downhaul_options ${ARG_DEPS} PRIVATE ${ARG_LINK})
  if(DOWNHAUL_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE downhaul_${name} ${ARG_LINK} GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE DH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    add_test(NAME ${name}_test COMMAND ${name}_test)
    foreach(bench ${benches})
      get_filename_component(bench_name ${bench} NAME_WE)
      add_executable(${bench_name} ${bench})
      target_link_libraries(${bench_name} PRIVATE downhaul_${name} ${ARG_LINK})
    endforeach()
  endif()
endfunction()
