// The scalar functions of the CUDA kernels over arrays, for ctypes.
#include "angles.cuh"
#include "philox.cuh"

using namespace fk;

template <class Real>
static void sincos_of(const Real* x, Real* s, Real* c, long n) {
  for (long i = 0; i < n; ++i) {
    const SineCosine<Real> at = sine_cosine(x[i]);
    s[i] = at.sine;
    c[i] = at.cosine;
  }
}

// For pairs (u, v): sin x / x, and its logarithm's slope, as the kernels compute them.
template <class Real>
static void pairs_of(const Real* u, const Real* v, Real* sinc, Real* slope, long n) {
  for (long i = 0; i < n; ++i) {
    const SineCosine<Real> a = sine_cosine(u[i]), b = sine_cosine(v[i]);
    const Real x = u[i] - v[i], s = sine_of_difference(a.sine, a.cosine, b.sine, b.cosine);
    Real numerator = 1, denominator = 1;
    multiply_sinc(x, s, Last<Real>::sinc, numerator, denominator);
    sinc[i] = divide(numerator, denominator);
    const Real c = cosine_of_difference(a.sine, a.cosine, b.sine, b.cosine);
    slope[i] = log_sinc_slope(x, s, c, Last<Real>::slope);
  }
}

// The product of n factors, to the power l, times e^bias.
template <class Real>
static void product_of(const Real* factors, long n, int l, Real bias, Real* significand,
                       int* exponent) {
  Scaled<Real> w = {Real(1), 0};
  for (long i = 0; i < n; ++i) multiply(w, factors[i]);
  w = power_of(w, l);
  if (w.exponent != kNone) multiply_exp(w, bias);
  *significand = w.significand;
  *exponent = w.exponent;
}

extern "C" void philox_words(const Words* counters, const uint64_t* seeds, Words* words, long n) {
  for (long i = 0; i < n; ++i) words[i] = philox(counters[i], seeds[i]);
}

#define EXPORT(NAME, REAL)                                                                       \
  extern "C" void sincos_##NAME(const REAL* x, REAL* s, REAL* c, long n) {                     \
    sincos_of(x, s, c, n);                                                                       \
  }                                                                                              \
  extern "C" void pairs_##NAME(const REAL* u, const REAL* v, REAL* z, REAL* t, long n) {         \
    pairs_of(u, v, z, t, n);                                                                     \
  }                                                                                              \
  extern "C" void product_##NAME(const REAL* f, long n, int l, REAL bias, REAL* m, int* e) {     \
    product_of(f, n, l, bias, m, e);                                                             \
  }                                                                                              \
  extern "C" REAL two_to_##NAME(int n) { return two_to<REAL>(n); }

EXPORT(float32, float)
EXPORT(float64, double)
