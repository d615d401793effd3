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

/* A number from a half to 2 times a power of 2, the last bits of another: of what overflows or is tiny, too. */
WEFT_INLINE double weft_scaled(double x, double shifted)
{
    bool tiny = shifted < WEFT_TO_WHOLE - 1020, large = shifted > WEFT_TO_WHOLE + 1020;
    uint64_t power = weft_wide_bits(shifted) + (0 - (uint64_t)tiny & 128) - (0 - (uint64_t)large & 128);
    double last = weft_choice(tiny, 0x1p-128, weft_choice(large, 0x1p128, 1));
    return weft_double(weft_wide_bits(x) + (power << 52)) * last;
}

/* The exponential of double precision without branches, within 1 ulp. */
WEFT_INLINE double weft_exp_float64(double x)
{
    double near = weft_choice(x < -746, -746, weft_choice(x > 710, 710, x));
    double shifted = WEFT_WIDE_FMA(near, 1.4426950408889634, WEFT_TO_WHOLE), whole = shifted - WEFT_TO_WHOLE;
    double rest = WEFT_WIDE_FMA(whole, -6.93147180369123816490e-01, near);
    rest = WEFT_WIDE_FMA(whole, -1.90821492927058770002e-10, rest);
    double sum = 2.0914686968086876e-09;
    sum = WEFT_WIDE_FMA(sum, rest, 2.5105217004720745e-08);
    sum = WEFT_WIDE_FMA(sum, rest, 2.75572736431103e-07);
    sum = WEFT_WIDE_FMA(sum, rest, 2.7557255400206422e-06);
    sum = WEFT_WIDE_FMA(sum, rest, 2.4801587325547743e-05);
    sum = WEFT_WIDE_FMA(sum, rest, 0.00019841269874820627);
    sum = WEFT_WIDE_FMA(sum, rest, 0.0013888888888883748);
    sum = WEFT_WIDE_FMA(sum, rest, 0.008333333333326136);
    sum = WEFT_WIDE_FMA(sum, rest, 0.04166666666666667);
    sum = WEFT_WIDE_FMA(sum, rest, 0.1666666666666667);
    sum = WEFT_WIDE_FMA(sum, rest, 0.5);
    return weft_scaled(WEFT_WIDE_FMA(sum * rest, rest, rest) + 1, shifted) + (near - near);
}

/* The natural logarithm of double precision without branches, within 1 ulp: with s = f / (2 + f), that of 1 + f is
   f - f^2 / 2 + s (f^2 / 2 + s^2 times a polynomial of s^2). */
WEFT_INLINE double weft_log_float64(double x)
{
    bool tiny = x < 0x1p-1022;
    double exponent, f = weft_near_one(weft_choice(tiny, x * 0x1p54, x), &exponent) - 1;
    double s = f / (2 + f), square = s * s, sum = 0.12913617672223008;
    exponent -= weft_choice(tiny, 54, 0);
    sum = WEFT_WIDE_FMA(sum, square, 0.13285957435189454);
    sum = WEFT_WIDE_FMA(sum, square, 0.15385574796462176);
    sum = WEFT_WIDE_FMA(sum, square, 0.1818180824754454);
    sum = WEFT_WIDE_FMA(sum, square, 0.2222222227110234);
    sum = WEFT_WIDE_FMA(sum, square, 0.28571428571338508);
    sum = WEFT_WIDE_FMA(sum, square, 0.40000000000000024);
    sum = WEFT_WIDE_FMA(sum, square, 0.6666666666666666) * square;
    double half = 0.5 * f * f, low = WEFT_WIDE_FMA(s, half + sum, exponent * 1.90821492927058770002e-10);
    double finite = WEFT_WIDE_FMA(exponent, 6.93147180369123816490e-01, f - (half - low));
    double special = weft_choice(x == 0, -INFINITY, weft_choice(x < 0, NAN, x));
    return weft_choice((x > 0) & (x < INFINITY), finite, special);
}

/* The logarithm of 1 + x, with what was lost when 1 was added. */
WEFT_INLINE float weft_log1p_float32(float x)
{
    float whole = 1.0f + x, near = whole > 0.0f && whole < INFINITY ? whole : 1.0f;
    float lost = (x < INFINITY ? x : 0.0f) - ((x < INFINITY ? whole : 1.0f) - 1.0f);
    return copysignf(weft_log_float32(whole) + lost / near, x); /* of -0 it is -0 */
}
static inline double weft_log1p_float64(double x) { return log1p(x); }

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
static inline double weft_erf_float64(double x) { return erf(x); }

/* The logistic function without branches, within 2.5 ulp: of what is negative, exp(x) / (1 + exp(x)). */
WEFT_INLINE float weft_sigmoid_float32(float x)
{
    float power = weft_exp_float32(-fabsf(x));
    return (x < 0.0f ? power : 1.0f) / (1.0f + power);
}
static inline double weft_sigmoid_float64(double x)
{
    double power = exp(-fabs(x));
    return (x < 0 ? power : 1) / (1 + power);
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
static inline double weft_tanh_float64(double x) { return tanh(x); }

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

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
/* 2 / pi, and what is left of it times 2^32, 2^64, … without multiples of 4: as sums of four numbers each. */
static const double weft_quarters_in_one[31][4] = {
    {0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-55, -0x1.6447e493ad4cep-109, 0x1.e21c820ff28b2p-163},
    {-0x1.b1bbead603d8bp+0, 0x1.f47d4d377036ep-54, -0x1.d6a66c3bc6fbep-108, -0x1.ae9c5421443aap-168},
    {0x1.fc2757d1f534ep+0, -0x1.1f924eb53361ep-55, 0x1.c820ff28b1d5fp-111, -0x1.443a9e48db91cp-168},
    {0x1.f534ddc0db629p+0, 0x1.664f10e4107f9p-54, 0x1.163abdebbc562p-108, -0x1.236e4716f6c8bp-162},
    {0x1.b6c52b3278872p-1, 0x1.07f9458eaf7afp-58, -0x1.d4f246dc8e2dfp-115, 0x1.374b801924bbbp-170},
    {0x1.3c439041fe516p+0, 0x1.d5ef5de2b0db9p-55, 0x1.1b8e909374b80p-110, 0x1.924bba8274648p-166},
    {0x1.fe5163abdebbcp+0, 0x1.586dc91b8e909p-54, 0x1.ba5c00c925dd4p-109, 0x1.3a32439fc3bd6p-165},
    {-0x1.0a21d4f246dc9p-3, 0x1.d2126e9700325p-59, -0x1.a22bec5cdbc60p-113, -0x1.e214e34ed658cp-168},
    {0x1.b7246e3a424ddp+0, 0x1.700324977504fp-55, -0x1.cdbc603c429c7p-109, 0x1.894d39f74411bp-163},
    {-0x1.bdb22d1ff9b6dp+0, -0x1.15f62e6de301ep-56, -0x1.0a71a76b2c609p-111, 0x1.1046bea5d7689p-165},
    {0x1.924bba8274648p-6, 0x1.cfe1deb1cb12ap-60, -0x1.63045df7282b4p-114, -0x1.44bb7b16638fep-168},
    {-0x1.f62e6de301e21p+0, -0x1.38d3b5963045ep-54, 0x1.1afa975da2427p-111, 0x1.338e04d68befdp-165},
    {0x1.fc3bd63962535p-1, -0x1.822efb9415a29p-57, 0x1.a24274ce38136p-111, -0x1.741037d8cdc54p-165},
    {0x1.62534e7dd1047p-1, -0x1.0568a25dbd8b3p-55, -0x1.c7eca5d040df6p-111, -0x1.9b8a719f2b318p-166},
    {-0x1.177dca0ad144cp+0, 0x1.213a671c09ad1p-54, 0x1.f7e413991d63ap-108, -0x1.f2b3182d8dee8p-162},
    {0x1.2ebb4484e99c7p+0, 0x1.35a2fbf209cc9p-59, -0x1.4e33e566305b2p-115, 0x1.08bf177bf2507p-169},
    {0x1.d338e04d68bf0p-1, -0x1.bec66e29c67cbp-56, 0x1.9cfa4e422fc5ep-111, -0x1.036be27003b40p-167},
    {-0x1.4ba081bec66e3p+0, 0x1.8e60d4ce7d272p-54, 0x1.17e2ef7e4a0ecp-110, 0x1.ff897ffde0598p-164},
    {0x1.3991d63983534p+0, -0x1.82d8dee81d108p-54, -0x1.b5f13801da001p-110, 0x1.e05980fef2f12p-164},
    {0x1.835339f49c846p+0, -0x1.d1081b5f13802p-58, 0x1.2fffbc0b301fep-113, -0x1.a1dce94beb25cp-169},
    {0x1.3908bf177bf25p-1, 0x1.d8ffc4bffef03p-59, -0x1.9fc04343b9d29p-114, -0x1.f592e092c9813p-168},
    {-0x1.081b5f13801dap-2, -0x1.0fd33f8086877p-67, -0x1.d297d64b824b2p-122, -0x1.8130d834f648bp-176},
    {-0x1.c00ed00043f4dp-1, 0x1.fde5e2316b415p-61, -0x1.2e092c98130d8p-116, -0x1.a7b24585ce04dp-171},
    {-0x1.0fd33f8086877p-3, -0x1.d297d64b824b2p-58, -0x1.8130d834f648bp-112, -0x1.738132c3402bap-169},
    {-0x1.0d0ee74a5f593p-4, 0x1.f6d367ecf27cbp-60, 0x1.36e9e8c7ecd3dp-117, -0x1.00ae9456c229cp-171},
    {-0x1.4beb25c125930p-1, -0x1.30d834f648b0cp-56, 0x1.8fd9a797fa8b6p-110, -0x1.5b08a7028341dp-165},
    {-0x1.25930261b069fp-1, 0x1.b74f463f669e6p-56, -0x1.5d28ad8453814p-116, -0x1.a0e84c2f8c608p-172},
    {-0x1.b069ec9161738p-1, -0x1.32c3402ba515bp-57, -0x1.14e050683a131p-114, 0x1.0739f78a5292fp-168},
    {-0x1.61738132c3403p-1, 0x1.16ba93dd63f5fp-55, 0x1.7c5ecf41ce7dep-110, 0x1.4a525d4d7f6bfp-165},
    {-0x1.61a015d28ad84p+0, -0x1.4e050683a130cp-54, 0x1.ce7de294a4baap-110, -0x1.404a04ee072a3p-164},
    {0x1.7527bac7ebe5fp+0, 0x1.7b3d0739f78a5p-56, 0x1.497535fdafd89p-111, -0x1.ca8bdea7f33eep-170}
};

/* The sum of two numbers, and what it lacks. */
WEFT_INLINE double weft_sum(double x, double y, double *low)
{
    double sum = x + y, other = sum - x;
    *low += (x - (sum - other)) + (y - other);
    return sum;
}

/* The sine of |x| in double precision, some quarter turns later, within 1 ulp. Of a large multiple of 2^32, 2^64, … the
   quarter turns are counted to 2^-126: no number comes nearer to a whole one of them than 2^-62. */
WEFT_INLINE double weft_wide_sine(double x, uint64_t later)
{
    int64_t power = (int64_t)(weft_wide_bits(x) >> 52 & 0x7ff) - 1023, over = power - 52 > 0 ? power - 52 : 0;
    int64_t row = over < 31 * 32 ? over >> 5 : 30;
    double part[4] = {weft_quarters_in_one[row][0], weft_quarters_in_one[row][1], weft_quarters_in_one[row][2],
                      weft_quarters_in_one[row][3]};
    double size = fabs(x) * weft_double((uint64_t)(1023 - 32 * row) << 52), low = 0;
    double first = size * part[0], second = size * part[1], third = size * part[2];
    double lacks = fma(size, part[0], -first), more = fma(size, part[1], -second);
    double whole = rint(first), some = rint(lacks), few = rint(second);
    double rest = weft_sum(first - whole, lacks - some, &low);
    rest = weft_sum(rest, second - few, &low);
    rest = weft_sum(rest, third, &low);
    rest = weft_sum(rest, more, &low);
    low += fma(size, part[2], -third) + size * part[3];
    double last = rint(rest);
    double high = rest - last + low;
    low = rest - last - high + low;
    whole -= 4 * rint(0.25 * whole);
    uint64_t quarters = weft_wide_bits(whole + some + few + last + WEFT_TO_WHOLE) + later;
    double square = high * high, sine = -6.635110243154515e-10;
    sine = fma(sine, square, 5.691991075057808e-08);
    sine = fma(sine, square, -3.5988429251837332e-06);
    sine = fma(sine, square, 0.00016044118476021962);
    sine = fma(sine, square, -0.004681754135317556);
    sine = fma(sine, square, 0.07969262624616703);
    sine = fma(sine, square, -0.6459640975062463) * square;
    sine = fma(high, sine, fma(high, 0x1.1a62633145c07p-54, low * 0x1.921fb54442d18p+0));
    sine = fma(high, 0x1.921fb54442d18p+0, sine);
    double cosine = 6.519759751207994e-11;
    cosine = fma(cosine, square, -6.386444311691058e-09);
    cosine = fma(cosine, square, 4.710874508113498e-07);
    cosine = fma(cosine, square, -2.520204237069075e-05);
    cosine = fma(cosine, square, 0.0009192602748393278);
    cosine = fma(cosine, square, -0.02086348076335296);
    cosine = fma(cosine, square, 0.25366950790104803) * square;
    double fall = square * 0x1.3bd3cc9be45dep+0, left = 1 - fall, lacking = fma(high, high, -square) + 2 * high * low;
    double lost = 1 - left - fall - fma(square, 0x1.3bd3cc9be45dep+0, -fall) - lacking * 0x1.3bd3cc9be45dep+0;
    cosine = left + fma(cosine, square, lost);
    double result = weft_choice(quarters & 1, cosine, sine);
    return weft_double(weft_wide_bits(result) ^ (quarters & 2) << 62);
}
WEFT_INLINE double weft_sin_float64(double x)
{
    double result = weft_double(weft_wide_bits(weft_wide_sine(x, 0)) ^ (weft_wide_bits(x) & 1ull << 63));
    return weft_choice(fabs(x) < 0x1p-27, x, result);
}
WEFT_INLINE double weft_cos_float64(double x) { return weft_wide_sine(x, 1); }
#else
static inline double weft_sin_float64(double x) { return sin(x); }
static inline double weft_cos_float64(double x) { return cos(x); }
#endif

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

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
/* The power of double precision without branches, within 1.25 ulp: the logarithm of |x| by 2, and that times y, are sums
   of two numbers, the second what the first lacks. With s = (x - 1) / (x + 1) the logarithm is 2 / log 2 times
   s (1 + s^2 / 3 + s^4 times a polynomial of s^2). */
WEFT_INLINE double weft_pow_float64(double x, double y)
{
    bool tiny = fabs(x) < 0x1p-1022;
    double size = fabs(x), exponent, near = weft_near_one(weft_choice(tiny, size * 0x1p54, size), &exponent);
    exponent -= weft_choice(tiny, 54, 0);
    double sum = near + 1, less = near - (sum - 1), inverse = 1 / sum, s = (near - 1) * inverse;
    double s_low = (fma(-s, sum, near - 1) - s * less) * inverse;
    double square = s * s, square_low = fma(s, s, -square) + 2 * s * s_low;
    double third = square * 0x1.5555555555555p-2, third_low = fma(square, 0x1.5555555555555p-2, -third);
    third_low += square * 0x1.5555555555555p-56 + square_low * 0x1.5555555555555p-2;
    double series = 0.05861589311959638;
    series = fma(series, square, 0.05853118169743244);
    series = fma(series, square, 0.06667402346923759);
    series = fma(series, square, 0.07692297481259214);
    series = fma(series, square, 0.09090909167696401);
    series = fma(series, square, 0.11111111110827943);
    series = fma(series, square, 0.14285714285714682);
    series = fma(series, square, 0.2) * square * square;
    double more = third + series, more_low = third - more + series + third_low;
    double product = s * more, product_low = fma(s, more, -product) + (s * more_low + s_low * more);
    double whole = s + product, whole_low = s - whole + product + (product_low + s_low);
    double scaled = whole * 0x1.71547652b82fep+1, scaled_low = fma(whole, 0x1.71547652b82fep+1, -scaled);
    scaled_low += whole * 0x1.777d0ffda0d24p-55 + whole_low * 0x1.71547652b82fep+1;
    double finite = exponent + scaled, finite_low = exponent - finite + scaled + scaled_low;
    bool ordinary = (size > 0) & (size < INFINITY);
    double logarithm = weft_choice(ordinary, finite, weft_choice(size == 0, -INFINITY, size));
    double power = weft_choice(size == 1, 0, y * logarithm), power_low = fma(y, finite, -power) + y * finite_low;
    bool beyond = !(fabs(power) < 1100) | (size == 1);
    power = weft_choice(power < -1100, -1100, weft_choice(power > 1100, 1100, power));
    double shifted = power + WEFT_TO_WHOLE, rest = power - (shifted - WEFT_TO_WHOLE);
    rest += weft_choice(beyond, 0, power_low);
    double raised = 2.5729344553786755e-11;
    raised = fma(raised, rest, 4.455822025014915e-10);
    raised = fma(raised, rest, 7.054897292691627e-09);
    raised = fma(raised, rest, 1.0178057064573359e-07);
    raised = fma(raised, rest, 1.3215486808727859e-06);
    raised = fma(raised, rest, 1.5252733841601815e-05);
    raised = fma(raised, rest, 0.00015403530393370715);
    raised = fma(raised, rest, 0.0013333558146406436);
    raised = fma(raised, rest, 0.00961812910762848);
    raised = fma(raised, rest, 0.055504108664821625);
    raised = fma(raised, rest, 0.24022650695910072);
    raised = fma(raised, rest, 0.6931471805599453);
    raised = weft_scaled(fma(raised, rest, 1), shifted) + (power - power);
    return weft_signed_power(x, y, raised);
}
#else
static inline double weft_pow_float64(double x, double y) { return pow(x, y); }
#endif
