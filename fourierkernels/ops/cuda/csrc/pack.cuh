// Rows as the kernels read them: scaled, with sines and cosines, transposed and padded.
//
// One block packs one tile of rows of one head, a chunk of features at a time, through shared
// memory: it reads neighbouring features and writes neighbouring rows.
#pragma once

#include "threads.cuh"

namespace fk {

template <class Real>
struct Packing {
  const Real* rows;             // (B H, n, width)
  const Real *radius, *origin;  // (H, width), (B H, width) in `origin_stride`; or null
  Real* packed;                 // of the first head
  long long stride;             // from one head to the next
  long long origin_stride;
  long long batches_heads;
  int heads, n, width, padded_n, padded_width;
};

// Those of one call; what is not needed is empty.
template <class Real>
struct Packings {
  Packing<Real> part[4];
};

template <class Real>
FK_HD long long blocks_of(const Packing<Real>& p) {
  return p.batches_heads * (p.padded_n / Tile<Real>::rows);
}

template <class Real>
struct PackState {
  Real largest[Tile<Real>::edge] = {};  // size in each row; not finite if a number is not
};

// The offset c that the queries and keys of a head share: see common_offset in ops/arguments.py.
template <class Real>
FK_HD Real common_offset(Real radius, Real origin) {
  const Real step = Real(16), offset = step * std::rint(radius * origin / step) / radius;
  return is_finite(offset) ? offset : Real(0);
}

// R (x - c), rounded once. The offset that queries and keys share is removed exactly: only
// differences count, and it would cost their digits.
template <class Real>
FK_HD Real scaled_offset(Real radius, Real x, Real centre) {
  const Real offset = x - centre, back = offset - x;
  const Real rest = (x - (offset - back)) - (centre + back);
  return std::fma(radius, offset, radius * rest);
}

// One step: a chunk of features of the tile into shared memory, (kChunk, rows).
template <class Real>
FK_HD void gather(const Packing<Real>& p, long long head, int first, int chunk, int thread,
                  Real* lines, PackState<Real>& state) {
  using T = Tile<Real>;
  const int line = thread % kSide, d = chunk + line;
  const bool scaled = p.radius != nullptr && d < p.width;
  const Real radius = scaled ? p.radius[head % p.heads * p.width + d] : Real(1);
  const Real centre = scaled ? common_offset(radius, p.origin[head * p.origin_stride + d]) : Real(0);
  FK_UNROLL for (int k = 0; k < T::edge; ++k) {
    const int place = k * kSide + thread / kSide, row = first + place;
    const bool inside = row < p.n && d < p.width;
    Real u = inside ? p.rows[(head * p.n + row) * p.width + d] : Real(0);
    if (scaled && inside) u = scaled_offset(radius, u, centre);
    const Real size = is_finite(u) ? std::fabs(u) : Real(INFINITY);
    state.largest[k] = size > state.largest[k] ? size : state.largest[k];
    lines[line * T::stride + place] = is_finite(u) ? u : Real(0);
  }
}

// One step: the chunk to where it goes.
template <class Real>
FK_HD void scatter(const Packing<Real>& p, long long head, int first, int chunk, int thread,
                   const Real* lines) {
  using T = Tile<Real>;
  const int line = thread / kSide, part = thread % kSide * T::edge;
  const bool scaled = p.radius != nullptr;
  const Pack<Real> u = pack_at(lines + line * T::stride + part);
  Real* to = p.packed + head * p.stride + first + part +
             (scaled ? 3ll : 1ll) * (chunk + line) * p.padded_n;
  *reinterpret_cast<Pack<Real>*>(to) = u;
  if (!scaled) return;
  Pack<Real> sine, cosine;
  FK_UNROLL for (int k = 0; k < T::edge; ++k) {
    const SineCosine<Real> angle = sine_cosine(u.at[k]);
    sine.at[k] = angle.sine;
    cosine.at[k] = angle.cosine;
  }
  *reinterpret_cast<Pack<Real>*>(to + p.padded_n) = sine;
  *reinterpret_cast<Pack<Real>*>(to + 2ll * p.padded_n) = cosine;
}

// One step: the last line, the reach of a row or its flaw, from what its threads have seen.
template <class Real>
FK_HD void put_sizes(const Packing<Real>& p, long long head, int first, int place,
                     const Real* sizes) {
  Real largest = Real(0);
  for (int k = 0; k < kSide; ++k) {
    const Real size = sizes[place * kSide + k];
    largest = size > largest ? size : largest;
  }
  const bool scaled = p.radius != nullptr;
  const long long line = (scaled ? 3ll : 1ll) * p.padded_width;
  p.packed[head * p.stride + line * p.padded_n + first + place] =
      is_finite(largest) ? scaled * largest : Real(NAN);
}

template <class Real, class Threads>
FK_PROGRAM void pack_block(Threads& threads, const Packing<Real>& p, long long block,
                           char* memory) {
  using T = Tile<Real>;
  using State = PackState<Real>;
  Real* lines = reinterpret_cast<Real*>(memory);
  const int tiles = p.padded_n / T::rows, first = int(block % tiles) * T::rows;
  const long long head = block / tiles;
  for (int chunk = 0; chunk < p.padded_width; chunk += kChunk) {
    threads.each([&](int thread, State& state) {
      gather(p, head, first, chunk, thread, lines, state);
    });
    threads.each([&](int thread, State&) { scatter(p, head, first, chunk, thread, lines); });
  }
  threads.each([&](int thread, State& state) {
    FK_UNROLL for (int k = 0; k < T::edge; ++k)
      lines[(k * kSide + thread / kSide) * kSide + thread % kSide] = state.largest[k];
  });
  threads.each([&](int thread, State&) {
    if (thread < T::rows) put_sizes(p, head, first, thread, lines);
  });
}

template <class Real>
constexpr size_t pack_bytes() {
  return sizeof(Real) * kChunk * Tile<Real>::stride;
}

}  // namespace fk
