include(CMakeFindDependencyMacro)
find_dependency(ZLIB)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/downhaulTargets.cmake)
