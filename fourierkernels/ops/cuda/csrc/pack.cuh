// Rows as the kernels read them: scaled, with sines and cosines, transposed and padded.
#pragma once

#include "problem.cuh"

namespace fk {

template <class Real>
struct Packing {
  const Real* rows;             // (B H, n, width)
  const Real *radius, *centre;  // (H, width), (B H, width); or null
  Real* packed;                 // of the first head
  long long stride;             // from one head to the next
  long long batches_heads;
  int heads, n, width, padded_n, padded_width;
};

template <class Real>
FK_HD long long entries(const Packing<Real>& p) {
  return p.batches_heads * (p.padded_width + 1) * p.padded_n;
}

// R (x - c), rounded once. The offset that queries and keys share is removed exactly: only
// differences count, and it would cost their digits.
template <class Real>
FK_HD Real scaled_offset(Real radius, Real x, Real centre) {
  const Real offset = x - centre, back = offset - x;
  const Real rest = (x - (offset - back)) - (centre + back);
  return std::fma(radius, offset, radius * rest);
}

template <class Real>
FK_HD Real number_at(const Packing<Real>& p, long long head, int row, int d) {
  const Real given = p.rows[(head * p.n + row) * p.width + d];
  if (p.radius == nullptr) return given;
  return scaled_offset(p.radius[head % p.heads * p.width + d], given,
                       p.centre[head * p.width + d]);
}

// The largest size of a row's numbers, NaN if one of them is not finite.
template <class Real>
FK_HD Real size_of_row(const Packing<Real>& p, long long head, int row) {
  Real largest = Real(0);
  bool finite = true;
  for (int d = 0; d < p.width; ++d) {
    const Real size = std::fabs(number_at(p, head, row, d));
    finite = finite && is_finite(size);
    largest = size > largest ? size : largest;
  }
  return finite ? largest : Real(NAN);
}

// One entry, `at` in (B H, width' + 1, rows').
template <class Real>
FK_HD void pack_one(const Packing<Real>& p, long long at) {
  const int row = int(at % p.padded_n), d = int(at / p.padded_n % (p.padded_width + 1));
  const long long head = at / p.padded_n / (p.padded_width + 1);
  const bool scaled = p.radius != nullptr;
  Real* to = p.packed + head * p.stride + (scaled ? 3ll : 1ll) * d * p.padded_n + row;
  if (d == p.padded_width) {
    const Real size = row < p.n ? size_of_row(p, head, row) : Real(0);
    to[0] = scaled || !is_finite(size) ? size : Real(0);
    return;
  }
  Real u = row < p.n && d < p.width ? number_at(p, head, row, d) : Real(0);
  if (!is_finite(u)) u = Real(0);
  to[0] = u;
  if (!scaled) return;
  const SineCosine<Real> angle = sine_cosine(u);
  to[p.padded_n] = angle.sine;
  to[2ll * p.padded_n] = angle.cosine;
}

}  // namespace fk
