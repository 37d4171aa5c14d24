// Forward: one block computes the outputs of one tile of queries of one head.
//
// As in fused softmax attention no N x M array is stored. The largest exponent of a row so far
// takes the place of its maximum; rescaling by a power of two rounds nothing. eps enters as a key
// more, of value zero.
#pragma once

#include "tile.cuh"

namespace fk {

template <class Real, int SIZE>
struct ForwardState {
  static constexpr int edge = Tile<Real>::edge;
  static constexpr int columns = SIZE >= 2 * kSide ? 2 : 1;  // of one thread, staged at once
  static constexpr int stages = SIZE / (columns * kSide);
  Pairs<Real> pairs;
  int top[edge];
  Real total[edge];
  Real sum[stages][edge][columns];
};

template <class Real>
struct ForwardShared {
  static constexpr int lines = 3 * kChunk;
  Real *own, *other;  // staged queries; staged keys, then values
  Real* pairs;        // weights of the tile
  int* peaks;         // (rows, 16): largest exponent that each thread of a row saw

  FK_HD explicit ForwardShared(char* memory) {
    own = reinterpret_cast<Real*>(memory);
    other = own + lines * Tile<Real>::stride;
    pairs = other + lines * Tile<Real>::stride;
    peaks = reinterpret_cast<int*>(pairs + Tile<Real>::rows * Tile<Real>::stride);
  }
  static constexpr size_t bytes() {
    return sizeof(Real) * Tile<Real>::stride * (2 * lines + Tile<Real>::rows) +
           sizeof(int) * Tile<Real>::rows * kSide;
  }
};

template <class Real>
FK_HD void start(const Problem<Real>& p, Real total[], int top[]) {
  Scaled<Real> eps = {Real(p.eps), 0};
  if (p.eps > 0) renormalise(eps);
  FK_UNROLL for (int a = 0; a < Tile<Real>::edge; ++a) {
    total[a] = Real(0);  // eps is added at the end, once
    top[a] = p.eps > 0 ? eps.exponent : kNone;
  }
}

// Moves a row to a new largest exponent and returns the weights relative to it.
template <class Real, int SIZE>
FK_HD void normalise(int y, int x, const int* peaks, ForwardState<Real, SIZE>& state, Real* pairs) {
  using T = Tile<Real>;
  FK_UNROLL for (int a = 0; a < T::edge; ++a) {
    const int row = y * T::edge + a;
    int top = state.top[a];
    FK_UNROLL for (int k = 0; k < kSide; ++k) {
      const int peak = peaks[row * kSide + k];
      top = peak > top ? peak : top;
    }
    const Real scale = two_to<Real>(state.top[a] - top);
    state.top[a] = top;
    state.total[a] *= scale;
    FK_UNROLL for (int s = 0; s < state.stages; ++s)
      FK_UNROLL for (int c = 0; c < state.columns; ++c) state.sum[s][a][c] *= scale;
    Pack<Real> weights;
    FK_UNROLL for (int b = 0; b < T::edge; ++b) {
      const Scaled<Real> weight = state.pairs.weight[a][b];
      weights.at[b] = weight.significand * two_to<Real>(weight.exponent - top);
      state.total[a] += weights.at[b];
    }
    *reinterpret_cast<Pack<Real>*>(pairs + row * T::stride + x * T::edge) = weights;
  }
}

template <class Real, int SIZE, class Threads>
FK_PROGRAM void forward_block(Threads& threads, const Problem<Real>& whole, int block,
                              char* memory) {
  using T = Tile<Real>;
  using State = ForwardState<Real, SIZE>;
  const ForwardShared<Real> shared(memory);
  const int tiles = ceil_div(whole.queries, T::rows), head = block / tiles;
  const Problem<Real> p = of_head(whole, head);
  const int first = (tiles - 1 - block % tiles) * T::rows;  // causal: the longest rows start first
  const int lines = 3 * kChunk;
  const Real* query = p.query + (long long)head * 3 * p.padded_features * p.padded_queries + first;
  const Real* key = p.key + (long long)head * 3 * p.padded_features * p.padded_keys;
  const Real* value = p.value + (long long)head * p.padded_columns * p.padded_keys;

  threads.each([&](int, State& state) {
    start(p, state.total, state.top);
    state.pairs.reset();
    FK_UNROLL for (int s = 0; s < State::stages; ++s)
      FK_UNROLL for (int a = 0; a < T::edge; ++a)
        FK_UNROLL for (int c = 0; c < State::columns; ++c) state.sum[s][a][c] = Real(0);
  });
  const int seen = first + T::rows;  // a causal row sees no key from here on
  const int last = p.causal && seen < p.keys ? seen : p.keys;
  for (int column = 0; column < last; column += T::rows) {
    for (int line = 0; line < 3 * p.padded_features; line += lines) {
      threads.each([&](int thread, State&) {
        stage(thread, shared.own, query + (long long)line * p.padded_queries, p.padded_queries,
              lines);
        stage(thread, shared.other, key + (long long)line * p.padded_keys + column, p.padded_keys,
              lines);
      });
      threads.each([&](int thread, State& state) {
        multiply_chunk<false>(thread / kSide, thread % kSide, shared.own, shared.other, state.pairs);
      });
    }
    threads.each([&](int thread, State& state) {
      const int y = thread / kSide, x = thread % kSide;
      finish<false>(p, first + y * T::edge, column + x * T::edge, state.pairs);
      FK_UNROLL for (int a = 0; a < T::edge; ++a) {
        int peak = kNone;
        FK_UNROLL for (int b = 0; b < T::edge; ++b) {
          const int exponent = state.pairs.weight[a][b].exponent;
          peak = exponent > peak ? exponent : peak;
        }
        shared.peaks[(y * T::edge + a) * kSide + x] = peak;
      }
    });
    threads.each([&](int thread, State& state) {
      normalise(thread / kSide, thread % kSide, shared.peaks, state, shared.pairs);
      state.pairs.reset();
    });
    FK_UNROLL for (int s = 0; s < State::stages; ++s) {
      const int line = s * State::columns * kSide;
      if (line >= p.padded_columns) break;
      threads.each([&](int thread, State&) {
        stage(thread, shared.other, value + (long long)line * p.padded_keys + column,
              p.padded_keys, State::columns * kSide);
      });
      threads.each([&](int thread, State& state) {
        add_columns(thread / kSide, thread % kSide, shared.pairs, shared.other, state.sum[s]);
      });
    }
  }
  threads.each([&](int thread, State& state) {  // the row totals, through the weights' memory
    FK_UNROLL for (int a = 0; a < T::edge; ++a)
      shared.pairs[((thread / kSide) * T::edge + a) * T::stride + thread % kSide] = state.total[a];
  });
  threads.each([&](int thread, State& state) {
    const int y = thread / kSide, x = thread % kSide;
    FK_UNROLL for (int a = 0; a < T::edge; ++a) {
      const int row = first + y * T::edge + a;
      if (row >= p.queries) break;
      Scaled<Real> eps = {Real(p.eps), 0};
      if (p.eps > 0) renormalise(eps);
      Real total = p.eps > 0 ? eps.significand * two_to<Real>(eps.exponent - state.top[a]) : Real(0);
      for (int k = 0; k < kSide; ++k) total += shared.pairs[(y * T::edge + a) * T::stride + k];
      const bool empty = state.top[a] == kNone;
      const long long at = (long long)head * p.queries + row;
      if (x == 0) {
        p.significand[at] = empty ? Real(INFINITY) : total;
        p.exponent[at] = empty ? 0 : state.top[a];
      }
      FK_UNROLL for (int s = 0; s < State::stages; ++s)
        FK_UNROLL for (int c = 0; c < State::columns; ++c) {
          const int column = (s * State::columns + c) * kSide + x;
          if (column < p.columns)
            p.output[at * p.columns + column] = empty ? Real(0) : state.sum[s][a][c] / total;
        }
    }
  });
}

}  // namespace fk
