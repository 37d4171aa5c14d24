// Backward: one block computes the gradients of tiles of keys, looping over the queries.
//
// With P the normalised weights, W_ij = P_ij keep_ij / (1 - p) what dropout leaves of them,
// dP_ij = keep_ij / (1 - p) (dO_i . v_j + dW_ij), Delta_i = dO_i . O_i + sum_j W_ij dW_ij,
// B_ij = P_ij (dP_ij - Delta_i), the gradient of an additive mask, and G = l B:
//   dq_id = R_d sum_j G_ij t(u_id - v_jd),   dk_jd = -R_d sum_i G_ij t(u_id - v_jd),
//   dv_j = sum_i W_ij dO_i,                  t(x) = d log sinc / dx.
// Each pair is computed once. Blocks share the keys of a head out among them, and each adds to sums
// of the queries of its own, which a second kernel adds up: no two blocks write to one place, and
// every sum has one order, whatever else is in the batch. The gradient of R follows from these
// outside, by homogeneity. The same program writes the weights, if that is all that is asked of it.
#pragma once

#include "tile.cuh"

namespace fk {

template <class Real, int SIZE>
struct BackwardState {
  static constexpr int edge = Tile<Real>::edge;
  static constexpr int columns = SIZE >= 2 * kSide ? 2 : 1;
  static constexpr int stages = SIZE / (columns * kSide);
  static constexpr int chunks = SIZE / kChunk;
  Pairs<Real> pairs;                  // their weights become P
  unsigned kept;                      // by dropout
  Real product[edge][edge];           // dO_i . v_j
  Real features[chunks][edge];        // of the gradient of the keys, over -R
  Real values[stages][edge][columns];  // of dv
};

template <class Real>
struct BackwardShared {
  static constexpr int lines = 3 * kChunk;
  Real *keys, *queries;
  Real* pairs;  // weights of the tile, and then its slopes: two blocks fit where a card has 100 KB
  FK_HD explicit BackwardShared(char* memory) {
    keys = reinterpret_cast<Real*>(memory);
    queries = keys + lines * Tile<Real>::stride;
    pairs = queries + lines * Tile<Real>::stride;
  }
  static constexpr size_t bytes() {
    return sizeof(Real) * Tile<Real>::stride * (2 * lines + Tile<Real>::rows);
  }
};

// A head's features and columns of one side: values belong to keys, dO to queries.
template <class Real>
struct View {
  Features<Real> features;
  Columns<Real> columns;
};

template <class Real>
FK_HD View<Real> view(const Problem<Real>& p, bool keys, long long head) {
  return {features_of(p, keys, head), columns_of(p, keys, head)};
}

// Whose gradients a block computes: keys from `first` on, of one head, into sums of the queries.
template <class Real>
struct Place {
  long long head;
  int first;
  View<Real> key, query;
  Real* sums;  // (D', N')
};

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

// Calls f(a, b, where (N, M) has the pair of key + a and query + b) for the pairs that are seen.
template <class Real, class F>
FK_HD void each_seen(const Problem<Real>& p, unsigned seen, int key, int query, F f) {
  FK_UNROLL for (int a = 0; a < Tile<Real>::edge; ++a)
    FK_UNROLL for (int b = 0; b < Tile<Real>::edge; ++b)
      if (has<Real>(seen, a, b)) f(a, b, (long long)(query + b) * p.keys + key + a);
}

// One step: P of the tile into registers, W into shared memory or, if asked for, to where it goes.
template <class Real, int SIZE>
FK_HD void weights_of_pairs(const Problem<Real>& p, long long head, int y, int x, int key,
                            int query, const BackwardShared<Real>& shared,
                            BackwardState<Real, SIZE>& state) {
  using T = Tile<Real>;
  const Saved<Real> saved(p, head, query);
  state.kept = p.seed ? kept_pairs<true>(p, head, key, query) : all_pairs<Real>();
  FK_UNROLL for (int a = 0; a < T::edge; ++a) {
    Pack<Real> row;
    FK_UNROLL for (int b = 0; b < T::edge; ++b) {
      Scaled<Real>& weight = state.pairs.weight[a][b];
      const bool seen = has<Real>(state.pairs.seen, a, b);
      weight.significand = seen ? saved.normalised(b, weight) : Real(0);
      row.at[b] = weight.significand * keep_scale(p, state.kept, a, b);
      state.product[a][b] = Real(0);
    }
    *reinterpret_cast<Pack<Real>*>(shared.pairs + (y * T::edge + a) * T::stride + x * T::edge) =
        row;
  }
  if (p.weights)
    each_seen(p, state.pairs.seen, key, query, [&](int a, int b, long long at) {
      p.weights[head * p.queries * p.keys + at] =
          state.pairs.weight[a][b].significand * keep_scale(p, state.kept, a, b);
    });
}

// One step: dO . v becomes dP where anything but the output leads to it.
template <class Real, int SIZE>
FK_HD void add_other_ways(const Problem<Real>& p, long long head, int key, int query,
                          BackwardState<Real, SIZE>& state) {
  if (p.weights_grad)
    each_seen(p, state.pairs.seen, key, query, [&](int a, int b, long long at) {
      state.product[a][b] += p.weights_grad[head * p.queries * p.keys + at];
    });
  if (p.seed) {
    FK_UNROLL for (int a = 0; a < Tile<Real>::edge; ++a)
      FK_UNROLL for (int b = 0; b < Tile<Real>::edge; ++b)
        state.product[a][b] *= keep_scale(p, state.kept, a, b);
  }
}

// One step: B, the gradient of an additive mask, and G into shared memory. Pairs that do not see
// each other have none, whatever their rows hold.
template <class Real, int SIZE>
FK_HD void slopes_of_pairs(const Problem<Real>& p, long long head, int y, int x, int key, int query,
                           const BackwardShared<Real>& shared, BackwardState<Real, SIZE>& state) {
  using T = Tile<Real>;
  if (p.weights_grad || p.seed) add_other_ways(p, head, key, query, state);
  FK_UNROLL for (int b = 0; b < T::edge; ++b) {
    const Real delta = query + b < p.queries ? p.delta[head * p.queries + query + b] : Real(0);
    Pack<Real> line;
    FK_UNROLL for (int a = 0; a < T::edge; ++a) {
      Real& slope = state.product[a][b];
      slope = state.pairs.weight[a][b].significand * (slope - delta);
      if (!has<Real>(state.pairs.seen, a, b)) slope = Real(0);
      line.at[a] = p.power * slope;
    }
    *reinterpret_cast<Pack<Real>*>(
        shared.pairs + slope_line<Real>(x * T::edge + b) * T::stride + y * T::edge) = line;
  }
  if (p.bias_grad)
    each_seen(p, state.pairs.seen, key, query, [&](int a, int b, long long at) {
      p.bias_grad[(head - p.first_head) * p.queries * p.keys + at] = state.product[a][b];
    });
}

// Steps of the columns: dO . v of the pairs, the gradient of the values, then G into shared memory.
template <class Real, int SIZE, class Threads>
FK_PROGRAM void slopes_of_tile(Threads& threads, const Problem<Real>& p, const Place<Real>& place,
                               int begin, const BackwardShared<Real>& shared) {
  using T = Tile<Real>;
  using State = BackwardState<Real, SIZE>;
  const Columns<Real>&value = place.key.columns, &grad = place.query.columns;
  FK_UNROLL for (int s = 0; s < State::stages; ++s) {
    const int line = s * State::columns * kSide;
    if (line >= p.padded_columns) break;
    const int count = columns_from(p, line, State::columns);
    threads.each([&](int thread, State&) {
      stage(thread, shared.keys, value.lines + (long long)line * value.padded + place.first,
            value.padded, count);
      stage(thread, shared.queries, grad.lines + (long long)line * grad.padded + begin, grad.padded,
            count);
    });
    threads.each([&](int thread, State& state) {
      const int y = thread / kSide, x = thread % kSide;
      add_products(y, x, shared.keys, shared.queries, count, state.product);
      add_columns(y, x, shared.pairs, shared.queries, state.values[s]);
    });
  }
  threads.each([&](int thread, State& state) {
    const int y = thread / kSide, x = thread % kSide;
    slopes_of_pairs(p, place.head, y, x, place.first + y * T::edge, begin + x * T::edge, shared,
                    state);
  });
}

// Steps of the features: the gradients of both sides, over R. Threads with one feature are
// neighbours here, those with one y elsewhere.
template <class Real, int SIZE, class Threads>
FK_PROGRAM void features_of_tile(Threads& threads, const Problem<Real>& p, const Place<Real>& place,
                                 int begin, const BackwardShared<Real>& shared) {
  using State = BackwardState<Real, SIZE>;
  const int lines = 3 * kChunk;
  const Features<Real>&key = place.key.features, &query = place.query.features;
  FK_UNROLL for (int chunk = 0; chunk < State::chunks; ++chunk) {
    const int line = chunk * lines;
    if (line >= 3 * p.padded_features) break;
    threads.each([&](int thread, State&) {
      stage(thread, shared.keys, key.lines + (long long)line * key.padded + place.first, key.padded,
            lines);
      stage(thread, shared.queries, query.lines + (long long)line * query.padded + begin,
            query.padded, lines);
    });
    threads.each([&](int thread, State& state) {
      const int y = thread % kSide, x = thread / kSide;
      add_slopes(y, x, shared.pairs, shared.keys, shared.queries, state.features[chunk],
                 place.sums + (long long)(chunk * kChunk + x) * query.padded + begin);
    });
  }
}

// Writes the gradients of the keys and values of one thread.
template <class Real, int SIZE>
FK_HD void write_gradients(const Problem<Real>& p, long long head, int thread, int first,
                           const BackwardState<Real, SIZE>& state) {
  using State = BackwardState<Real, SIZE>;
  const Real* radius = p.radius + head % p.heads * p.features;
  FK_UNROLL for (int a = 0; a < State::edge; ++a) {
    const int row = first + thread % kSide * State::edge + a;
    FK_UNROLL for (int chunk = 0; chunk < State::chunks; ++chunk) {
      const int d = chunk * kChunk + thread / kSide;
      if (row < p.keys && d < p.features)
        p.key_grad[(head * p.keys + row) * p.features + d] = -radius[d] * state.features[chunk][a];
    }
  }
  FK_UNROLL for (int a = 0; a < State::edge; ++a) {
    const int row = first + thread / kSide * State::edge + a;
    FK_UNROLL for (int s = 0; s < State::stages; ++s)
      FK_UNROLL for (int c = 0; c < State::columns; ++c) {
        const int column = (s * State::columns + c) * kSide + thread % kSide;
        if (row < p.keys && column < p.columns)
          p.value_grad[(head * p.keys + row) * p.columns + column] = state.values[s][a][c];
      }
  }
}

// Steps of one tile of keys against one of queries.
template <class Real, int SIZE, class Threads>
FK_PROGRAM void add_tile(Threads& threads, const Problem<Real>& p, const Place<Real>& place,
                         int begin, const BackwardShared<Real>& shared) {
  using T = Tile<Real>;
  using State = BackwardState<Real, SIZE>;
  const Features<Real>&key = place.key.features, &query = place.query.features;
  scores_of_tile<true, SIZE>(threads, key, query, place.first, begin, p.padded_features, shared.keys,
                       shared.queries);
  threads.each([&](int thread, State& state) {
    const int y = thread / kSide, x = thread % kSide;
    const int mine = place.first + y * T::edge, theirs = begin + x * T::edge;
    finish<true>(p, key.reach, query.reach, mine, theirs, state.pairs);
    weights_of_pairs(p, place.head, y, x, mine, theirs, shared, state);
  });
  if (p.weights) return;
  slopes_of_tile<Real, SIZE>(threads, p, place, begin, shared);
  features_of_tile<Real, SIZE>(threads, p, place, begin, shared);
}

// Steps of one tile of keys: all queries that see one of them.
template <class Real, int SIZE, class Threads>
FK_PROGRAM void gradients_of_keys(Threads& threads, const Problem<Real>& p,
                                  const Place<Real>& place, const BackwardShared<Real>& shared) {
  using T = Tile<Real>;
  using State = BackwardState<Real, SIZE>;
  threads.each([&](int thread, State& state) {
    if (thread == 0) put_coefficients(shared.keys);
    FK_UNROLL for (int c = 0; c < State::chunks; ++c)
      FK_UNROLL for (int a = 0; a < State::edge; ++a) state.features[c][a] = Real(0);
    FK_UNROLL for (int s = 0; s < State::stages; ++s)
      FK_UNROLL for (int a = 0; a < State::edge; ++a)
        FK_UNROLL for (int c = 0; c < State::columns; ++c) state.values[s][a][c] = Real(0);
  });
  const int earliest = p.causal ? place.first : 0;  // that sees one of the keys
  for (int begin = earliest; begin < p.queries; begin += T::rows) {
    if (masked(p) && !threads.any([&](int thread, State& state) {
          state.pairs.seen = seen_pairs<true>(p, place.first + thread / kSide * T::edge,
                                              begin + thread % kSide * T::edge);
          return state.pairs.seen != 0;
        }))
      continue;
    add_tile<Real, SIZE>(threads, p, place, begin, shared);
  }
  if (p.weights) return;
  threads.each([&](int thread, State& state) {
    write_gradients(p, place.head, thread, place.first, state);
  });
  spread_flaws_of_block<true>(threads, p, place.first, p.keys, place.query.columns, earliest,
                              p.queries, p.value_grad + place.head * p.keys * p.columns);
}

template <class Real, int SIZE, class Threads>
FK_PROGRAM void backward_block(Threads& threads, const Problem<Real>& whole, long long block,
                               char* memory) {
  const BackwardShared<Real> shared(memory);
  const long long head = whole.first_head + block % whole.head_count;
  const int split = int(block / whole.head_count);
  const Problem<Real> p = of_head(whole, head);
  const long long sums = (head - p.first_head) * p.splits + split;
  Place<Real> place = {head, 0, view(p, true, head), view(p, false, head),
                       p.query_sums + sums * p.padded_features * p.padded_queries};
  // To and fro: of causal keys the first are seen by the most queries.
  int step = 2 * (p.splits - split) - 1;
  for (int tile = split; tile * Tile<Real>::rows < p.keys; tile += step, step = 2 * p.splits - step) {
    place.first = tile * Tile<Real>::rows;
    gradients_of_keys<Real, SIZE>(threads, p, place, shared);
  }
}

// One number of the gradient of the queries, `at` in (head_count, D, N).
template <class Real>
FK_HD void add_splits(const Problem<Real>& p, long long at) {
  const int row = int(at % p.queries), d = int(at / p.queries % p.features);
  const long long some = at / p.queries / p.features, head = p.first_head + some;
  const long long size = (long long)p.padded_features * p.padded_queries;
  const Real* from = p.query_sums + some * p.splits * size + (long long)d * p.padded_queries + row;
  Real sum = Real(0);
  for (int split = 0; split < p.splits; ++split) sum += from[split * size];
  p.query_grad[(head * p.queries + row) * p.features + d] =
      p.radius[head % p.heads * p.features + d] * sum;
}

}  // namespace fk
