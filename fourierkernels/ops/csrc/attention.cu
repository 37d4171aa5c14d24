// Launchers of Fourier attention: raw pointers and a stream, no torch; each returns the error.
//
// One library holds one precision (FK_REAL) and one size (FK_SIZE: the features and columns it can
// take, a multiple of 16), so that a first use compiles four kernels and not forty. The tests
// compile the same file without nvcc, over an emulation of blocks, barriers and shared memory.
#include "backward.cuh"
#include "forward.cuh"

#ifndef FK_REAL
#define FK_REAL float
#endif
#ifndef FK_SIZE
#define FK_SIZE 64
#endif

using namespace fk;
using Real = FK_REAL;
static_assert(FK_SIZE % kChunk == 0, "FK_SIZE must be a multiple of 16");

// ---- packing -----------------------------------------------------------------------------------

struct Packing {
  const Real *rows, *radius, *centre;  // (B H, n, width), (H, width), (B H, width); last two may be null
  Real* packed;
  int batches_heads, heads, n, width, padded_n, padded_width;
};

// One entry, `at` in (B H, width', rows'). The offset that queries and keys share is removed in
// double: only differences count, and it would cost their digits.
FK_HD void pack_one(const Packing& p, long long at) {
  const int row = int(at % p.padded_n), d = int(at / p.padded_n % p.padded_width);
  const int head = int(at / p.padded_n / p.padded_width);
  const bool inside = row < p.n && d < p.width;
  const Real given = inside ? p.rows[((long long)head * p.n + row) * p.width + d] : Real(0);
  if (p.radius == nullptr) {
    p.packed[at] = given;
    return;
  }
  const long long line = ((long long)head * p.padded_width + d) * 3 * p.padded_n + row;
  double offset = 0.0, radius = 0.0;
  if (inside) {
    offset = double(given) - double(p.centre[(long long)head * p.width + d]);
    radius = double(p.radius[(long long)(head % p.heads) * p.width + d]);
  }
  const Real u = Real(radius * offset);
  const SineCosine angle = sine_cosine(double(u));
  p.packed[line] = u;
  p.packed[line + p.padded_n] = Real(angle.sine);
  p.packed[line + 2 * p.padded_n] = Real(angle.cosine);
}

inline long long entries(const Packing& p) {
  return (long long)p.batches_heads * p.padded_width * p.padded_n;
}

inline int forward_blocks(const Problem<Real>& p) {
  return p.batches * p.heads * ceil_div(p.queries, Tile<Real>::rows);
}

inline int backward_blocks(const Problem<Real>& p, bool keys) {
  return p.batches * p.heads * ceil_div(keys ? p.keys : p.queries, Tile<Real>::rows);
}

// ---- running -----------------------------------------------------------------------------------

// Small problems: two blocks share a multiprocessor. Large ones need the registers of both.
constexpr int kBlocks = FK_SIZE * sizeof(Real) <= 256 ? 2 : 1;

__global__ void __launch_bounds__(256) pack_kernel(Packing p, long long count) {
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) pack_one(p, at);
}

__global__ void __launch_bounds__(kThreads, kBlocks) forward_kernel(Problem<Real> p) {
  extern __shared__ __align__(16) char memory[];
  BlockThreads<ForwardState<Real, FK_SIZE>> threads;
  forward_block<Real, FK_SIZE>(threads, p, blockIdx.x, memory);
}

template <bool KEYS>
__global__ void __launch_bounds__(kThreads, kBlocks) backward_kernel(Problem<Real> p) {
  extern __shared__ __align__(16) char memory[];
  BlockThreads<BackwardState<Real, FK_SIZE, KEYS>> threads;
  backward_block<Real, FK_SIZE, KEYS>(threads, p, blockIdx.x, memory);
}

template <class Kernel>
static int launch(Kernel kernel, const Problem<Real>& p, int blocks, size_t bytes, void* stream) {
  if (blocks == 0) return cudaSuccess;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
  if (error != cudaSuccess) return error;
  kernel<<<blocks, kThreads, bytes, static_cast<cudaStream_t>(stream)>>>(p);
  return cudaGetLastError();
}

static int run_pack(const Packing& p, void* stream) {
  const long long count = entries(p);
  if (count == 0) return cudaSuccess;
  const unsigned blocks = unsigned((count + 255) / 256);
  pack_kernel<<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(p, count);
  return cudaGetLastError();
}

static int run_forward(const Problem<Real>& p, void* stream) {
  return launch(forward_kernel, p, forward_blocks(p), ForwardShared<Real>::bytes(), stream);
}

template <bool KEYS>
static int run_backward(const Problem<Real>& p, void* stream) {
  return launch(backward_kernel<KEYS>, p, backward_blocks(p, KEYS),
                BackwardShared<Real, KEYS>::bytes(), stream);
}

extern "C" const char* fk_error(int error) { return cudaGetErrorString(cudaError_t(error)); }

// ---- entry points ------------------------------------------------------------------------------

extern "C" int fk_problem_size() { return int(sizeof(Problem<Real>)); }

extern "C" int fk_packing_size() { return int(sizeof(Packing)); }

extern "C" int fk_tile_rows() { return Tile<Real>::rows; }

extern "C" int fk_pack(const Packing* packing, void* stream) { return run_pack(*packing, stream); }

extern "C" int fk_forward(const Problem<Real>* problem, void* stream) {
  return run_forward(*problem, stream);
}

extern "C" int fk_backward(const Problem<Real>* problem, void* stream) {
  const int error = run_backward<false>(*problem, stream);
  return error ? error : run_backward<true>(*problem, stream);
}
