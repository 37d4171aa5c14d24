// What the kernels read and write, and how it is laid out.
#pragma once

#include "angles.cuh"
#include "philox.cuh"

namespace fk {

constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;
constexpr int kChunk = 16;   // features staged at once, and what columns are padded to
constexpr int kProduct = 8;  // factors multiplied before the exponent is taken out

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

// Arrays that a kernel does not use are null. Those of a head are apart by packed_stride:
//   packed features  (3 D' + 1, rows'): u, sin u, cos u of every feature, and the row's reach
//   packed columns   (C' + 1, rows'), and the row's flaw
// with D' and C' multiples of kChunk, rows' of the tile's rows; what is beyond D, C and rows is zero
// (cosines one). The reach is the largest |u|. Numbers that are not finite are packed as zeros, which
// spread nowhere: then reach and flaw are NaN, else the flaw is zero.
template <class Real>
struct Problem {
  const Real* query;        // packed features of the queries
  const Real* key;          // packed features of the keys
  const Real* value;        // packed columns of the values
  const Real* grad;         // packed columns of the output's gradient
  const Real* plain_value;  // (B H, M, C), as given
  const Real* plain_grad;   // (B H, N, C), as given
  const Real* radius;       // (H, D)
  const Real* delta;        // (B H, N): dO . O, and W . dW where weights have a gradient
  const Real* weights_grad;     // (B H, N, M)
  const long long* seed;        // of dropout
  const unsigned char* attend;  // boolean mask, true attends
  const Real* bias;             // additive mask
  Real* output;                 // (B H, N, C)
  Real* significand;            // (B H, N): sum of weights + eps = significand 2^exponent
  int* exponent;                // (B H, N)
  Real* weights;                // (B H, N, M)
  Real* query_sums;             // (head_count, splits, D', N'): over R, by blocks of keys; zeros
  Real* query_grad;             // (B H, N, D)
  Real* key_grad;               // (B H, M, D)
  Real* value_grad;             // (B H, M, C)
  Real* bias_grad;              // (head_count, N, M)
  long long mask_stride[4];     // in elements, for (B, H, N, M); zero where it is broadcast
  long long packed_stride, grad_stride;
  long long first_head, head_count;  // of batches times heads: what is computed
  int heads, queries, keys, features, columns;
  int padded_queries, padded_keys, padded_features, padded_columns;
  int splits;  // of the keys of a head: as many blocks of its backward pass
  int power, causal;
  unsigned threshold;  // least random word that keeps a weight
  double eps, keep_scale;
};

FK_HD int ceil_div(int a, int b) { return int(((long long)a + b - 1) / b); }

template <class Real>
FK_HD bool masked(const Problem<Real>& p) {
  return p.attend || p.bias;
}

// The problem of one head: its masks begin where the head's do.
template <class Real>
FK_HD Problem<Real> of_head(Problem<Real> p, long long head) {
  const long long at =
      (head / p.heads) * p.mask_stride[0] + (head % p.heads) * p.mask_stride[1];
  if (p.attend) p.attend += at;
  if (p.bias) p.bias += at;
  return p;
}

template <class Real>
struct Features {
  const Real *lines, *reach;  // (3 D', rows'), (rows')
  int rows, padded;
};

template <class Real>
FK_HD Features<Real> features_of(const Problem<Real>& p, bool keys, long long head) {
  const int padded = keys ? p.padded_keys : p.padded_queries;
  const Real* lines = (keys ? p.key : p.query) + head * p.packed_stride;
  return {lines, lines + 3ll * p.padded_features * padded, keys ? p.keys : p.queries, padded};
}

template <class Real>
struct Columns {
  const Real *lines, *flaws;  // (C', rows'), (rows')
  const Real* plain;          // (rows, C)
  int rows, padded;
};

template <class Real>
FK_HD Columns<Real> columns_of(const Problem<Real>& p, bool keys, long long head) {
  const int padded = keys ? p.padded_keys : p.padded_queries;
  const int rows = keys ? p.keys : p.queries;
  const Real* lines = keys ? p.value + head * p.packed_stride : p.grad + head * p.grad_stride;
  const Real* plain = (keys ? p.plain_value : p.plain_grad) + head * rows * p.columns;
  return {lines, lines + (long long)p.padded_columns * padded, plain, rows, padded};
}

}  // namespace fk
