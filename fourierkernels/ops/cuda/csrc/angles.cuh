// Sines and cosines of rows, and from them one factor of a pair.
//
// w = prod_d (sin x_d / x_d)^l at x = u - v, u = R q, v = R k. The sine of the difference comes from
// the angle addition formula, so the loop over pairs calls no transcendental function. Near x = 0,
// where that sine keeps few digits, its power series stands in.
#pragma once

#include "scalar.cuh"

namespace fk {

// ---- sine and cosine, once per row and feature -------------------------------------------------

template <class Real>
struct SineCosine {
  Real sine, cosine;
};

template <class Real>
FK_HD SineCosine<Real> turned(SineCosine<Real> at, int quarters) {
  switch (quarters & 3) {
    case 0: return at;
    case 1: return {at.cosine, -at.sine};
    case 2: return {-at.sine, -at.cosine};
    default: return {-at.cosine, at.sine};
  }
}

// Taylor polynomials on |r| <= pi/4: the first term left out is below 1e-17.
FK_HD SineCosine<double> sine_cosine_of_remainder(double r) {
  const double y = r * r;
  double s = 1.0 / 355687428096000.0;  // 1/17!
  s = fma(s, y, -1.0 / 1307674368000.0);
  s = fma(s, y, 1.0 / 6227020800.0);
  s = fma(s, y, -1.0 / 39916800.0);
  s = fma(s, y, 1.0 / 362880.0);
  s = fma(s, y, -1.0 / 5040.0);
  s = fma(s, y, 1.0 / 120.0);
  s = fma(s, y, -1.0 / 6.0);
  double c = -1.0 / 6402373705728000.0;  // 1/18!
  c = fma(c, y, 1.0 / 20922789888000.0);
  c = fma(c, y, -1.0 / 87178291200.0);
  c = fma(c, y, 1.0 / 479001600.0);
  c = fma(c, y, -1.0 / 3628800.0);
  c = fma(c, y, 1.0 / 40320.0);
  c = fma(c, y, -1.0 / 720.0);
  c = fma(c, y, 1.0 / 24.0);
  c = fma(c, y, -0.5);
  return {fma(s * y, r, r), fma(c, y, 1.0)};
}

// Cody-Waite: x less a multiple of pi/2 that is held in three doubles. Beyond 1e9 its multiple is
// no longer exact and the library's slow reduction takes over.
FK_HD SineCosine<double> sine_cosine(double x) {
  if (!(std::fabs(x) < 1e9)) return {sin(x), cos(x)};
  const double n = std::rint(x * 0.63661977236758134);
  double r = fma(-n, 1.5707963267948966, x);
  r = fma(-n, 6.123233995736766e-17, r);
  r = fma(-n, -1.4973849048591698e-33, r);
  return turned(sine_cosine_of_remainder(r), int(int64_t(n) & 3));
}

// The same of r + rest, with rest below the last digit of r; the first term left out is below 2e-9.
FK_HD SineCosine<float> sine_cosine_of_remainder(float r, float rest) {
  const float y = r * r, y_rest = std::fma(r, r, -y);
  const float cube = r * y, cube_rest = std::fma(r, y, -cube) + r * y_rest;
  float s = -1.0f / 39916800;
  s = std::fma(s, y, 1.0f / 362880);
  s = std::fma(s, y, -1.0f / 5040);
  s = std::fma(s, y, 1.0f / 120);
  s = std::fma(s, y, 4.9670538e-9f);  // what 1/6 lacks in float
  s = std::fma(cube, s, std::fma(cube_rest, -1.0f / 6, std::fma(-0.5f * y, rest, rest)));
  s = std::fma(cube, -1.0f / 6, s);
  float c = -1.0f / 3628800;
  c = std::fma(c, y, 1.0f / 40320);
  c = std::fma(c, y, -1.0f / 720);
  c = std::fma(c, y, 1.0f / 24);
  const float half = 0.5f * y, top = 1.0f - half, top_rest = (1.0f - top) - half;
  c = std::fma(y * y, c, -0.5f * y_rest) - r * rest;
  return {r + s, top + (top_rest + c)};
}

// Without double precision, of which most cards have 1/64 of their speed. pi/2 is the sum of four
// numbers: n times the first three is exact, and so are the differences, in the parts r and rest.
FK_HD SineCosine<float> sine_cosine(float x) {
  if (!(std::fabs(x) < 8192.0f)) {
    const SineCosine<double> at = sine_cosine(double(x));
    return {float(at.sine), float(at.cosine)};
  }
  const float n = std::rint(x * 0.636619772f);
  const float first = std::fma(-n, 1.5707964e+00f, x);
  const float b = n * -4.3713953e-08f, second = first - b;
  const float c = n * 2.563283e-12f, r = second - c;
  const float rest = ((second - r) - c) + ((first - second) - b);
  return turned(sine_cosine_of_remainder(r, std::fma(-n, 6.123234e-17f, rest)), int(n));
}

// ---- one feature of one pair -------------------------------------------------------------------

// The last coefficients of the series below. The loops pass them on from shared memory: constants
// would be moved into a register for every factor again, one instruction in twelve.
template <class Real>
struct Last;
template <>
struct Last<float> {
  static constexpr float sinc = 1.0f / 120, slope = 1.0f / 4725;
};
template <>
struct Last<double> {
  static constexpr double sinc = -1.0 / 39916800.0, slope = 349222.0 / 1531329465290625.0;
};

// sin x / x for |x| < 1/4, from y = x^2: the first term left out is below half a unit of rounding.
FK_HD float sinc_series(float y, float last) {
  return std::fma(y, std::fma(y, last, -1.0f / 6), 1.0f);
}
FK_HD double sinc_series(double y, double last) {
  double p = fma(last, y, 1.0 / 362880.0);
  p = fma(p, y, -1.0 / 5040.0);
  p = fma(p, y, 1.0 / 120.0);
  p = fma(p, y, -1.0 / 6.0);
  return fma(p, y, 1.0);
}

// sin(u - v) and cos(u - v) from the sines and cosines of u and v.
template <class Real>
FK_HD Real sine_of_difference(Real sin_u, Real cos_u, Real sin_v, Real cos_v) {
  return std::fma(sin_u, cos_v, -(cos_u * sin_v));
}
template <class Real>
FK_HD Real cosine_of_difference(Real sin_u, Real cos_u, Real sin_v, Real cos_v) {
  return std::fma(cos_u, cos_v, sin_u * sin_v);
}

// Multiplies numerator and denominator of a product by sin x / x, with s = sin x. Both branches are
// predicated; with a conditional expression every other denominator costs a selection more.
template <class Real>
FK_HD void multiply_sinc(Real x, Real s, Real last, Real& numerator, Real& denominator) {
  const Real y = x * x;
  if (y < Real(0.0625)) {
    s = sinc_series(y, last);
  } else {
    denominator *= x;
  }
  numerator *= s;
}

// d/dx log|sin x / x| = cot x - 1/x = -sum_k c_k x^(2k-1), here for |x| < 1/2.
FK_HD float slope_series(float y, float last) {
  return std::fma(y, std::fma(y, std::fma(y, last, 2.0f / 945), 1.0f / 45), 1.0f / 3);
}
FK_HD double slope_series(double y, double last) {
  double p = fma(last, y, 87734.0 / 38979295480125.0);
  p = fma(p, y, 3617.0 / 162820783125.0);
  p = fma(p, y, 4.0 / 18243225.0);
  p = fma(p, y, 1382.0 / 638512875.0);
  p = fma(p, y, 2.0 / 93555.0);
  p = fma(p, y, 1.0 / 4725.0);
  p = fma(p, y, 2.0 / 945.0);
  p = fma(p, y, 1.0 / 45.0);
  return fma(p, y, 1.0 / 3.0);
}

// The slope with s = sin x, c = cos x. At a zero of the sine it is large but finite: the weight that
// multiplies it is zero there.
template <class Real>
FK_HD Real log_sinc_slope(Real x, Real s, Real c, Real last) {
  const Real y = x * x;
  const Real far = divide(std::fma(c, x, -s), std::fma(s, x, Format<Real>::tiny));
  return y < Real(0.25) ? -x * slope_series(y, last) : far;
}

}  // namespace fk
