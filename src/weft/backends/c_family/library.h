/* What C's library does not have, or not in this way. It comes before <tgmath.h>: names here mean double precision. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdint.h>

/* In single precision they are computed in double precision and rounded once. */
#define WEFT_ROUNDED(name)                                                                                             \
    static inline float weft_##name##_float32(float x) { return (float)weft_##name##_float64((double)x); }
#define WEFT_ROUNDED2(name)                                                                                            \
    static inline float weft_##name##_float32(float x, float y) { return (float)weft_##name##_float64(x, y); }
#define WEFT_LIBRARY(name, given)                                                                                      \
    static inline double weft_##name##_float64(double x) { return given(x); }                                          \
    WEFT_ROUNDED(name)

#define WEFT_PI 3.14159265358979323846
#define WEFT_ROOT_PI 1.77245385090551602730

WEFT_LIBRARY(erfc, erfc)
WEFT_LIBRARY(lgamma, lgamma)
WEFT_LIBRARY(tgamma, tgamma)
WEFT_LIBRARY(j0, j0)
WEFT_LIBRARY(j1, j1)
WEFT_LIBRARY(y0, y0)
WEFT_LIBRARY(y1, y1)

static inline double weft_exp10_float64(double x) { return pow(10.0, x); }
WEFT_ROUNDED(exp10)
static inline double weft_rcbrt_float64(double x) { return 1.0 / cbrt(x); }
WEFT_ROUNDED(rcbrt)
static inline double weft_rhypot_float64(double x, double y) { return 1.0 / hypot(x, y); }
WEFT_ROUNDED2(rhypot)

static inline double weft_norm3d_float64(double x, double y, double z) { return hypot(hypot(x, y), z); }
static inline double weft_norm4d_float64(double x, double y, double z, double w)
{
    return hypot(hypot(hypot(x, y), z), w);
}
static inline double weft_rnorm3d_float64(double x, double y, double z) { return 1.0 / weft_norm3d_float64(x, y, z); }
static inline double weft_rnorm4d_float64(double x, double y, double z, double w)
{
    return 1.0 / weft_norm4d_float64(x, y, z, w);
}
static inline float weft_norm3d_float32(float x, float y, float z) { return (float)weft_norm3d_float64(x, y, z); }
static inline float weft_rnorm3d_float32(float x, float y, float z) { return (float)weft_rnorm3d_float64(x, y, z); }
static inline float weft_norm4d_float32(float x, float y, float z, float w)
{
    return (float)weft_norm4d_float64(x, y, z, w);
}
static inline float weft_rnorm4d_float32(float x, float y, float z, float w)
{
    return (float)weft_rnorm4d_float64(x, y, z, w);
}

/* The other sign. Of `-fma(x, y, z)` gcc makes -x y - z, which is 0.0 where it should be -0.0: the sign is one bit. */
#define WEFT_SIGN(T, t, I)                                                                                             \
    static inline T weft_neg_##t(T x)                                                                                  \
    {                                                                                                                  \
        union {                                                                                                        \
            T number;                                                                                                  \
            I bits;                                                                                                    \
        } both = {x};                                                                                                  \
        both.bits ^= (I)1 << (8 * sizeof(I) - 1);                                                                      \
        return both.number;                                                                                            \
    }

WEFT_SIGN(float, float32, uint32_t)
WEFT_SIGN(double, float64, uint64_t)

/* Where a number stands among all of its type: -0.0 where 0.0 does, and what is not a number after all others. */
#define WEFT_PLACE(T, t, I)                                                                                            \
    static inline uint64_t weft_order_place_##t(T x)                                                                   \
    {                                                                                                                  \
        union {                                                                                                        \
            T number;                                                                                                  \
            I bits;                                                                                                    \
        } both = {x + 0};                                                                                              \
        const int last = 8 * sizeof(I) - 1;                                                                            \
        I below = (I)0 - (both.bits >> last), none = (I)0 - (I)(x != x);                                               \
        return (both.bits ^ (below | (I)1 << last)) | none;                                                            \
    }

WEFT_PLACE(float, float32, uint32_t)
WEFT_PLACE(double, float64, uint64_t)
static inline uint64_t weft_order_place_uint64(uint64_t x) { return x; }
static inline uint64_t weft_order_place_int64(int64_t x) { return (uint64_t)x ^ (uint64_t)1 << 63; }

/* Rounding, signs, and choices that pass over what is not a number. Whole numbers stay as they are. */
#define WEFT_PARTS_OF(T, t, f)                                                                                         \
    static inline T weft_ceil_##t(T x) { return ceil##f(x); }                                                          \
    static inline T weft_trunc_##t(T x) { return trunc##f(x); }                                                        \
    static inline T weft_round_##t(T x) { return round##f(x); }                                                        \
    static inline T weft_rint_##t(T x) { return rint##f(x); }                                                          \
    static inline T weft_fma_##t(T x, T y, T z) { return fma##f(x, y, z); }
#define WEFT_WHOLE_PARTS(T, t)                                                                                         \
    static inline T weft_ceil_##t(T x) { return x; }                                                                   \
    static inline T weft_trunc_##t(T x) { return x; }                                                                  \
    static inline T weft_round_##t(T x) { return x; }                                                                  \
    static inline T weft_rint_##t(T x) { return x; }                                                                   \
    static inline T weft_neg_##t(T x) { return (T)(0 - (uint64_t)x); }                                                 \
    static inline T weft_fma_##t(T x, T y, T z) { return (T)((uint64_t)x * (uint64_t)y + (uint64_t)z); }
#define WEFT_CHOICES(T, t)                                                                                             \
    static inline T weft_sign_##t(T x) { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x; }                             \
    static inline T weft_fmax_##t(T x, T y) { return (x >= y || y != y) ? x : y; }                                     \
    static inline T weft_fmin_##t(T x, T y) { return (x <= y || y != y) ? x : y; }                                     \
    static inline T weft_fdim_##t(T x, T y) { return x > y ? x - y : x != x || y != y ? x + y : 0; }

WEFT_PARTS_OF(float, float32, f)
WEFT_PARTS_OF(double, float64, )
WEFT_WHOLE_PARTS(int64_t, int64)
WEFT_WHOLE_PARTS(uint64_t, uint64)
WEFT_CHOICES(float, float32)
WEFT_CHOICES(double, float64)
WEFT_CHOICES(int64_t, int64)
WEFT_CHOICES(uint64_t, uint64)

/* sin(πx) and cos(πx): the half that x is next to, of a turn of four, and what is left, at most a quarter. */
static inline double weft_quarters(double x, int *half)
{
    double inside = fmod(x, 2.0), halves = rint(2.0 * inside);
    *half = isfinite(x) ? ((int)halves + 4) % 4 : 0;
    return inside - halves / 2.0;
}
static inline double weft_sinpi_float64(double x)
{
    int half;
    double rest = weft_quarters(x, &half), found = half % 2 ? cos(WEFT_PI * rest) : sin(WEFT_PI * rest);
    return isfinite(x) && x == floor(x) ? copysign(0.0, x) : half >= 2 ? -found : found;
}
static inline double weft_cospi_float64(double x)
{
    int half;
    double rest = weft_quarters(x, &half), found = half % 2 ? sin(WEFT_PI * rest) : cos(WEFT_PI * rest);
    return (half == 1 || half == 2 ? -found : found) + 0.0;
}
WEFT_ROUNDED(sinpi)
WEFT_ROUNDED(cospi)

/* exp(x²) erfc(x), within 4 ulp: x² to twice the precision; from 25 on the expansion in 1 / x². */
static inline double weft_erfcx_float64(double x)
{
    if (x < -27.0) return INFINITY;
    if (x < 25.0) {
        double high = x * x, low = fma(x, x, -high);
        return exp(high) * erfc(x) * (1.0 + low);
    }
    double s = 0.5 / (x * x);
    double series = 1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s * (1.0 - 11.0 * s)))));
    return series / (x * WEFT_ROOT_PI);
}
WEFT_ROUNDED(erfcx)

/* The inverse of erf (sign 1) or erfc (sign -1) where erf is from 0 to 1: Halley's steps from a guess by Winitzki. */
static inline double weft_inverted(double x, double logarithm, double sign)
{
    double half = 2.0 / (WEFT_PI * 0.147) + logarithm / 2.0;
    double found = sqrt(fmax(sqrt(half * half - logarithm / 0.147) - half, 0.0));
    for (int turn = 0; turn < 3; turn++) {
        double error = sign > 0 ? erf(found) - x : x - erfc(found);
        double step = error * exp(found * found) * (WEFT_ROOT_PI / 2.0);
        found -= step / (1.0 + found * step);
    }
    return found;
}
static inline double weft_erfcinv_of_less(double x)
{
    if (!(x >= 0.0 && x <= 1.0)) return NAN;
    return x == 0.0 ? INFINITY : weft_inverted(x, log(x) + log(2.0 - x), -1.0);
}
static inline double weft_erfinv_float64(double x)
{
    double size = fabs(x);
    return copysign(size <= 0.5 ? weft_inverted(size, log1p(-size * size), 1.0) : weft_erfcinv_of_less(1.0 - size), x);
}
static inline double weft_erfcinv_float64(double x)
{
    return x < 0.5 ? weft_erfcinv_of_less(x) : x <= 1.5 ? weft_erfinv_float64(1.0 - x) : -weft_erfcinv_of_less(2.0 - x);
}
WEFT_ROUNDED(erfinv)
WEFT_ROUNDED(erfcinv)

/* The normal distribution: erfc(-x / sqrt(2)) / 2, with what rounding its argument takes away put back. */
static inline double weft_normcdf_float64(double x)
{
    double near = x > 40.0 ? 40.0 : x < -40.0 ? -40.0 : x;
    double at = near * 0.70710678118654757, rest = fma(near, 0.70710678118654757, -at) + near * -4.8336466567264567e-17;
    return 0.5 * (erfc(-at) + exp(-at * at) * (2.0 / WEFT_ROOT_PI) * rest);
}
static inline double weft_normcdfinv_float64(double x)
{
    return -1.41421356237309504880 * weft_erfcinv_float64(2.0 * x) + 0.0;
}
WEFT_ROUNDED(normcdf)
WEFT_ROUNDED(normcdfinv)

/* The derivatives of lgamma: their expansions at x + 10, reflected where x is negative. */
static inline double weft_digamma_float64(double x)
{
    if (x == 0.0) return copysign(INFINITY, -x);
    if (x < 0.0 && x == floor(x)) return NAN;
    double from = x < 0.0 ? 1.0 - x : x, far = from + 10.0, s = 1.0 / (far * far);
    double sum = s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132
               - s * (691.0 / 32760 - s * (1.0 / 12 - s * (3617.0 / 8160))))))));
    double found = log(far) - 0.5 / far - sum;
    for (int n = 9; n >= 0; n--) found -= 1.0 / (from + n);
    return x < 0.0 ? found - WEFT_PI * weft_cospi_float64(x) / weft_sinpi_float64(x) : found;
}
static inline double weft_trigamma_float64(double x)
{
    double from = x < 0.0 ? 1.0 - x : x, far = from + 10.0, s = 1.0 / (far * far), turn = WEFT_PI / weft_sinpi_float64(x);
    double sum = s * (1.0 / 6 - s * (1.0 / 30 - s * (1.0 / 42 - s * (1.0 / 30 - s * (5.0 / 66
               - s * (691.0 / 2730 - s * (7.0 / 6 - s * (3617.0 / 510))))))));
    double found = 1.0 / far + s / 2.0 + sum / far;
    for (int n = 9; n >= 0; n--) found += 1.0 / ((from + n) * (from + n));
    return x < 0.0 ? turn * turn - found : found;
}
WEFT_ROUNDED(digamma)
WEFT_ROUNDED(trigamma)

/* Modified Bessel functions: the power series up to 20, from there the expansion at infinity. */
static inline double weft_modified(int order, double x)
{
    if (x < 20.0) {
        double series = 1.0, square = x * x / 4.0;
        for (int k = 50; k > 0; k--) series = 1.0 + series * square / (k * (k + order));
        return order ? series * (x / 2.0) : series;
    }
    double term = 1.0, expansion = 1.0;
    for (int k = 0; k < 24; k++) {
        term *= ((2 * k + 1) * (2 * k + 1) - 4 * order * order) / (8.0 * (k + 1) * x);
        expansion += term;
    }
    return isinf(x) ? x : expansion / sqrt(2.0 * WEFT_PI * x) * exp(x / 2.0) * exp(x / 2.0);
}
static inline double weft_cyl_bessel_i0_float64(double x) { return weft_modified(0, fabs(x)); }
static inline double weft_cyl_bessel_i1_float64(double x) { return copysign(weft_modified(1, fabs(x)), x); }
WEFT_ROUNDED(cyl_bessel_i0)
WEFT_ROUNDED(cyl_bessel_i1)
