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

// Moves a row to a new largest exponent and returns the weights relative to it; those that dropout
// drops count in the total only.
template <class Real, int SIZE>
FK_HD void normalise(int y, int x, const int* peaks, unsigned kept, ForwardState<Real, SIZE>& state,
                     Real* pairs) {
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
    if (kept != all_pairs<Real>()) {
      FK_UNROLL for (int b = 0; b < T::edge; ++b)
        if (!has<Real>(kept, a, b)) weights.at[b] = Real(0);
    }
    *reinterpret_cast<Pack<Real>*>(pairs + row * T::stride + x * T::edge) = weights;
  }
}

// Writes the total of a row and its output, from what the threads of the row have summed.
template <class Real, int SIZE>
FK_HD void write_row(const Problem<Real>& p, long long at, int x, int a, const Real* totals,
                     const ForwardState<Real, SIZE>& state) {
  using State = ForwardState<Real, SIZE>;
  const int top = state.top[a];
  Scaled<Real> eps = {Real(p.eps), 0};
  if (p.eps > 0) renormalise(eps);
  Real total = p.eps > 0 ? eps.significand * two_to<Real>(eps.exponent - top) : Real(0);
  for (int k = 0; k < kSide; ++k) total += totals[k];
  const bool empty = top == kNone;
  if (x == 0) {
    // Infinite, so that the backward pass, which divides by it, has weights of zero and no NaN.
    p.significand[at] = empty ? Real(INFINITY) : total;
    p.exponent[at] = empty ? 0 : top;
  }
  FK_UNROLL for (int s = 0; s < State::stages; ++s)
    FK_UNROLL for (int c = 0; c < State::columns; ++c) {
      const int column = (s * State::columns + c) * kSide + x;
      if (column < p.columns)
        p.output[at * p.columns + column] =
            empty ? Real(0) : state.sum[s][a][c] / total * Real(p.keep_scale);
    }
}

template <class Real, int SIZE, class Threads>
FK_PROGRAM void forward_block(Threads& threads, const Problem<Real>& whole, long long block,
                              char* memory) {
  using T = Tile<Real>;
  using State = ForwardState<Real, SIZE>;
  const ForwardShared<Real> shared(memory);
  const int tiles = ceil_div(whole.queries, T::rows);
  const long long head = whole.first_head + block % whole.head_count;
  const Problem<Real> p = of_head(whole, head);
  // Causal: the longest loops of all heads first, so that short ones fill the card at the end.
  const int first = (tiles - 1 - int(block / whole.head_count)) * T::rows;
  const Features<Real> query = features_of(p, false, head), key = features_of(p, true, head);
  const Columns<Real> value = columns_of(p, true, head);

  threads.each([&](int thread, State& state) {
    if (thread == 0) put_coefficients(shared.own);
    start(p, state.total, state.top);
    FK_UNROLL for (int s = 0; s < State::stages; ++s)
      FK_UNROLL for (int a = 0; a < T::edge; ++a)
        FK_UNROLL for (int c = 0; c < State::columns; ++c) state.sum[s][a][c] = Real(0);
  });
  const int seen = p.queries - first > T::rows ? first + T::rows : p.queries;
  const int last = p.causal && seen < p.keys ? seen : p.keys;  // no row sees a key from there
  for (int column = 0; column < last; column += T::rows) {
    if (masked(p) && !threads.any([&](int thread, State& state) {
          state.pairs.seen = seen_pairs<false>(p, first + thread / kSide * T::edge,
                                               column + thread % kSide * T::edge);
          return state.pairs.seen != 0;
        }))
      continue;  // a tile that no row sees costs this test alone
    scores_of_tile<false, SIZE>(threads, query, key, first, column, p.padded_features, shared.own,
                          shared.other);
    threads.each([&](int thread, State& state) {
      const int y = thread / kSide, x = thread % kSide;
      finish<false>(p, query.reach, key.reach, first + y * T::edge, column + x * T::edge,
                    state.pairs);
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
      const int y = thread / kSide, x = thread % kSide;
      const unsigned kept =
          p.seed ? kept_pairs<false>(p, head, first + y * T::edge, column + x * T::edge)
                 : all_pairs<Real>();
      normalise(y, x, shared.peaks, kept, state, shared.pairs);
    });
    FK_UNROLL for (int s = 0; s < State::stages; ++s) {
      const int line = s * State::columns * kSide;
      if (line >= p.padded_columns) break;
      threads.each([&](int thread, State&) {
        stage(thread, shared.other, value.lines + (long long)line * value.padded + column,
              value.padded, columns_from(p, line, State::columns));
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
      write_row(p, head * p.queries + row, x, a, shared.pairs + (y * T::edge + a) * T::stride,
                state);
    }
  });
  spread_flaws_of_block<false>(threads, p, first, p.queries, value, 0, last,
                               p.output + head * p.queries * p.columns);
}

}  // namespace fk
