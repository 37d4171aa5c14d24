// One tile of queries against one tile of keys: staging, who sees whom, scores, products.
#pragma once

#include "threads.cuh"

namespace fk {

// ---- staging -----------------------------------------------------------------------------------

// Copies `count` lines of one tile's rows into shared memory: sixteen threads take a line in packs
// of 16 bytes, so that neighbours read neighbouring addresses.
template <class Real>
FK_HD void stage(int thread, Real* to, const Real* from, int padded, int count) {
  using T = Tile<Real>;
  const int line = thread / kSide, part = (thread % kSide) * T::edge;
  to += line * T::stride + part;
  from += (long long)line * padded + part;
  for (int k = line; k < count; k += kSide) {
    *reinterpret_cast<Pack<Real>*>(to) = pack_at(from);
    to += kSide * T::stride;
    from += (long long)kSide * padded;
  }
}

// The padding of the first line holds what the loops over features take from memory.
template <class Real>
FK_HD void put_coefficients(Real* lines) {
  lines[Tile<Real>::rows] = Last<Real>::sinc;
  lines[Tile<Real>::rows + 1] = Last<Real>::slope;
}
template <class Real>
FK_HD Real sinc_coefficient(const Real* lines) {
  return lines[Tile<Real>::rows];
}
template <class Real>
FK_HD Real slope_coefficient(const Real* lines) {
  return lines[Tile<Real>::rows + 1];
}

// How many columns are staged from a line on, if each thread has so many: sums of those which are
// not there are not written.
template <class Real>
FK_HD int columns_from(const Problem<Real>& p, int line, int of_thread) {
  const int left = p.padded_columns - line;
  return left < of_thread * kSide ? left : of_thread * kSide;
}

// ---- who sees whom -----------------------------------------------------------------------------

// Whether query i sees key j of the head whose problem this is.
template <class Real>
FK_HD bool sees(const Problem<Real>& p, int i, int j) {
  if (i >= p.queries || j >= p.keys || (p.causal && j > i)) return false;
  const long long at = i * p.mask_stride[2] + j * p.mask_stride[3];
  if (p.attend) return p.attend[at];
  return p.bias == nullptr || p.bias[at] != -Real(INFINITY);
}

// A set of the pairs of one thread: bit a edge + b is that of own row a and other row b.
template <class Real>
FK_HD constexpr unsigned all_pairs() {
  return (1u << (Tile<Real>::edge * Tile<Real>::edge)) - 1;
}

template <class Real>
FK_HD bool has(unsigned set, int a, int b) {
  return set >> (a * Tile<Real>::edge + b) & 1;
}

// The pairs of rows `own`, ... and `other`, ... of which the query sees the key. KEYS: the own rows
// are keys.
template <bool KEYS, class Real>
FK_HD unsigned seen_pairs(const Problem<Real>& p, int own, int other) {
  constexpr int E = Tile<Real>::edge;
  const int i = KEYS ? other : own, j = KEYS ? own : other;
  const bool inside = i + E <= p.queries && j + E <= p.keys && !(p.causal && j + E - 1 > i);
  if (inside && !masked(p)) return all_pairs<Real>();
  unsigned set = 0;
  FK_UNROLL for (int a = 0; a < E; ++a)
    FK_UNROLL for (int b = 0; b < E; ++b)
      set |= unsigned(sees(p, i + (KEYS ? b : a), j + (KEYS ? a : b))) << (a * E + b);
  return set;
}

// Of the pairs of one thread, those whose weight dropout keeps. One call of the generator serves
// four keys of a query.
template <bool KEYS, class Real>
FK_HD unsigned kept_pairs(const Problem<Real>& p, long long head, int own, int other) {
  constexpr int E = Tile<Real>::edge;
  const uint32_t first = uint32_t(KEYS ? other : own), key = uint32_t(KEYS ? own : other);
  const uint64_t seed = uint64_t(*p.seed);
  unsigned set = 0;
  FK_ROLL for (int i = 0; i < E; ++i) {
    const Words words = philox({{key >> 2, first + i, uint32_t(head), 0}}, seed);
    FK_UNROLL for (int j = 0; j < E; ++j) {
      const uint32_t word = E == 4 || (key & 2) == 0 ? words.at[j] : words.at[(j + 2) & 3];
      set |= unsigned(word >= p.threshold) << (KEYS ? j * E + i : i * E + j);
    }
  }
  return set;
}

// ---- weights of the pairs of one thread --------------------------------------------------------

template <class Real>
struct Pairs {
  Scaled<Real> weight[Tile<Real>::edge][Tile<Real>::edge];
  unsigned seen;
  bool odd;  // a row is far away, or has numbers that are not finite
  FK_HD void reset() {
    FK_UNROLL for (int a = 0; a < Tile<Real>::edge; ++a)
      FK_UNROLL for (int b = 0; b < Tile<Real>::edge; ++b) weight[a][b] = {Real(1), 0};
  }
};

// The reach of the rows of one tile, own and other.
template <class Real>
struct Reach {
  const Real *own, *other;
};

template <class Real>
FK_HD bool is_odd(Real reach) {
  return !(reach <= Format<Real>::far);  // NaN too
}

template <class Real>
FK_HD bool any_odd(const Real* reach) {
  const Pack<Real>& rows = pack_at(reach);
  bool odd = false;
  FK_UNROLL for (int k = 0; k < Tile<Real>::edge; ++k) odd |= is_odd(rows.at[k]);
  return odd;
}

// The differences are always those of a query less a key, and the sine's operands in that order, in
// whichever pass: near its zeros the sine is rounding alone, and weights of another rounding would
// not be those which the saved totals are sums of. KEYS: the own rows are keys.
template <bool KEYS, class Real>
FK_HD Real difference(Real own, Real other) {
  return KEYS ? other - own : own - other;
}
template <bool KEYS, class Real>
FK_HD Real sine(Real own_sine, Real own_cosine, Real other_sine, Real other_cosine) {
  return KEYS ? sine_of_difference(other_sine, other_cosine, own_sine, own_cosine)
              : sine_of_difference(own_sine, own_cosine, other_sine, other_cosine);
}

// Multiplies the weights by the factors of one staged chunk of features. FAR: pairs with a row that
// is far away, eight of whose factors have no quotient within range, have their exponents taken out
// at every factor; the others have the same bits as without them.
template <bool KEYS, bool FAR, class Real>
FK_HD void multiply_features(int y, int x, const Real* own, const Real* other,
                             const Reach<Real>& reach, Pairs<Real>& pairs) {
  using T = Tile<Real>;
  constexpr int E = T::edge;
  const Real last = sinc_coefficient(own);
  FK_UNROLL_BY(FAR ? 1 : kChunk / kProduct) for (int half = 0; half < kChunk; half += kProduct) {
    Real numerator[E][E], denominator[E][E];
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) numerator[a][b] = denominator[a][b] = Real(1);
    FK_UNROLL_BY(FAR ? 1 : kProduct) for (int d = half; d < half + kProduct; ++d) {
      const Real* mine = own + 3 * d * T::stride + y * E;
      const Real* theirs = other + 3 * d * T::stride + x * E;
      const Pack<Real> u = pack_at(mine), su = pack_at(mine + T::stride);
      const Pack<Real> cu = pack_at(mine + 2 * T::stride), v = pack_at(theirs);
      const Pack<Real> sv = pack_at(theirs + T::stride), cv = pack_at(theirs + 2 * T::stride);
      FK_UNROLL for (int a = 0; a < E; ++a)
        FK_UNROLL for (int b = 0; b < E; ++b) {
          multiply_sinc(difference<KEYS>(u.at[a], v.at[b]),
                        sine<KEYS>(su.at[a], cu.at[a], sv.at[b], cv.at[b]), last,
                        numerator[a][b], denominator[a][b]);
          if (FAR && (is_odd(reach.own[y * E + a]) || is_odd(reach.other[x * E + b]))) {
            multiply(pairs.weight[a][b], divide(numerator[a][b], denominator[a][b]));
            numerator[a][b] = denominator[a][b] = Real(1);
          }
        }
    }
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b)
        multiply(pairs.weight[a][b], divide(numerator[a][b], denominator[a][b]));
  }
}

// The same for pairs that may be far. Inlined, this rare path takes registers from the other one:
// there a call was faster on an H200, by 3 to 13 %, and elsewhere slower, by as much.
template <bool KEYS, class Real>
FK_RARE void call_far_features(int y, int x, const Real* own, const Real* other,
                               const Reach<Real>& reach, Pairs<Real>& pairs) {
  multiply_features<KEYS, true>(y, x, own, other, reach, pairs);
}
template <bool KEYS, int SIZE, class Real>
FK_HD void multiply_far_features(int y, int x, const Real* own, const Real* other,
                                 const Reach<Real>& reach, Pairs<Real>& pairs) {
  constexpr bool called = sizeof(Real) == sizeof(float) && (KEYS ? SIZE != 128 : SIZE == 256);
  if constexpr (called)
    call_far_features<KEYS>(y, x, own, other, reach, pairs);
  else
    multiply_features<KEYS, true>(y, x, own, other, reach, pairs);
}

// Steps of the scores: the products of all features of a tile's pairs.
template <bool KEYS, int SIZE, class Real, class Threads>
FK_PROGRAM void scores_of_tile(Threads& threads, const Features<Real>& own,
                               const Features<Real>& other, int first, int begin, int features,
                               Real* own_lines, Real* other_lines) {
  using T = Tile<Real>;
  const int lines = 3 * kChunk;
  const Reach<Real> reach = {own.reach + first, other.reach + begin};
  for (int line = 0; line < 3 * features; line += lines) {
    threads.each([&](int thread, auto& state) {
      stage(thread, own_lines, own.lines + (long long)line * own.padded + first, own.padded, lines);
      stage(thread, other_lines, other.lines + (long long)line * other.padded + begin,
            other.padded, lines);
      if (line > 0) return;
      state.pairs.reset();
      state.pairs.odd = any_odd(reach.own + thread / kSide * T::edge) ||
                        any_odd(reach.other + thread % kSide * T::edge);
    });
    threads.each([&](int thread, auto& state) {
      const int y = thread / kSide, x = thread % kSide;
      if (first + y * T::edge >= own.rows) return;  // none is seen: whole warps rest
      if (state.pairs.odd)  // chosen outside the loop, which is compiled for each case by itself
        multiply_far_features<KEYS, SIZE>(y, x, own_lines, other_lines, reach, state.pairs);
      else
        multiply_features<KEYS, false>(y, x, own_lines, other_lines, reach, state.pairs);
    });
  }
}

// Turns the products of the pairs of rows `own`, ... and `other`, ... into weights: power, mask,
// NaN for rows that are not finite. What all pairs share is decided outside the loops.
template <bool KEYS, class Real>
FK_HD void finish(const Problem<Real>& p, const Real* own_reach, const Real* other_reach, int own,
                  int other, Pairs<Real>& pairs) {
  constexpr int E = Tile<Real>::edge;
  if (!masked(p)) pairs.seen = seen_pairs<KEYS>(p, own, other);
  if (p.power == 4) {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) pairs.weight[a][b] = fourth_power(pairs.weight[a][b]);
  } else {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b)
        pairs.weight[a][b] = power_of(pairs.weight[a][b], p.power);
  }
  if (p.bias) {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b) {
        const long long i = KEYS ? other + b : own + a, j = KEYS ? own + a : other + b;
        if (has<Real>(pairs.seen, a, b))
          multiply_exp(pairs.weight[a][b], p.bias[i * p.mask_stride[2] + j * p.mask_stride[3]]);
      }
  }
  if (pairs.odd) {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b)
        if (!is_finite(own_reach[own + a]) || !is_finite(other_reach[other + b]))
          pairs.weight[a][b].significand = Real(NAN);
  }
  if (pairs.seen != all_pairs<Real>()) {
    FK_UNROLL for (int a = 0; a < E; ++a)
      FK_UNROLL for (int b = 0; b < E; ++b)
        if (!has<Real>(pairs.seen, a, b)) pairs.weight[a][b] = {Real(0), kNone};
  }
}

// ---- values that are not finite ----------------------------------------------------------------

// Whether this thread's share of rows [begin, end) has a number that is not finite.
template <class Real>
FK_HD bool any_flaw(int thread, const Real* flaws, int begin, int end) {
  constexpr int E = Tile<Real>::edge;
  bool found = false;
  for (int row = begin + thread * E; row < end; row += kThreads * E) {
    const Pack<Real>& rows = pack_at(flaws + row);
    FK_UNROLL for (int k = 0; k < E; ++k) found |= !is_finite(rows.at[k]);
  }
  return found;
}

// Such numbers were packed as zeros; here they reach the sums of the own rows that see them, in
// their columns. Products with weights of zero would bring them to rows that are masked from them.
template <bool KEYS, class Real>
FK_HD void spread_flaws(const Problem<Real>& p, int y, int x, int first, int rows,
                        const Columns<Real>& other, int begin, int end, Real* sums) {
  constexpr int E = Tile<Real>::edge;
  FK_ROLL for (int k = begin; k < end && k < other.rows; ++k) {
    if (is_finite(other.flaws[k])) continue;
    FK_ROLL for (int row = first + y * E; row < first + (y + 1) * E && row < rows; ++row) {
      if (!(KEYS ? sees(p, k, row) : sees(p, row, k))) continue;
      FK_ROLL for (int c = x; c < p.columns; c += kSide)
        if (!is_finite(other.plain[(long long)k * p.columns + c]))
          sums[(long long)row * p.columns + c] = Real(NAN);
    }
  }
}

// Steps of the same; `sums` are those of the head, (rows, C).
template <bool KEYS, class Real, class Threads>
FK_PROGRAM void spread_flaws_of_block(Threads& threads, const Problem<Real>& p, int first, int rows,
                                      const Columns<Real>& other, int begin, int end, Real* sums) {
  const bool flawed = threads.any(
      [&](int thread, auto&) { return any_flaw(thread, other.flaws, begin, end); });
  if (!flawed) return;
  threads.each([&](int thread, auto&) {
    spread_flaws<KEYS>(p, thread / kSide, thread % kSide, first, rows, other, begin, end, sums);
  });
}

// ---- products of a staged matrix of pairs with staged columns ----------------------------------

// sum[a][c] += sum_j pairs[row a][j] columns[c][j] for the columns c = x, x + 16, ... of the stage.
template <class Real, int COUNT>
FK_HD void add_columns(int y, int x, const Real* pairs, const Real* columns,
                       Real (&sum)[Tile<Real>::edge][COUNT]) {
  using T = Tile<Real>;
  constexpr int E = T::edge;
  Real part[E][COUNT] = {};  // the sums themselves may have no register to live in
  for (int j = 0; j < T::rows; j += E) {
    Pack<Real> row[E];
    FK_UNROLL for (int a = 0; a < E; ++a) row[a] = pack_at(pairs + (y * E + a) * T::stride + j);
    FK_UNROLL for (int c = 0; c < COUNT; ++c) {
      const Pack<Real> column = pack_at(columns + (c * kSide + x) * T::stride + j);
      FK_UNROLL for (int a = 0; a < E; ++a)
        FK_UNROLL for (int k = 0; k < E; ++k)
          part[a][c] = std::fma(row[a].at[k], column.at[k], part[a][c]);
    }
  }
  FK_UNROLL for (int a = 0; a < E; ++a)
    FK_UNROLL for (int c = 0; c < COUNT; ++c) sum[a][c] += part[a][c];
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

// Where a tile's slopes of a query lie, so that neither those who write them nor those who read them
// meet at one bank.
template <class Real>
FK_HD constexpr int slope_line(int query) {
  return query % Tile<Real>::edge * kSide + query / Tile<Real>::edge;
}

// Adds the parts of sixteen lanes, in one order; lane y returns the sum of part y E / 16.
template <class Real, int COUNT>
FK_PROGRAM Real sum_of_lanes(int y, Real (&part)[COUNT]) {
  int bit = kSide / 2;
  FK_UNROLL for (int half = COUNT / 2; half > 0; half /= 2, bit /= 2) {
    const bool upper = y & bit;
    FK_UNROLL for (int k = 0; k < half; ++k) {
      const Real given = upper ? part[k] : part[k + half];
      const Real kept = upper ? part[k + half] : part[k];
      part[k] = kept + __shfl_xor_sync(0xffffffffu, given, bit);
    }
  }
  FK_UNROLL for (; bit > 0; bit /= 2) part[0] += __shfl_xor_sync(0xffffffffu, part[0], bit);
  return part[0];
}

// Keys y E, ... and all queries of a tile, feature x of the staged chunk, and its t = d log sinc / dx
// at the query less the key, which both sides share:
//   of_keys[a] += sum_i slopes[i][key a] t,   of_queries[i] += sum_j slopes[i][j] t.
// Lanes that differ in y are neighbours, and add what they have of a query.
template <class Real>
FK_PROGRAM void add_slopes(int y, int x, const Real* slopes, const Real* keys, const Real* queries,
                           Real (&of_keys)[Tile<Real>::edge], Real* of_queries) {
  using T = Tile<Real>;
  constexpr int E = T::edge, lanes = kSide / E;  // lanes that end with the sum of one query
  const Real* mine = keys + 3 * x * T::stride + y * E;
  const Real* theirs = queries + 3 * x * T::stride;
  const Pack<Real> v = pack_at(mine), sv = pack_at(mine + T::stride);
  const Pack<Real> cv = pack_at(mine + 2 * T::stride);
  const Real last = slope_coefficient(keys);
  Real part[E] = {};
  FK_ROLL for (int begin = 0; begin < T::rows; begin += kSide) {
    Real* to = of_queries + begin + y % lanes * E + y / lanes;
    const Real before = *to;
    Real sum = Real(0);
    FK_ROLL for (int i = begin; i < begin + kSide; i += E) {
      const Pack<Real> u = pack_at(theirs + i), su = pack_at(theirs + T::stride + i);
      const Pack<Real> cu = pack_at(theirs + 2 * T::stride + i);
      Real of_query[E] = {};
      FK_UNROLL for (int k = 0; k < E; ++k) {
        const Pack<Real> row = pack_at(slopes + slope_line<Real>(i + k) * T::stride + y * E);
        FK_UNROLL for (int a = 0; a < E; ++a) {
          const Real s = sine_of_difference(su.at[k], cu.at[k], sv.at[a], cv.at[a]);
          const Real c = cosine_of_difference(su.at[k], cu.at[k], sv.at[a], cv.at[a]);
          const Real t = log_sinc_slope(u.at[k] - v.at[a], s, c, last);
          part[a] = std::fma(row.at[a], t, part[a]);
          of_query[k] = std::fma(row.at[a], t, of_query[k]);
        }
      }
      const Real total = sum_of_lanes(y, of_query);
      if ((i - begin) / E == y % lanes) sum = total;
    }
    *to = before + sum;
  }
  FK_UNROLL for (int a = 0; a < E; ++a) of_keys[a] += part[a];
}

}  // namespace fk
