// Scalar mathematics of Fourier attention, for host and device, without torch.
//
// w = prod_d (sin x_d / x_d)^l at x = u - v, u = R q, v = R k. The sine of the difference comes from
// the angle addition formula, so the loop over pairs calls no transcendental function. Near x = 0,
// where that sine keeps few digits, its power series stands in. Products are kept as significand
// and exponent, so that nothing underflows in any number of features.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define FK_HD __host__ __device__ __forceinline__
#define FK_PROGRAM __device__ __forceinline__
#define FK_UNROLL _Pragma("unroll")
#else
#define FK_HD inline
#define FK_PROGRAM inline
#define FK_UNROLL
#endif

namespace fk {

// Added to the exponent by a factor that is zero; no product of other factors gets so low.
constexpr int kZero = -(1 << 24);
// Exponent of a weight that is zero; below all others, and far from the end of int.
constexpr int kNone = -(1 << 30);
// Additive masks are cut here, in powers of two: 1e8 natural units and more are all alike.
constexpr int kLargestBias = 1 << 28;

template <class Real>
struct Format;

template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int digits = 23, bias = 127, exponents = 0xff;
  static constexpr float tiny = 1e-25f;  // beside s x, which is above 1e-9 or exactly zero
  static constexpr float log2e_high = 1.44269502162933349609375f, log2e_low = 1.92596299e-8f;
};

template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int digits = 52, bias = 1023, exponents = 0x7ff;
  static constexpr double tiny = 1e-200;
  static constexpr double log2e_high = 1.4426950408889634, log2e_low = 2.0355273740931033e-17;
};

template <class To, class From>
FK_HD To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// 2^n for any n: zero below the normal numbers, the largest power above them.
template <class Real>
FK_HD Real two_to(int n) {
  using F = Format<Real>;
  using Bits = typename F::Bits;
  const int field = (n > F::bias ? F::bias : n) + F::bias;
  return n < 1 - F::bias ? Real(0) : bits_as<Real>(Bits(field) << F::digits);
}

FK_HD float divide(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdividef(a, b);
#else
  return a / b;
#endif
}
FK_HD double divide(double a, double b) { return a / b; }

// ---- a number as significand and exponent ------------------------------------------------------

template <class Real>
struct Scaled {
  Real significand;  // 1 <= |significand| < 2 after `renormalise`
  int exponent;      // value = significand 2^exponent
};

// The exponent moves from the significand to where it cannot underflow. Zero is marked by kZero.
template <class Real>
FK_HD void renormalise(Scaled<Real>& w) {
  using F = Format<Real>;
  using Bits = typename F::Bits;
  const Bits mask = Bits(F::exponents) << F::digits;
  const Bits bits = bits_as<Bits>(w.significand);
  const int field = int((bits & mask) >> F::digits);
  w.exponent += field == 0 ? kZero : field - F::bias;
  w.significand = bits_as<Real>((bits & ~mask) | (Bits(F::bias) << F::digits));
}

template <class Real>
FK_HD void multiply(Scaled<Real>& w, Real factor) {
  w.significand *= factor;
  renormalise(w);
}

template <class Real>
FK_HD bool is_zero(const Scaled<Real>& w) {
  return w.exponent < kZero / 2;
}

// w^l. Up to kDirectPower the significand is left below 2^l, which costs no rescaling.
constexpr int kDirectPower = 16;

template <class Real>
FK_HD Scaled<Real> power_of(Scaled<Real> base, int l) {
  if (is_zero(base)) return {Real(0), kNone};
  Scaled<Real> result = {Real(1), 0};
  const bool rescale = l > kDirectPower;
  for (;;) {
    if (l & 1) {
      result.exponent += base.exponent;
      result.significand *= base.significand;
      if (rescale) renormalise(result);
    }
    l >>= 1;
    if (l == 0) return result;
    base.exponent *= 2;
    base.significand *= base.significand;
    if (rescale) renormalise(base);
  }
}

// The default power, without branches.
template <class Real>
FK_HD Scaled<Real> fourth_power(Scaled<Real> base) {
  const bool zero = is_zero(base);
  const Real square = base.significand * base.significand;
  return {zero ? Real(0) : square * square, zero ? kNone : 4 * base.exponent};
}

FK_HD float exp2_of(float x) { return exp2f(x); }
FK_HD double exp2_of(double x) { return exp2(x); }

// w e^bias; minus infinity gives zero.
template <class Real>
FK_HD void multiply_exp(Scaled<Real>& w, Real bias) {
  using F = Format<Real>;
  const Real whole = std::rint(bias * F::log2e_high);
  if (whole >= -Real(kLargestBias) && whole <= Real(kLargestBias)) {
    const Real rest = std::fma(bias, F::log2e_high, -whole) + bias * F::log2e_low;
    w.significand *= exp2_of(rest);  // 2^-1/2 to 2^1/2
    w.exponent += int(whole);
  } else if (std::isinf(bias)) {
    w = {Real(0), kNone};
  } else {
    w.exponent += whole > 0 ? kLargestBias : -kLargestBias;
  }
}

// ---- sine and cosine, once per row and feature -------------------------------------------------

struct SineCosine {
  double sine, cosine;
};

// Taylor polynomials on |r| <= pi/4: the first term left out is below 1e-17.
FK_HD SineCosine sine_cosine_of_remainder(double r) {
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
FK_HD SineCosine sine_cosine(double x) {
  if (!(std::fabs(x) < 1e9)) return {sin(x), cos(x)};
  const double n = std::rint(x * 0.63661977236758134);
  double r = fma(-n, 1.5707963267948966, x);
  r = fma(-n, 6.123233995736766e-17, r);
  r = fma(-n, -1.4973849048591698e-33, r);
  const SineCosine at = sine_cosine_of_remainder(r);
  switch (int(int64_t(n) & 3)) {
    case 0: return at;
    case 1: return {at.cosine, -at.sine};
    case 2: return {-at.sine, -at.cosine};
    default: return {-at.cosine, at.sine};
  }
}

// ---- one feature of one pair -------------------------------------------------------------------

// sin x / x for |x| < 1/4, from y = x^2: the first term left out is below half a unit of rounding.
FK_HD float sinc_series(float y) {
  return std::fma(y, std::fma(y, 1.0f / 120, -1.0f / 6), 1.0f);
}
FK_HD double sinc_series(double y) {
  double p = -1.0 / 39916800.0;
  p = fma(p, y, 1.0 / 362880.0);
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

// Multiplies numerator and denominator of a product by sin x / x, with s = sin x.
template <class Real>
FK_HD void multiply_sinc(Real x, Real s, Real& numerator, Real& denominator) {
  const Real y = x * x;
  const bool near = y < Real(0.0625);
  numerator *= near ? sinc_series(y) : s;
  if (!near) denominator *= x;
}

// d/dx log|sin x / x| = cot x - 1/x = -sum_k c_k x^(2k-1), here for |x| < 1/2.
FK_HD float slope_series(float y) {
  return std::fma(y, std::fma(y, std::fma(y, 1.0f / 4725, 2.0f / 945), 1.0f / 45), 1.0f / 3);
}
FK_HD double slope_series(double y) {
  double p = 349222.0 / 1531329465290625.0;
  p = fma(p, y, 87734.0 / 38979295480125.0);
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
FK_HD Real log_sinc_slope(Real x, Real s, Real c) {
  const Real y = x * x;
  const Real far = divide(std::fma(c, x, -s), std::fma(s, x, Format<Real>::tiny));
  return y < Real(0.25) ? -x * slope_series(y) : far;
}

}  // namespace fk
