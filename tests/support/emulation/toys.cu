// Small kernels that show what the emulation has, and faults that it must report.
#include <cuda_runtime.h>

template <class Kernel>
static int asked(Kernel kernel, int bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// ---- what works --------------------------------------------------------------------------------

__global__ void __launch_bounds__(256) reverse(const float* from, float* to) {
  extern __shared__ __align__(16) float memory[];
  const int lane = threadIdx.x, n = blockDim.x;
  memory[lane] = from[blockIdx.x * n + lane];
  __syncthreads();
  to[blockIdx.x * n + lane] = memory[n - 1 - lane];
}

extern "C" int run_reverse(const float* from, float* to, int blocks, int lanes) {
  reverse<<<blocks, lanes, lanes * sizeof(float)>>>(from, to);
  return cudaGetLastError();
}

// The total of a block: within warps by shuffles, across them through a __shared__ array.
template <class T>
__global__ void total(const T* from, T* to) {
  __shared__ T of_warp[8];
  T sum = from[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  *to = T(0);
  for (int warp = 0; warp < int(blockDim.x) / 32; ++warp) *to += of_warp[warp];
}

extern "C" int run_total(const double* from, double* to) {
  total<double><<<1, 256>>>(from, to);
  return cudaGetLastError();
}

__global__ void votes(const int* given, int* found) {
  const int lane = threadIdx.x, mine = given[lane];
  const unsigned all = 0xffffffffu;
  int* to = found + 8 * lane;
  to[0] = __syncthreads_or(mine);
  to[1] = __syncthreads_and(mine);
  to[2] = __syncthreads_count(mine);
  to[3] = int(__ballot_sync(all, mine));
  to[4] = __any_sync(all, mine);
  to[5] = __all_sync(all, mine);
  const bool odd = lane % 2;  // two halves of a warp that meet apart
  to[6] = int(odd ? __ballot_sync(0xaaaaaaaau, mine) : __ballot_sync(0x55555555u, mine));
  __syncwarp();
  to[7] = int(threadIdx.y + threadIdx.z + gridDim.x);
}

extern "C" int run_votes(const int* given, int* found) {
  votes<<<1, 64>>>(given, found);
  return cudaGetLastError();
}

__global__ void shuffles(int* found) {
  const int lane = threadIdx.x;
  const unsigned all = 0xffffffffu;
  found[4 * lane] = __shfl_sync(all, lane, 3, 8);
  found[4 * lane + 1] = __shfl_up_sync(all, lane, 2, 16);
  found[4 * lane + 2] = __shfl_down_sync(all, lane, 5);
  found[4 * lane + 3] = __shfl_xor_sync(all, lane, 9);
}

extern "C" int run_shuffles(int* found) {
  shuffles<<<1, 32>>>(found);
  return cudaGetLastError();
}

__global__ void count(const int* from, int* counts, float* sum) {
  atomicAdd(&counts[from[threadIdx.x]], 1);
  atomicAdd(sum, 0.5f);
}

extern "C" int run_count(const int* from, int* counts, float* sum) {
  count<<<3, 64>>>(from, counts, sum);
  return cudaGetLastError();
}

extern "C" void run_quotients(const float* a, const float* b, float* quotient, float* inverse,
                              int n) {
  for (int i = 0; i < n; ++i) {
    quotient[i] = __fdividef(a[i], b[i]);
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse[i]) : "f"(b[i]));
  }
}

// The order in which the lanes of a block reach each of two intervals between barriers.
__global__ void orders(int* seen, int* count) {
  seen[atomicAdd(count, 1)] = int(threadIdx.x);
  __syncthreads();
  seen[atomicAdd(count, 1)] = int(threadIdx.x);
}

extern "C" int run_orders(int* seen, int* count) {
  orders<<<1, 64>>>(seen, count);
  return cudaGetLastError();
}

// ---- what must be reported ---------------------------------------------------------------------

// Reads what nobody wrote: shared memory, then registers.
__global__ void unwritten(float* shared, float* own) {
  extern __shared__ float memory[];
  float registers[8];
  asm volatile("" : : "r"(registers) : "memory");  // hides from g++ that nothing writes them
  shared[threadIdx.x] = memory[threadIdx.x];
  own[threadIdx.x] = registers[threadIdx.x % 8];
}

extern "C" int run_unwritten(float* shared, float* own) {
  unwritten<<<1, 32, 32 * sizeof(float)>>>(shared, own);
  return cudaGetLastError();
}

enum Fault { kReturns, kElsewhere, kBeyond, kBefore, kNobody, kNoPart, kNone };

template <int INSTANCE>
__device__ void meeting() {
  __syncthreads();
}

__global__ void faulty(Fault fault) {
  extern __shared__ char memory[];
  const int lane = threadIdx.x;
  if (fault == kReturns && lane == 7) return;
  if (fault == kElsewhere && lane == 7)
    meeting<1>();
  else
    meeting<0>();
  if (fault == kBeyond && lane == 7) memory[64] = 0;
  if (fault == kBefore && lane == 7) memory[-1] = 0;
  if (fault == kNobody && lane != 7) __syncwarp();
  if (fault == kNoPart && lane == 7) __syncwarp(0x0000ffu >> 1);
}

extern "C" int run_faulty(int fault) {
  faulty<<<1, 64, 64>>>(Fault(fault));
  return cudaGetLastError();
}

// More shared memory than was asked for, then more than there is.
extern "C" int run_greedy(int asked_for, int launched_with) {
  if (asked_for > 0) {
    const int error = asked(faulty, asked_for);
    if (error != cudaSuccess) return error;
  }
  faulty<<<1, 32, launched_with>>>(kNone);
  return cudaGetLastError();
}

extern "C" const char* message(int error) { return cudaGetErrorString(error); }
