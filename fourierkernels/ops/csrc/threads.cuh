// Who runs a step of a block program.
//
// A block of threads is 16 x 16; thread (y, x) owns a square of pairs: rows y of its own side (the
// side whose results the block writes) and rows x of the other side. A block program is a sequence
// of steps; in a step every thread runs the same function, and a barrier ends the step. On a GPU
// the steps are run by the threads of a block, on a host by a loop over them, so that the program
// itself, indices and barriers included, can be tested without a GPU.
#pragma once

#include "problem.cuh"

namespace fk {

#ifdef __CUDACC__
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
#else

// Threads of a step in an order of choice: a program without races gives the same in each.
template <class State>
struct SerialThreads {
  State* states;
  int order;  // odd
  template <class Step>
  void each(Step step) {
    for (int i = 0; i < kThreads; ++i) {
      const int thread = (i * order) % kThreads;
      step(thread, states[thread]);
    }
  }
  template <class Step>
  bool any(Step step) {
    bool result = false;
    each([&](int thread, State& state) { result |= step(thread, state); });
    return result;
  }
};

#endif

}  // namespace fk
