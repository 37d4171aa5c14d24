// One tile of queries against one tile of keys: staging, scores, products.
//
// A block of threads is 16 x 16; thread (y, x) owns a square of pairs: rows y of its own side (the
// side whose results the block writes) and rows x of the other side. A block program is a sequence
// of steps; in a step every thread runs the same function, and a barrier ends the step.
#pragma once

#include "scalar.cuh"

namespace fk {

constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;
constexpr int kChunk = 16;    // features staged at once
constexpr int kProduct = 8;   // factors multiplied before the exponent is taken out

// Pairs of one thread are edge x edge: as many rows as one load of 16 bytes holds.
template <class Real>
struct Tile {
  static constexpr int edge = 16 / int(sizeof(Real));
  static constexpr int rows = kSide * edge;
  static constexpr int stride = rows + edge;  // the padding keeps 16-byte loads free of conflicts
};

template <class Real>
struct alignas(16) Pack {
  Real at[Tile<Real>::edge];
};

template <class Real>
FK_HD const Pack<Real>& pack_at(const Real* from) {
  return *reinterpret_cast<const Pack<Real>*>(from);
}

// Everything the kernels read and write; arrays that a kernel does not use are null.
//   packed features  (B H, D', 3, rows'): u, sin u, cos u of every feature
//   packed columns   (B H, C', rows')
// with D' and C' multiples of kChunk or of the columns staged at once, rows' of the tile's rows;
// what is beyond D, C and rows is zero (cosines one).
template <class Real>
struct Problem {
  const Real* query;   // packed features of the queries
  const Real* key;     // packed features of the keys
  const Real* value;   // packed columns of the values
  const Real* grad;    // packed columns of the output's gradient
  const Real* radius;  // (H, D)
  const Real* delta;   // (B H, N): sum over columns of gradient times output
  const unsigned char* attend;  // boolean mask, true attends
  const Real* bias;             // additive mask
  long long mask_stride[4];     // in elements, for (B, H, N, M); zero where it is broadcast
  Real* output;                 // (B H, N, C)
  Real* significand;            // (B H, N): sum of weights + eps = significand 2^exponent
  int* exponent;                // (B H, N)
  Real* query_grad;             // (B H, N, D)
  Real* key_grad;               // (B H, M, D)
  Real* value_grad;             // (B H, M, C)
  int batches, heads, queries, keys, features, columns;
  int padded_queries, padded_keys, padded_features, padded_columns;
  int power, causal;
  double eps;
};

FK_HD int ceil_div(int a, int b) { return (a + b - 1) / b; }

// ---- who runs a step ---------------------------------------------------------------------------

template <class State>
struct BlockThreads {
  State state;
  template <class Step>
  __device__ __forceinline__ void each(Step step) {
    step(int(threadIdx.x), state);
    __syncthreads();
  }
};

// ---- staging -----------------------------------------------------------------------------------

// Copies `count` lines of one tile's rows into shared memory.
template <class Real>
FK_HD void stage(int thread, Real* to, const Real* from, int padded, int count) {
  using T = Tile<Real>;
  for (int k = thread; k < count * kSide; k += kThreads) {
    const int line = k / kSide, part = (k % kSide) * T::edge;
    *reinterpret_cast<Pack<Real>*>(to + line * T::stride + part) =
        pack_at(from + (long long)line * padded + part);
  }
}

// ---- weights of the pairs of one thread --------------------------------------------------------

template <class Real>
struct Pairs {
  Scaled<Real> weight[Tile<Real>::edge][Tile<Real>::edge];
  FK_HD void reset() {
    FK_UNROLL for (int a = 0; a < Tile<Real>::edge; ++a)
      FK_UNROLL for (int b = 0; b < Tile<Real>::edge; ++b) weight[a][b] = {Real(1), 0};
  }
};

// Multiplies the weights by the factors of one staged chunk of features.
template <class Real>
FK_HD void multiply_chunk(int y, int x, const Real* own, const Real* other, Pairs<Real>& pairs) {
  using T = Tile<Real>;
  constexpr int E = T::edge;
  FK_UNROLL for (int half = 0; half < kChunk; half += kProduct) {
    Real numerator[E][E], denominator[E][E];
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) numerator[a][b] = denominator[a][b] = Real(1);
    FK_UNROLL for (int d = half; d < half + kProduct; ++d) {
      const Real* mine = own + 3 * d * T::stride + y * E;
      const Real* theirs = other + 3 * d * T::stride + x * E;
      const Pack<Real> u = pack_at(mine), su = pack_at(mine + T::stride);
      const Pack<Real> cu = pack_at(mine + 2 * T::stride), v = pack_at(theirs);
      const Pack<Real> sv = pack_at(theirs + T::stride), cv = pack_at(theirs + 2 * T::stride);
      FK_UNROLL for (int a = 0; a < E; ++a)
        FK_UNROLL for (int b = 0; b < E; ++b)
          multiply_sinc(u.at[a] - v.at[b],
                        sine_of_difference(su.at[a], cu.at[a], sv.at[b], cv.at[b]),
                        numerator[a][b], denominator[a][b]);
    }
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b)
        multiply(pairs.weight[a][b], divide(numerator[a][b], denominator[a][b]));
  }
}

// The problem of one head: its masks begin where the head's do.
template <class Real>
FK_HD Problem<Real> of_head(Problem<Real> p, int head) {
  const long long at =
      (head / p.heads) * p.mask_stride[0] + (head % p.heads) * p.mask_stride[1];
  if (p.attend) p.attend += at;
  if (p.bias) p.bias += at;
  return p;
}

// Turns the products of the pairs of rows `own`, ... and `other`, ... into weights: bounds, mask,
// power. KEYS: the own rows are keys. What all pairs share is decided outside the loops.
template <bool KEYS, class Real>
FK_HD void finish(const Problem<Real>& p, int own, int other, Pairs<Real>& pairs) {
  constexpr int E = Tile<Real>::edge;
  FK_UNROLL for (int a = 0; a < E; ++a)
    FK_UNROLL for (int b = 0; b < E; ++b) {
      const int i = KEYS ? other + b : own + a, j = KEYS ? own + a : other + b;
      const bool inside = i < p.queries && j < p.keys && !(p.causal && j > i);
      if (!inside) pairs.weight[a][b].exponent = kNone;
    }
  if (p.attend) {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) {
        const long long i = KEYS ? other + b : own + a, j = KEYS ? own + a : other + b;
        int& exponent = pairs.weight[a][b].exponent;
        if (exponent != kNone && !p.attend[i * p.mask_stride[2] + j * p.mask_stride[3]])
          exponent = kNone;
      }
  }
  if (p.power == 4) {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) pairs.weight[a][b] = fourth_power(pairs.weight[a][b]);
  } else {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) pairs.weight[a][b] = power_of(pairs.weight[a][b], p.power);
  }
  if (p.bias) {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) {
        const long long i = KEYS ? other + b : own + a, j = KEYS ? own + a : other + b;
        Scaled<Real>& weight = pairs.weight[a][b];
        if (weight.exponent != kNone)
          multiply_exp(weight, p.bias[i * p.mask_stride[2] + j * p.mask_stride[3]]);
      }
  }
}

// ---- products of a staged matrix of pairs with staged columns ----------------------------------

// sum[a][c] += sum_j pairs[row a][j] columns[c][j] for the columns c = x, x + 16, ... of the stage.
template <class Real, int COUNT>
FK_HD void add_columns(int y, int x, const Real* pairs, const Real* columns,
                       Real (&sum)[Tile<Real>::edge][COUNT]) {
  using T = Tile<Real>;
  constexpr int E = T::edge;
  for (int j = 0; j < T::rows; j += E) {
    Pack<Real> row[E];
    FK_UNROLL for (int a = 0; a < E; ++a) row[a] = pack_at(pairs + (y * E + a) * T::stride + j);
    FK_UNROLL for (int c = 0; c < COUNT; ++c) {
      const Pack<Real> column = pack_at(columns + (c * kSide + x) * T::stride + j);
      FK_UNROLL for (int a = 0; a < E; ++a)
        FK_UNROLL for (int k = 0; k < E; ++k)
          sum[a][c] = std::fma(row[a].at[k], column.at[k], sum[a][c]);
    }
  }
}

// product[a][b] += sum_c own[c][row a] other[c][row b] over `count` staged columns.
template <class Real>
FK_HD void add_products(int y, int x, const Real* own, const Real* other, int count,
                        Real (&product)[Tile<Real>::edge][Tile<Real>::edge]) {
  using T = Tile<Real>;
  constexpr int E = T::edge;
  for (int c = 0; c < count; ++c) {
    const Pack<Real> mine = pack_at(own + c * T::stride + y * E);
    const Pack<Real> theirs = pack_at(other + c * T::stride + x * E);
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b)
        product[a][b] = std::fma(mine.at[a], theirs.at[b], product[a][b]);
  }
}

// sum[a] += sum_j slopes[row a][j] t(own a - other j) for feature x of the staged chunk, with
// t = d log sinc / dx.
template <class Real>
FK_HD void add_slopes(int y, int x, const Real* slopes, const Real* own, const Real* other,
                      Real (&sum)[Tile<Real>::edge]) {
  using T = Tile<Real>;
  constexpr int E = T::edge;
  const Real* mine = own + 3 * x * T::stride + y * E;
  const Real* theirs = other + 3 * x * T::stride;
  const Pack<Real> u = pack_at(mine), su = pack_at(mine + T::stride);
  const Pack<Real> cu = pack_at(mine + 2 * T::stride);
  for (int j = 0; j < T::rows; j += E) {
    const Pack<Real> v = pack_at(theirs + j), sv = pack_at(theirs + T::stride + j);
    const Pack<Real> cv = pack_at(theirs + 2 * T::stride + j);
    FK_UNROLL for (int a = 0; a < E; ++a) {
      const Pack<Real> row = pack_at(slopes + (y * E + a) * T::stride + j);
      FK_UNROLL for (int k = 0; k < E; ++k) {
        const Real s = sine_of_difference(su.at[a], cu.at[a], sv.at[k], cv.at[k]);
        const Real c = std::fma(cu.at[a], cv.at[k], su.at[a] * sv.at[k]);
        sum[a] = std::fma(row.at[k], log_sinc_slope(u.at[a] - v.at[k], s, c), sum[a]);
      }
    }
  }
}

}  // namespace fk
