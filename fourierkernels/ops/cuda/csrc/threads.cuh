// Who runs a step of a block program.
//
// A block of threads is 16 x 16; thread (y, x) owns a square of pairs: rows y of its own side (the
// side whose results the block writes) and rows x of the other side. A block program is a sequence
// of steps; in a step every thread runs the same function, and a barrier ends the step.
#pragma once

#include "problem.cuh"

namespace fk {

template <class State>
struct BlockThreads {
  State state;
  template <class Step>
  __device__ __forceinline__ void each(Step step) {
    step(int(threadIdx.x), state);
    __syncthreads();
  }
  // Whether the step says so in any thread.
  template <class Step>
  __device__ __forceinline__ bool any(Step step) {
    return __syncthreads_or(step(int(threadIdx.x), state));
  }
};

}  // namespace fk
