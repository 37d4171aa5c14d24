// Backward: one block computes the gradients of one tile of its own side, looping over the other.
//
// With P the normalised weights, W_ij = P_ij keep_ij / (1 - p) what dropout leaves of them,
// dP_ij = keep_ij / (1 - p) (dO_i . v_j + dW_ij), Delta_i = dO_i . O_i + sum_j W_ij dW_ij,
// B_ij = P_ij (dP_ij - Delta_i), the gradient of an additive mask, and G = l B:
//   dq_id = R_d sum_j G_ij t(u_id - v_jd),   dk_jd = -R_d sum_i G_ij t(u_id - v_jd),
//   dv_j = sum_i W_ij dO_i,                  t(x) = d log sinc / dx.
// So queries and keys are two runs of one program (KEYS tells which side is its own), and no two
// blocks write to one place. The gradient of R follows from these outside, by homogeneity. The run
// of the queries also writes the weights, if that is all that is asked of it.
#pragma once

#include "tile.cuh"

namespace fk {

template <class Real, int SIZE, bool KEYS>
struct BackwardState {
  static constexpr int edge = Tile<Real>::edge;
  static constexpr int columns = SIZE >= 2 * kSide ? 2 : 1;
  static constexpr int stages = SIZE / (columns * kSide);
  static constexpr int chunks = SIZE / kChunk;
  Pairs<Real> pairs;                              // their weights become P
  unsigned kept;                                  // by dropout
  Real product[edge][edge];                       // dO_i . v_j
  Real features[chunks][edge];                    // of the gradient of the own side, over R
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

// The features and the columns of one side: values belong to keys, dO to queries.
template <class Real>
struct View {
  Features<Real> features;
  Columns<Real> columns;
};

template <class Real>
FK_HD View<Real> view(const Problem<Real>& p, bool keys, long long head) {
  return {features_of(p, keys, head), columns_of(p, keys, head)};
}

// What was saved of the queries of one thread's pairs, from `query` on: no other rows are read.
template <class Real>
struct Saved {
  Real inverse[Tile<Real>::edge];  // of the significand of the total
  int exponent[Tile<Real>::edge];
  FK_HD Saved(const Problem<Real>& p, long long head, int query) {
    FK_UNROLL for (int k = 0; k < Tile<Real>::edge; ++k) {
      const bool inside = query + k < p.queries;
      const long long at = head * p.queries + query + k;
      inverse[k] = inside ? Real(1) / p.significand[at] : Real(0);
      exponent[k] = inside ? p.exponent[at] : 0;
    }
  }
  FK_HD Real normalised(int k, Scaled<Real> weight) const {
    return weight.significand * two_to<Real>(weight.exponent - exponent[k]) * inverse[k];
  }
};

template <class Real>
FK_HD Real keep_scale(const Problem<Real>& p, unsigned kept, int a, int b) {
  return has<Real>(kept, a, b) ? Real(p.keep_scale) : Real(0);
}

// One step: P of the tile into registers, W into shared memory or, if asked for, to where it goes.
template <class Real, int SIZE, bool KEYS>
FK_HD void weights_of_pairs(const Problem<Real>& p, long long head, int y, int x, int own,
                            int other, const BackwardShared<Real, KEYS>& shared,
                            BackwardState<Real, SIZE, KEYS>& state) {
  using T = Tile<Real>;
  const Saved<Real> saved(p, head, KEYS ? other : own);
  state.kept = p.seed ? kept_pairs<KEYS>(p, head, own, other) : all_pairs<Real>();
  FK_UNROLL for (int a = 0; a < T::edge; ++a) {
    Pack<Real> row;
    FK_UNROLL for (int b = 0; b < T::edge; ++b) {
      Scaled<Real>& weight = state.pairs.weight[a][b];
      const bool seen = has<Real>(state.pairs.seen, a, b);
      weight.significand = seen ? saved.normalised(KEYS ? b : a, weight) : Real(0);
      row.at[b] = weight.significand * keep_scale(p, state.kept, a, b);
      state.product[a][b] = Real(0);
    }
    if (KEYS)
      *reinterpret_cast<Pack<Real>*>(shared.weights + (y * T::edge + a) * T::stride + x * T::edge) =
          row;
  }
  if (!KEYS && p.weights) {
    FK_UNROLL for (int a = 0; a < T::edge; ++a)
      FK_UNROLL for (int b = 0; b < T::edge; ++b)
        if (has<Real>(state.pairs.seen, a, b))
          p.weights[(head * p.queries + own + a) * p.keys + other + b] =
              state.pairs.weight[a][b].significand * keep_scale(p, state.kept, a, b);
  }
}

// One step: dO . v becomes dP where anything but the output leads to it.
template <class Real, int SIZE, bool KEYS>
FK_HD void add_other_ways(const Problem<Real>& p, long long head, int own, int other,
                          BackwardState<Real, SIZE, KEYS>& state) {
  constexpr int E = Tile<Real>::edge;
  if (p.weights_grad) {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) {
        const long long at = head * p.queries + (KEYS ? other + b : own + a);
        const int j = KEYS ? own + a : other + b;
        if (has<Real>(state.pairs.seen, a, b))
          state.product[a][b] += p.weights_grad[at * p.keys + j];
      }
  }
  if (p.seed) {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) state.product[a][b] *= keep_scale(p, state.kept, a, b);
  }
}

// One step: B, the gradient of an additive mask, and G into shared memory. Pairs that do not see
// each other have none, whatever their rows hold.
template <class Real, int SIZE, bool KEYS>
FK_HD void slopes_of_pairs(const Problem<Real>& p, long long head, int y, int x, int own, int other,
                           const BackwardShared<Real, KEYS>& shared,
                           BackwardState<Real, SIZE, KEYS>& state) {
  using T = Tile<Real>;
  if (p.weights_grad || p.seed) add_other_ways(p, head, own, other, state);
  Real delta[T::edge];
  FK_UNROLL for (int k = 0; k < T::edge; ++k) {
    const int i = (KEYS ? other : own) + k;
    delta[k] = i < p.queries ? p.delta[head * p.queries + i] : Real(0);
  }
  FK_UNROLL for (int a = 0; a < T::edge; ++a) {
    Pack<Real> row;
    FK_UNROLL for (int b = 0; b < T::edge; ++b) {
      Real& slope = state.product[a][b];
      slope = state.pairs.weight[a][b].significand * (slope - delta[KEYS ? b : a]);
      if (!has<Real>(state.pairs.seen, a, b)) slope = Real(0);
      row.at[b] = p.power * slope;
    }
    *reinterpret_cast<Pack<Real>*>(shared.slopes + (y * T::edge + a) * T::stride + x * T::edge) =
        row;
  }
  if (!KEYS && p.bias_grad) {
    FK_UNROLL for (int a = 0; a < T::edge; ++a)
      FK_UNROLL for (int b = 0; b < T::edge; ++b)
        if (has<Real>(state.pairs.seen, a, b))
          p.bias_grad[((head - p.first_head) * p.queries + own + a) * p.keys + other + b] =
              state.product[a][b];
  }
}

// Steps of the columns: dO . v of the pairs, the gradient of the values, then G into shared memory.
template <class Real, int SIZE, bool KEYS, class Threads>
FK_PROGRAM void slopes_of_tile(Threads& threads, const Problem<Real>& p, long long head,
                               const Columns<Real>& own, const Columns<Real>& other, int first,
                               int begin, const BackwardShared<Real, KEYS>& shared) {
  using T = Tile<Real>;
  using State = BackwardState<Real, SIZE, KEYS>;
  FK_UNROLL for (int s = 0; s < State::stages; ++s) {
    const int line = s * State::columns * kSide;
    if (line >= p.padded_columns) break;
    const int count = columns_from(p, line, State::columns);
    threads.each([&](int thread, State&) {
      stage(thread, shared.own, own.lines + (long long)line * own.padded + first, own.padded,
            count);
      stage(thread, shared.other, other.lines + (long long)line * other.padded + begin,
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
    slopes_of_pairs(p, head, y, x, first + y * T::edge, begin + x * T::edge, shared, state);
  });
}

// Steps of the features: the gradient of the own side, over R.
template <class Real, int SIZE, bool KEYS, class Threads>
FK_PROGRAM void features_of_tile(Threads& threads, const Problem<Real>& p,
                                 const Features<Real>& own, const Features<Real>& other, int first,
                                 int begin, const BackwardShared<Real, KEYS>& shared) {
  using State = BackwardState<Real, SIZE, KEYS>;
  const int lines = 3 * kChunk;
  FK_UNROLL for (int chunk = 0; chunk < State::chunks; ++chunk) {
    const int line = chunk * lines;
    if (line >= 3 * p.padded_features) break;
    threads.each([&](int thread, State&) {
      stage(thread, shared.own, own.lines + (long long)line * own.padded + first, own.padded,
            lines);
      stage(thread, shared.other, other.lines + (long long)line * other.padded + begin,
            other.padded, lines);
    });
    threads.each([&](int thread, State& state) {
      add_slopes<KEYS>(thread / kSide, thread % kSide, shared.slopes, shared.own, shared.other,
                       state.features[chunk]);
    });
  }
}

template <class Real, int SIZE, bool KEYS>
FK_HD void write_gradients(const Problem<Real>& p, long long head, int y, int x, int first,
                           int rows, const BackwardState<Real, SIZE, KEYS>& state) {
  using State = BackwardState<Real, SIZE, KEYS>;
  const Real* radius = p.radius + head % p.heads * p.features;
  Real* features = KEYS ? p.key_grad : p.query_grad;
  FK_UNROLL for (int a = 0; a < State::edge; ++a) {
    const int row = first + y * State::edge + a;
    if (row >= rows) break;
    const long long at = head * rows + row;
    FK_UNROLL for (int chunk = 0; chunk < State::chunks; ++chunk) {
      const int d = chunk * kChunk + x;
      if (d < p.features)
        features[at * p.features + d] =
            (KEYS ? -radius[d] : radius[d]) * state.features[chunk][a];
    }
    FK_UNROLL for (int s = 0; s < (KEYS ? State::stages : 0); ++s)
      FK_UNROLL for (int c = 0; c < State::columns; ++c) {
        const int column = (s * State::columns + c) * kSide + x;
        if (column < p.columns)
          p.value_grad[at * p.columns + column] = state.values[KEYS ? s : 0][a][c];
      }
  }
}

template <class Real, int SIZE, bool KEYS, class Threads>
FK_PROGRAM void backward_block(Threads& threads, const Problem<Real>& whole, long long block,
                               char* memory) {
  using T = Tile<Real>;
  using State = BackwardState<Real, SIZE, KEYS>;
  const BackwardShared<Real, KEYS> shared(memory);
  const int tiles = ceil_div(KEYS ? whole.keys : whole.queries, T::rows);
  const long long head = whole.first_head + block % whole.head_count;
  const Problem<Real> p = of_head(whole, head);
  const int place = int(block / whole.head_count);
  const int first = (KEYS ? place : tiles - 1 - place) * T::rows;  // causal: longest loops first
  const View<Real> own = view(p, KEYS, head), other = view(p, !KEYS, head);
  const int own_rows = own.features.rows, other_rows = other.features.rows;

  threads.each([&](int thread, State& state) {
    if (thread == 0) put_coefficients(shared.own);
    FK_UNROLL for (int c = 0; c < State::chunks; ++c)
      FK_UNROLL for (int a = 0; a < State::edge; ++a) state.features[c][a] = Real(0);
    FK_UNROLL for (int s = 0; s < (KEYS ? State::stages : 1); ++s)
      FK_UNROLL for (int a = 0; a < State::edge; ++a)
        FK_UNROLL for (int c = 0; c < State::columns; ++c) state.values[s][a][c] = Real(0);
  });
  const int seen = own_rows - first > T::rows ? first + T::rows : own_rows;
  const int begin = KEYS && p.causal ? first : 0;  // a causal key is seen by no earlier query
  const int end = !KEYS && p.causal && seen < other_rows ? seen : other_rows;
  for (int at = begin; at < end; at += T::rows) {
    if (masked(p) && !threads.any([&](int thread, State& state) {
          state.pairs.seen = seen_pairs<KEYS>(p, first + thread / kSide * T::edge,
                                              at + thread % kSide * T::edge);
          return state.pairs.seen != 0;
        }))
      continue;
    scores_of_tile<KEYS>(threads, own.features, other.features, first, at, p.padded_features,
                         shared.own, shared.other);
    threads.each([&](int thread, State& state) {
      const int y = thread / kSide, x = thread % kSide;
      const int mine = first + y * T::edge, theirs = at + x * T::edge;
      finish<KEYS>(p, own.features.reach, other.features.reach, mine, theirs, state.pairs);
      weights_of_pairs(p, head, y, x, mine, theirs, shared, state);
    });
    if (!KEYS && p.weights) continue;
    slopes_of_tile<Real, SIZE, KEYS>(threads, p, head, own.columns, other.columns, first, at,
                                     shared);
    features_of_tile<Real, SIZE, KEYS>(threads, p, own.features, other.features, first, at, shared);
  }
  if (!KEYS && p.weights) return;
  threads.each([&](int thread, State& state) {
    write_gradients<Real, SIZE, KEYS>(p, head, thread / kSide, thread % kSide, first, own_rows,
                                      state);
  });
  if (KEYS)
    spread_flaws_of_block<true>(threads, p, first, own_rows, other.columns, begin, end,
                                p.value_grad + head * own_rows * p.columns);
}

}  // namespace fk
