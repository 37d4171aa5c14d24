// Launchers of Fourier attention: raw pointers and a stream, no torch; each returns the error.
//
// One library holds one precision (FK_REAL) and one size (FK_SIZE: the features and columns it can
// take, a multiple of 16), so that a first use compiles four kernels and not forty. The tests
// compile the same file without nvcc, over an emulation of blocks, barriers and shared memory.
#include "backward.cuh"
#include "forward.cuh"
#include "pack.cuh"

#ifndef FK_REAL
#define FK_REAL float
#endif
#ifndef FK_SIZE
#define FK_SIZE 64
#endif

using namespace fk;
using Real = FK_REAL;
static_assert(FK_SIZE % kChunk == 0, "FK_SIZE must be a multiple of 16");

// ---- running -----------------------------------------------------------------------------------

// Small problems: two blocks share a multiprocessor. Large ones need the registers of both.
constexpr int kBlocks = FK_SIZE * sizeof(Real) <= 256 ? 2 : 1;

constexpr long long kLargestGrid = 0x7fffffff;

__global__ void __launch_bounds__(kThreads) pack_kernel(Packing<Real> p, long long first) {
  extern __shared__ __align__(16) char memory[];
  BlockThreads<PackState<Real>> threads;
  pack_block(threads, p, first + blockIdx.x, memory);
}

__global__ void __launch_bounds__(kThreads, kBlocks)
forward_kernel(Problem<Real> p, long long first) {
  extern __shared__ __align__(16) char memory[];
  BlockThreads<ForwardState<Real, FK_SIZE>> threads;
  forward_block<Real, FK_SIZE>(threads, p, first + blockIdx.x, memory);
}

__global__ void __launch_bounds__(kThreads, kBlocks)
backward_kernel(Problem<Real> p, long long first) {
  extern __shared__ __align__(16) char memory[];
  BlockThreads<BackwardState<Real, FK_SIZE>> threads;
  backward_block<Real, FK_SIZE>(threads, p, first + blockIdx.x, memory);
}

__global__ void __launch_bounds__(kThreads) splits_kernel(Problem<Real> p, long long first) {
  const long long at = (first + blockIdx.x) * kThreads + threadIdx.x;
  if (at < p.head_count * p.features * p.queries) add_splits(p, at);
}

// Runs any number of blocks, in grids that CUDA allows.
template <class Kernel, class Argument>
static int launch(Kernel kernel, const Argument& p, long long blocks, size_t bytes, void* stream) {
  if (blocks == 0) return cudaSuccess;
  // A block has more than 48 KB of shared memory only on request.
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
  for (long long first = 0; first < blocks && error == cudaSuccess; first += kLargestGrid) {
    const long long left = blocks - first, count = left < kLargestGrid ? left : kLargestGrid;
    kernel<<<unsigned(count), kThreads, bytes, static_cast<cudaStream_t>(stream)>>>(p, first);
    error = cudaGetLastError();
  }
  return error;
}

// Blocks of one thread a number.
static long long blocks_for(long long numbers) { return (numbers + kThreads - 1) / kThreads; }

static int run_backward(const Problem<Real>& p, void* stream) {
  return launch(backward_kernel, p, p.head_count * p.splits, BackwardShared<Real>::bytes(), stream);
}

extern "C" const char* fk_error(int error) { return cudaGetErrorString(cudaError_t(error)); }

// ---- entry points ------------------------------------------------------------------------------

extern "C" int fk_problem_size() { return int(sizeof(Problem<Real>)); }

extern "C" int fk_packing_size() { return int(sizeof(Packings<Real>)); }

extern "C" int fk_tile_rows() { return Tile<Real>::rows; }

extern "C" int fk_pack(const Packings<Real>* packings, void* stream) {
  int error = cudaSuccess;
  for (const Packing<Real>& part : packings->part)
    if (error == cudaSuccess)
      error = launch(pack_kernel, part, blocks_of(part), pack_bytes<Real>(), stream);
  return error;
}

extern "C" int fk_forward(const Problem<Real>* problem, void* stream) {
  const long long blocks = problem->head_count * ceil_div(problem->queries, Tile<Real>::rows);
  return launch(forward_kernel, *problem, blocks, ForwardShared<Real>::bytes(), stream);
}

// The gradients of queries, keys, values and, if there is room for it, of an additive mask.
extern "C" int fk_gradients(const Problem<Real>* problem, void* stream) {
  const int error = run_backward(*problem, stream);
  const long long numbers = problem->head_count * problem->features * problem->queries;
  return error ? error : launch(splits_kernel, *problem, blocks_for(numbers), 0, stream);
}

// The weights, from the totals that the forward pass has left.
extern "C" int fk_weights(const Problem<Real>* problem, void* stream) {
  Problem<Real> p = *problem;
  p.grad = p.value;  // not read, but addresses are reckoned from it
  p.plain_grad = p.plain_value;
  return run_backward(p, stream);
}
