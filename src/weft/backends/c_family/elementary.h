#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

/* A function that is called has no vectors: these never are, however large a kernel gets. */
#define WEFT_INLINE static inline __attribute__((always_inline))

/* x y + z, rounded once where the machine does that: half the steps of a polynomial. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define WEFT_FMA(x, y, z) fmaf(x, y, z)
#define WEFT_WIDE_FMA(x, y, z) fma(x, y, z)
#else
#define WEFT_FMA(x, y, z) ((x) * (y) + (z))
#define WEFT_WIDE_FMA(x, y, z) ((x) * (y) + (z))
#endif

static inline uint32_t weft_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float weft_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t weft_wide_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline double weft_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* What is added to a double of fewer than 51 bits before the point leaves these as the last bits of the sum. */
#define WEFT_TO_WHOLE 0x1.8p52

/* The one number or the other, as bits: where a choice is left to the compiler, it may compute what is chosen from in a
   branch, and there are no vectors. */
WEFT_INLINE double weft_choice(bool holds, double x, double y)
{
    uint64_t mask = 0 - (uint64_t)holds;
    return weft_double((weft_wide_bits(x) & mask) | (weft_wide_bits(y) & ~mask));
}

/* The same of a float and a number of fewer than 22 bits before the point; small whole numbers may be added to it. */
#define WEFT_TO_SMALL_WHOLE 12582912.0f

/* 2 to the power of what the last bits hold, less 127. */
WEFT_INLINE float weft_raised(uint32_t bits) { return weft_float(bits << 23); }

/* x less a whole number of logarithms of 2. */
WEFT_INLINE float weft_rest(float x, float whole)
{
    return WEFT_FMA(whole, 2.12194440e-4f, WEFT_FMA(whole, -0.693359375f, x));
}

/* (exp(x) - 1 - x) / x^2 of a number from -0.35 to 0.35. */
WEFT_INLINE float weft_series(float x)
{
    float sum = 1.3814174e-3f;
    sum = WEFT_FMA(sum, x, 8.3689215e-3f);
    sum = WEFT_FMA(sum, x, 4.1668408e-2f);
    sum = WEFT_FMA(sum, x, 1.6666520e-1f);
    return WEFT_FMA(sum, x, 4.9999994e-1f);
}

/* The smaller of two numbers by their bits: one operation of a vector, where floats take a comparison and a choice. What
   is negative is smaller than what is not, whatever it is; so is what is not a number, or it is larger than all. */
WEFT_INLINE float weft_smaller(float x, float y)
{
    int32_t one = (int32_t)weft_bits(x), other = (int32_t)weft_bits(y);
    return weft_float((uint32_t)(one < other ? one : other));
}

/* The exponential without branches, within 1 ulp (1.2 where nothing is rounded once): a polynomial times 2 to a whole
   power, in two steps: it may be tiny. Beyond the largest power the polynomial goes on to what is infinite. */
WEFT_INLINE float weft_exp_float32(float x)
{
    const float zero = WEFT_TO_SMALL_WHOLE + 254.0f;
    float far = weft_smaller(WEFT_FMA(x, 1.44269504f, zero), zero + 128.0f), whole = far - zero;
    float near = WEFT_FMA(whole, 0.5f, WEFT_TO_SMALL_WHOLE + 127.0f), rest = weft_rest(x, whole);
    float power = WEFT_FMA(WEFT_FMA(weft_series(rest), rest, 1.0f), rest, 1.0f);
    power = power * weft_raised(weft_bits(near)) * weft_raised(weft_bits(far) - weft_bits(near));
    return x < -104.0f ? 0.0f : power;
}

/* The exponential of a number from -80 to 80, less 1, with all its digits. */
WEFT_INLINE float weft_less(float x)
{
    float far = WEFT_FMA(x, 1.44269504f, WEFT_TO_SMALL_WHOLE + 127.0f), power = weft_raised(weft_bits(far));
    float rest = weft_rest(x, far - (WEFT_TO_SMALL_WHOLE + 127.0f)), scaled = rest * power;
    return WEFT_FMA(weft_series(rest) * rest, scaled, scaled + (power - 1.0f));
}

/* The natural logarithm without branches, within 1 ulp: that of a power of 2, and a polynomial near 1. */
WEFT_INLINE float weft_log_float32(float x)
{
    float large = x * 8388608.0f, scaled = x < 1.17549435e-38f ? large : x; /* what is tiny has few digits */
    uint32_t bits = weft_bits(scaled) - 0x3f3504f3u;                        /* the root of a half: the least rest */
    int32_t whole = (int32_t)bits >> 23, less = x < 1.17549435e-38f ? 23 : 0;
    float power = (float)(whole - less);
    float rest = weft_float((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f, square = rest * rest;
    float sum = 6.7466385663e-2f;
    sum = WEFT_FMA(sum, rest, -1.1675651371e-1f);
    sum = WEFT_FMA(sum, rest, 1.1888162792e-1f);
    sum = WEFT_FMA(sum, rest, -1.2405589223e-1f);
    sum = WEFT_FMA(sum, rest, 1.4219552279e-1f);
    sum = WEFT_FMA(sum, rest, -1.6667996347e-1f);
    sum = WEFT_FMA(sum, rest, 2.0002119243e-1f);
    sum = WEFT_FMA(sum, rest, -2.5000008941e-1f);
    sum = WEFT_FMA(sum, rest, 3.3333313465e-1f);
    sum = WEFT_FMA(-0.5f, square, WEFT_FMA(power, -2.12194440e-4f, sum * rest * square));
    float result = WEFT_FMA(power, 0.693359375f, rest + sum);
    return result + (x < 0.0f ? NAN : x == 0.0f ? -INFINITY : x > 3.4028235e38f || x != x ? x : 0.0f);
}

/* A number times a power of 2 from the root of a half to that of 2, and that power, of a number that is not tiny. */
WEFT_INLINE double weft_near_one(double x, double *power)
{
    uint64_t root = 0x3fe6a09e667f3bcd, bits = weft_wide_bits(x) - root;
    *power = weft_double((bits + (1024ull << 52)) >> 52 | 0x433ull << 52) - (0x1p52 + 1024);
    return weft_double((bits & 0x000fffffffffffff) + root);
}

/* The logarithm of 1 + x, with what was lost when 1 was added. */
WEFT_INLINE float weft_log1p_float32(float x)
{
    float whole = 1.0f + x, near = whole > 0.0f && whole < INFINITY ? whole : 1.0f;
    float lost = (x < INFINITY ? x : 0.0f) - ((x < INFINITY ? whole : 1.0f) - 1.0f);
    return copysignf(weft_log_float32(whole) + lost / near, x); /* of -0 it is -0 */
}

/* The error function without branches, within 2 ulp: a polynomial where x is small, 1 - exp of one elsewhere. */
WEFT_INLINE float weft_erf_float32(float x)
{
    float size = x != x ? 0.0f : fabsf(x) > 4.0f ? 4.0f : fabsf(x), square = size * size;
    float small = -6.31512573e-4f;
    small = WEFT_FMA(small, square, 5.05109416e-3f);
    small = WEFT_FMA(small, square, -2.68025473e-2f);
    small = WEFT_FMA(small, square, 1.12827174e-1f);
    small = WEFT_FMA(small, square, -3.76125718e-1f);
    small = WEFT_FMA(small, square, 1.28379160e-1f);
    float large = -2.00177120e-5f;
    large = WEFT_FMA(large, size, 4.22177659e-4f);
    large = WEFT_FMA(large, size, -4.11245049e-3f);
    large = WEFT_FMA(large, size, 2.49676917e-2f);
    large = WEFT_FMA(large, size, -1.08049773e-1f);
    large = WEFT_FMA(large, size, -6.33552016e-1f);
    large = WEFT_FMA(large, size, -1.12941562f);
    large = WEFT_FMA(large, size, 1.54501518e-4f);
    float result = size < 0.85f ? WEFT_FMA(small, size, size) : 1.0f - weft_exp_float32(large);
    return x != x ? x : copysignf(result, x);
}

/* The logistic function without branches, within 2.5 ulp: of what is negative, exp(x) / (1 + exp(x)). */
WEFT_INLINE float weft_sigmoid_float32(float x)
{
    float power = weft_exp_float32(-fabsf(x));
    return (x < 0.0f ? power : 1.0f) / (1.0f + power);
}

/* The hyperbolic tangent without branches, within 2 ulp: with y = exp(2x) - 1 it is y / (2 + y). Of what is small x is
   taken to be negative, so that 2 + y is below 2 and has a digit more; its bits are less than those of the threshold. */
WEFT_INLINE float weft_tanh_float32(float x)
{
    float size = fabsf(x) > 10.0f ? 10.0f : fabsf(x);
    uint32_t small = (weft_bits(size) - weft_bits(0.17328f)) & 0x80000000u;
    float less = weft_less(2.0f * weft_float(weft_bits(size) | small));
    return copysignf(less / (2.0f + less), x);
}

/* The sine of |x|, some quarter turns later. |x| is counted in quarter turns in double precision, times 2 / pi in three
   parts: products with the first two are exact. A multiple of 2^26, 2^52 or 2^78 needs none of the parts of 2 / pi that
   make whole turns of it. What is infinite is so times 2 / pi, and its rest is not a number. */
WEFT_INLINE float weft_sine(float x, uint64_t later)
{
    double size = fabsf(x);
    bool small = size < 0x1p49, middling = size < 0x1p75, large = size < 0x1p101;
    double first = small ? 0x1.45f306dp-1 : middling ? 0x1.b939105p-26 : large ? 0x1.529fc27p-52 : 0x1.d5f47d4p-78;
    double second = small ? 0x1.9391054p-30 : middling ? 0x1.29fc275p-56 : large ? 0x1.5f47d4dp-82 : 0x1.a6ee06dp-107;
    double third = small ? 0x1.4fe13abe8fa9ap-59
                         : middling ? 0x1.f47d4d377036ep-86 : large ? 0x1.bb81b6c52b328p-113 : 0x1.6295993c43904p-136;
    double most = size * first, more = size * second, whole = rint(most), some = rint(more);
    double part = (most - whole) + (more - some) + size * third, last = rint(part);
    uint64_t quarters = weft_wide_bits(whole + some + last + WEFT_TO_WHOLE) + later;
    double rest = part - last, square = rest * rest;
    double sine = -0.0046021176160619;
    sine = WEFT_WIDE_FMA(sine, square, 0.07968020776901875);
    sine = WEFT_WIDE_FMA(sine, square, -0.6459634769234457);
    sine = WEFT_WIDE_FMA(sine, square, 1.5707963219455072) * rest;
    double cosine = 0.0009067349223943915;
    cosine = WEFT_WIDE_FMA(cosine, square, -0.020861526786522047);
    cosine = WEFT_WIDE_FMA(cosine, square, 0.2536694102403683);
    cosine = WEFT_WIDE_FMA(cosine, square, -1.2337005493730024);
    cosine = WEFT_WIDE_FMA(cosine, square, 1.0);
    double result = weft_choice(quarters & 1, cosine, sine);
    return (float)weft_double(weft_wide_bits(result) ^ (quarters & 2) << 62);
}

/* Sine and cosine without branches, of numbers of any size, within 0.6 ulp. */
WEFT_INLINE float weft_sin_float32(float x)
{
    return weft_float(weft_bits(weft_sine(x, 0)) ^ (weft_bits(x) & 1u << 31));
}
WEFT_INLINE float weft_cos_float32(float x) { return weft_sine(x, 1); }

/* What is left to do to a power of |x|: the sign where y is odd, nothing where it is broken, and 1 where it must be. */
WEFT_INLINE double weft_signed_power(double x, double y, double power)
{
    uint64_t whole = 0 - (uint64_t)(rint(y) == y), even = 0 - (uint64_t)(rint(0.5 * y) == 0.5 * y);
    uint64_t sign = whole & ~even & weft_wide_bits(x) & 1ull << 63;
    uint64_t none = ~whole & (0 - (uint64_t)((x < 0) & (x > -INFINITY))) & weft_wide_bits(NAN);
    return weft_choice((x == 1) | (y == 0), 1, weft_double(weft_wide_bits(power) | sign | none));
}

/* The power without branches, within 0.6 ulp: 2 to y times the logarithm of |x| by 2, in double precision. */
WEFT_INLINE float weft_pow_float32(float x, float y)
{
    double size = fabsf(x), exponent, near = weft_near_one(size, &exponent);
    double s = (near - 1.0) / (near + 1.0), square = s * s, sum = 0.3407120415619086;
    sum = WEFT_WIDE_FMA(sum, square, 0.41167376623771057);
    sum = WEFT_WIDE_FMA(sum, square, 0.5770835660048659);
    sum = WEFT_WIDE_FMA(sum, square, 0.9617966734515485);
    sum = WEFT_WIDE_FMA(sum, square, 2.885390081789987);
    double finite = WEFT_WIDE_FMA(sum, s, exponent), infinite = weft_choice(size == 0, -INFINITY, size);
    double power = y * weft_choice((size > 0) & (size < INFINITY), finite, infinite);
    power = weft_choice(size == 1, 0, power);
    power = weft_choice(power < -160, -160, weft_choice(power > 130, 130, power));
    double shifted = power + WEFT_TO_WHOLE, rest = power - (shifted - WEFT_TO_WHOLE);
    double raised = 0.0001546144469856913;
    raised = WEFT_WIDE_FMA(raised, rest, 0.0013400428177615838);
    raised = WEFT_WIDE_FMA(raised, rest, 0.009618056678524637);
    raised = WEFT_WIDE_FMA(raised, rest, 0.05550327226670302);
    raised = WEFT_WIDE_FMA(raised, rest, 0.24022650922288757);
    raised = WEFT_WIDE_FMA(raised, rest, 0.6931472067028326);
    raised = WEFT_WIDE_FMA(raised, rest, 1.0);
    raised = weft_double(weft_wide_bits(raised) + (weft_wide_bits(shifted) << 52)) + (power - power);
    return (float)weft_signed_power(x, y, raised);
}
