// CUDA for a machine without one: enough of the runtime for the sources of fourierkernels/ops/csrc
// to be compiled by g++, the branch for nvcc and no other. README.md says what this shows.
//
// Included ahead of the sources. emulated_sources.py rewrites what is not C++: launches, dynamic
// shared memory and PTX. EMULATION_THREADS chooses a real thread for each lane; otherwise the lanes
// of a block are fibres of one thread, which is fast enough for a test suite.
#pragma once

// The standard library first: its headers must not see the macros below.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#define __CUDACC__ 1
#define __CUDA_ARCH__ 800
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

#include "lanes.h"

#ifdef EMULATION_THREADS
#include "real_threads.h"
#else
#include "fibres.h"
#endif

#include "launch.h"
#include "warps.h"
#include "arithmetic.h"
