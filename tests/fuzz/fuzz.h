#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// What a fuzz target defines. A run must end without a signal, whatever the bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Good inputs to start from.
std::vector<std::vector<uint8_t>> fuzz_seeds();
