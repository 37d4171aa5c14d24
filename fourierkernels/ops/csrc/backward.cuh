// Backward: one block computes the gradients of one tile of its own side, looping over the other.
//
// With P the normalised weights, Delta_i = dO_i . O_i and G_ij = l P_ij (dO_i . v_j - Delta_i):
//   dq_id = R_d sum_j G_ij t(u_id - v_jd),   dk_jd = -R_d sum_i G_ij t(u_id - v_jd),
//   dv_j = sum_i P_ij dO_i,                  t(x) = d log sinc / dx.
// So queries and keys are two runs of one program (KEYS tells which side is its own), and no two
// blocks write to one place. The gradient of R follows from these outside, by homogeneity.
#pragma once

#include "tile.cuh"

namespace fk {

template <class Real, int SIZE, bool KEYS>
struct BackwardState {
  static constexpr int edge = Tile<Real>::edge;
  static constexpr int columns = SIZE >= 2 * kSide ? 2 : 1;
  static constexpr int stages = SIZE / (columns * kSide);
  static constexpr int chunks = SIZE / kChunk;
  Pairs<Real> pairs;
  Real product[edge][edge];                      // dO_i . v_j
  Real features[chunks][edge];                   // of the gradient of the own side, over R
  Real values[KEYS ? stages : 1][edge][columns];  // of dv
};

template <class Real, bool KEYS>
struct BackwardShared {
  static constexpr int lines = 3 * kChunk;
  Real *own, *other, *slopes, *weights;
  FK_HD explicit BackwardShared(char* memory) {
    own = reinterpret_cast<Real*>(memory);
    other = own + lines * Tile<Real>::stride;
    slopes = other + lines * Tile<Real>::stride;
    weights = slopes + Tile<Real>::rows * Tile<Real>::stride;
  }
  static constexpr size_t bytes() {
    return sizeof(Real) * Tile<Real>::stride * (2 * lines + (KEYS ? 2 : 1) * Tile<Real>::rows);
  }
};

// One side of the problem, as the program sees it.
template <class Real>
struct View {
  const Real *features, *columns;
  int rows, padded;
};

template <class Real>
FK_HD View<Real> view(const Problem<Real>& p, bool keys, int head) {
  const int padded = keys ? p.padded_keys : p.padded_queries;
  const Real* features = keys ? p.key : p.query;
  const Real* columns = keys ? p.value : p.grad;
  return {features + (long long)head * 3 * p.padded_features * padded,
          columns + (long long)head * p.padded_columns * padded, keys ? p.keys : p.queries, padded};
}

// The normalised weight P_ij of a pair, from its weight.
template <class Real>
FK_HD Real normalised(const Problem<Real>& p, int head, int i, Scaled<Real> weight) {
  if (weight.exponent == kNone) return Real(0);
  const long long at = (long long)head * p.queries + i;
  return weight.significand * two_to<Real>(weight.exponent - p.exponent[at]) / p.significand[at];
}

// Steps of the weights: P of the tile into registers and, for the gradient of the values, shared.
template <class Real, int SIZE, bool KEYS, class Threads>
FK_PROGRAM void weights_of_tile(Threads& threads, const Problem<Real>& p, int head, View<Real> own,
                                  View<Real> other, int first, int begin,
                                  const BackwardShared<Real, KEYS>& shared) {
  using T = Tile<Real>;
  using State = BackwardState<Real, SIZE, KEYS>;
  const int lines = 3 * kChunk;
  for (int line = 0; line < 3 * p.padded_features; line += lines) {
    threads.each([&](int thread, State&) {
      stage(thread, shared.own, own.features + (long long)line * own.padded + first, own.padded,
            lines);
      stage(thread, shared.other, other.features + (long long)line * other.padded + begin,
            other.padded, lines);
    });
    threads.each([&](int thread, State& state) {
      multiply_chunk<KEYS>(thread / kSide, thread % kSide, shared.own, shared.other, state.pairs);
    });
  }
  threads.each([&](int thread, State& state) {
    const int y = thread / kSide, x = thread % kSide;
    const int mine = first + y * T::edge, theirs = begin + x * T::edge;
    finish<KEYS>(p, mine, theirs, state.pairs);
    FK_UNROLL for (int a = 0; a < T::edge; ++a) {
      Pack<Real> row;
      FK_UNROLL for (int b = 0; b < T::edge; ++b) {
        Scaled<Real>& weight = state.pairs.weight[a][b];
        row.at[b] = normalised(p, head, KEYS ? theirs + b : mine + a, weight);
        weight.significand = row.at[b];
        state.product[a][b] = Real(0);
      }
      if (KEYS)
        *reinterpret_cast<Pack<Real>*>(shared.weights + (y * T::edge + a) * T::stride +
                                       x * T::edge) = row;
    }
  });
}

// Steps of the columns: dO . v of the pairs, the gradient of the values, then G into shared.
template <class Real, int SIZE, bool KEYS, class Threads>
FK_PROGRAM void slopes_of_tile(Threads& threads, const Problem<Real>& p, int head, View<Real> own,
                                View<Real> other, int first, int begin,
                                const BackwardShared<Real, KEYS>& shared) {
  using T = Tile<Real>;
  using State = BackwardState<Real, SIZE, KEYS>;
  const int count = State::columns * kSide;
  FK_UNROLL for (int s = 0; s < State::stages; ++s) {
    const int line = s * count;
    if (line >= p.padded_columns) break;
    threads.each([&](int thread, State&) {
      stage(thread, shared.own, own.columns + (long long)line * own.padded + first, own.padded,
            count);
      stage(thread, shared.other, other.columns + (long long)line * other.padded + begin,
            other.padded, count);
    });
    threads.each([&](int thread, State& state) {
      const int y = thread / kSide, x = thread % kSide;
      add_products(y, x, shared.own, shared.other, count, state.product);
      if (KEYS) add_columns(y, x, shared.weights, shared.other, state.values[KEYS ? s : 0]);
    });
  }
  threads.each([&](int thread, State& state) {
    const int y = thread / kSide, x = thread % kSide;
    FK_UNROLL for (int a = 0; a < T::edge; ++a) {
      Pack<Real> row;
      FK_UNROLL for (int b = 0; b < T::edge; ++b) {
        const int i = KEYS ? begin + x * T::edge + b : first + y * T::edge + a;
        const Real delta = i < p.queries ? p.delta[(long long)head * p.queries + i] : Real(0);
        row.at[b] = p.power * state.pairs.weight[a][b].significand * (state.product[a][b] - delta);
      }
      *reinterpret_cast<Pack<Real>*>(shared.slopes + (y * T::edge + a) * T::stride + x * T::edge) =
          row;
    }
    state.pairs.reset();
  });
}

// Steps of the features: the gradient of the own side, over R.
template <class Real, int SIZE, bool KEYS, class Threads>
FK_PROGRAM void features_of_tile(Threads& threads, const Problem<Real>& p, View<Real> own,
                                 View<Real> other, int first, int begin,
                                 const BackwardShared<Real, KEYS>& shared) {
  using State = BackwardState<Real, SIZE, KEYS>;
  const int lines = 3 * kChunk;
  FK_UNROLL for (int chunk = 0; chunk < State::chunks; ++chunk) {
    const int line = chunk * lines;
    if (line >= 3 * p.padded_features) break;
    threads.each([&](int thread, State&) {
      stage(thread, shared.own, own.features + (long long)line * own.padded + first, own.padded,
            lines);
      stage(thread, shared.other, other.features + (long long)line * other.padded + begin,
            other.padded, lines);
    });
    threads.each([&](int thread, State& state) {
      add_slopes<KEYS>(thread / kSide, thread % kSide, shared.slopes, shared.own, shared.other,
                       state.features[chunk]);
    });
  }
}

template <class Real, int SIZE, bool KEYS>
FK_HD void write_gradients(const Problem<Real>& p, int head, int y, int x, int first, int rows,
                           const BackwardState<Real, SIZE, KEYS>& state) {
  using State = BackwardState<Real, SIZE, KEYS>;
  const Real* radius = p.radius + (long long)(head % p.heads) * p.features;
  Real* features = KEYS ? p.key_grad : p.query_grad;
  FK_UNROLL for (int a = 0; a < State::edge; ++a) {
    const int row = first + y * State::edge + a;
    if (row >= rows) break;
    const long long at = (long long)head * rows + row;
    FK_UNROLL for (int chunk = 0; chunk < State::chunks; ++chunk) {
      const int d = chunk * kChunk + x;
      if (d < p.features)
        features[at * p.features + d] =
            (KEYS ? -radius[d] : radius[d]) * state.features[chunk][a];
    }
    FK_UNROLL for (int s = 0; s < (KEYS ? State::stages : 0); ++s)
      FK_UNROLL for (int c = 0; c < State::columns; ++c) {
        const int column = (s * State::columns + c) * kSide + x;
        if (column < p.columns) p.value_grad[at * p.columns + column] = state.values[KEYS ? s : 0][a][c];
      }
  }
}

template <class Real, int SIZE, bool KEYS, class Threads>
FK_PROGRAM void backward_block(Threads& threads, const Problem<Real>& whole, int block,
                               char* memory) {
  using T = Tile<Real>;
  using State = BackwardState<Real, SIZE, KEYS>;
  const BackwardShared<Real, KEYS> shared(memory);
  const int tiles = ceil_div(KEYS ? whole.keys : whole.queries, T::rows), head = block / tiles;
  const Problem<Real> p = of_head(whole, head);
  const int place = block % tiles;
  const int first = (KEYS ? place : tiles - 1 - place) * T::rows;  // causal: longest loops first
  const View<Real> own = view(p, KEYS, head), other = view(p, !KEYS, head);

  threads.each([&](int, State& state) {
    state.pairs.reset();
    FK_UNROLL for (int c = 0; c < State::chunks; ++c)
      FK_UNROLL for (int a = 0; a < State::edge; ++a) state.features[c][a] = Real(0);
    FK_UNROLL for (int s = 0; s < (KEYS ? State::stages : 1); ++s)
      FK_UNROLL for (int a = 0; a < State::edge; ++a)
        FK_UNROLL for (int c = 0; c < State::columns; ++c) state.values[s][a][c] = Real(0);
  });
  const int seen = first + T::rows;
  const int begin = KEYS && p.causal ? first : 0;  // a causal key is seen by no earlier query
  const int end = !KEYS && p.causal && seen < other.rows ? seen : other.rows;
  for (int at = begin; at < end; at += T::rows) {
    weights_of_tile<Real, SIZE, KEYS>(threads, p, head, own, other, first, at, shared);
    slopes_of_tile<Real, SIZE, KEYS>(threads, p, head, own, other, first, at, shared);
    features_of_tile<Real, SIZE, KEYS>(threads, p, own, other, first, at, shared);
  }
  threads.each([&](int thread, State& state) {
    write_gradients<Real, SIZE, KEYS>(p, head, thread / kSide, thread % kSide, first, own.rows,
                                      state);
  });
}

}  // namespace fk
