#pragma once

#include <cstdint>
#include <functional>

namespace downhaul {

/// How many threads `parallel_for` may use; 1 at start. Not to be called while one runs.
void set_num_threads(int n);
int num_threads();

/// Calls `body(begin, end)` for pieces that cover [0, count) once each, on up to num_threads()
/// threads; returns when all are done. Pieces are contiguous and at least `grain` long (but for the
/// last), so that small work stays on the caller. `body` must compute each index by itself alone:
/// then results do not depend on the number of threads. Calls from inside `body` run serially.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace downhaul
