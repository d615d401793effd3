#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

/* Extrema are two choices: a compiler makes one of two conditions a branch, and no vectors. */
#define WEFT_NUMBER(T, t)                                                                                              \
    static inline T weft_max_##t(T x, T y) { T chosen = x > y ? x : y; return x != x ? x : chosen; }                   \
    static inline T weft_min_##t(T x, T y) { T chosen = x < y ? x : y; return x != x ? x : chosen; }                   \
    static inline T weft_relu_##t(T x) { return weft_max_##t(x, 0); }                                                  \
    static inline T weft_sat01_##t(T x) { return weft_min_##t(weft_max_##t(x, 0), 1); }                                \
    static inline T weft_relu_gate_##t(T x, T y) { return x > 0 ? y : 0; }                                             \
    static inline T weft_sat01_gate_##t(T x, T y) { return x > 0 && x < 1 ? y : 0; }                                   \
    static inline T weft_where_##t(bool c, T x, T y) { return c ? x : y; }

#define WEFT_FLOAT(T, t)                                                                                               \
    WEFT_NUMBER(T, t)                                                                                                  \
    static inline T weft_floor_##t(T x) { return floor(x); }                                                           \
    static inline T weft_abs_##t(T x) { return fabs(x); }                                                              \
    static inline T weft_mod_##t(T x, T y)                                                                             \
    {                                                                                                                  \
        T rest = fmod(x, y);                                                                                           \
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest == 0 ? copysign((T)0, y) : rest;                   \
    }                                                                                                                  \
    static inline T weft_floordiv_##t(T x, T y)                                                                        \
    {                                                                                                                  \
        T rest = fmod(x, y), exact = (x - rest) / y;                                                                   \
        T lower = rest != 0 && (rest < 0) != (y < 0) ? exact - 1 : exact, whole = floor(lower);                        \
        if (y == 0 || lower == 0) return y == 0 ? x / y : copysign((T)0, x / y);                                       \
        return lower - whole > (T)0.5 ? whole + 1 : whole;                                                             \
    }

#define WEFT_WHOLE(T, t)                                                                                               \
    WEFT_NUMBER(T, t)                                                                                                  \
    static inline T weft_abs_##t(T x) { return x < 0 ? (T)(0 - (uint64_t)x) : x; }                                     \
    static inline T weft_floor_##t(T x) { return x; }                                                                  \
    static inline T weft_raise_##t(T x, T y)                                                                           \
    {                                                                                                                  \
        uint64_t base = (uint64_t)x, power = 1;                                                                        \
        for (uint64_t left = (uint64_t)y; left; left >>= 1, base *= base)                                              \
            if (left & 1) power *= base;                                                                               \
        return (T)power;                                                                                               \
    }

/* Whole numbers divided by zero give zero; the most negative divided by -1 wraps around. */
WEFT_FLOAT(float, float32)
WEFT_FLOAT(double, float64)
WEFT_WHOLE(int64_t, int64)
WEFT_WHOLE(uint64_t, uint64)

static inline int64_t weft_mod_int64(int64_t x, int64_t y)
{
    if (y == 0 || y == -1) return 0;
    int64_t rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static inline int64_t weft_floordiv_int64(int64_t x, int64_t y)
{
    if (y == 0) return 0;
    if (y == -1) return (int64_t)(0 - (uint64_t)x);
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
static inline int64_t weft_pow_int64(int64_t x, int64_t y)
{
    if (y >= 0) return weft_raise_int64(x, y);
    return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
}
static inline uint64_t weft_mod_uint64(uint64_t x, uint64_t y) { return y == 0 ? 0 : x % y; }
static inline uint64_t weft_floordiv_uint64(uint64_t x, uint64_t y) { return y == 0 ? 0 : x / y; }
static inline uint64_t weft_pow_uint64(uint64_t x, uint64_t y) { return weft_raise_uint64(x, y); }

/* From floats to whole numbers: towards zero, the type's end where it lies beyond, 0 where it is not a number. */
#define WEFT_CUT_OFF(T, t, low, high)                                                                                  \
    static inline T weft_to_##t(double x) { return x != x ? 0 : x <= low ? low : x >= high ? high : (T)x; }

WEFT_CUT_OFF(int8_t, int8, INT8_MIN, INT8_MAX)
WEFT_CUT_OFF(int16_t, int16, INT16_MIN, INT16_MAX)
WEFT_CUT_OFF(int32_t, int32, INT32_MIN, INT32_MAX)
WEFT_CUT_OFF(int64_t, int64, INT64_MIN, INT64_MAX)
WEFT_CUT_OFF(uint8_t, uint8, 0, UINT8_MAX)
WEFT_CUT_OFF(uint16_t, uint16, 0, UINT16_MAX)
WEFT_CUT_OFF(uint32_t, uint32, 0, UINT32_MAX)
WEFT_CUT_OFF(uint64_t, uint64, 0, UINT64_MAX)

/* Floats narrower than single precision are bits in memory and are computed in single precision. */
typedef struct { uint16_t bits; } weft_float16;
typedef struct { uint16_t bits; } weft_bfloat16;
typedef struct { uint8_t bits; } weft_float8_e4m3fn;
typedef struct { uint8_t bits; } weft_float8_e5m2;

static inline float weft_from_bfloat16(weft_bfloat16 x) { return weft_float((uint32_t)x.bits << 16); }
static inline weft_bfloat16 weft_to_bfloat16(float x)
{
    uint32_t bits = weft_bits(x), even = (bits >> 16) & 1;
    weft_bfloat16 made = {(uint16_t)(x != x ? (bits >> 16) | 0x40 : (bits + 0x7FFF + even) >> 16)};
    return made;
}

/* The bits, without the sign, of a number of few bits: `fraction` of them after the point, exponents from `lowest`. */
static inline uint32_t weft_pack(float x, int fraction, int lowest, float largest, uint32_t beyond)
{
    int exponent = x == 0 ? lowest : ilogbf(x) < lowest ? lowest : ilogbf(x);
    float units = rintf(ldexpf(x, fraction - exponent));
    if (ldexpf(units, exponent - fraction) > largest) return beyond;
    return (uint32_t)units + ((uint32_t)(exponent - lowest) << fraction);
}
static inline float weft_unpack(uint32_t bits, int fraction, int lowest)
{
    uint32_t whole = 1u << fraction, exponent = bits >> fraction, rest = bits & (whole - 1);
    return exponent ? ldexpf((float)(whole + rest), (int)exponent - 1 + lowest - fraction)
                    : ldexpf((float)rest, lowest - fraction);
}

#define WEFT_TO_NARROW(t, B, sign, fraction, lowest, largest, beyond, none)                                            \
    static inline weft_##t weft_to_##t(float x)                                                                        \
    {                                                                                                                  \
        uint32_t bits = x != x ? none : isinf(x) ? beyond : weft_pack(fabsf(x), fraction, lowest, largest, beyond);    \
        weft_##t made = {(B)(bits | (signbit(x) ? sign : 0))};                                                         \
        return made;                                                                                                   \
    }
#define WEFT_NARROW(t, B, sign, fraction, lowest, largest, beyond, none)                                               \
    WEFT_TO_NARROW(t, B, sign, fraction, lowest, largest, beyond, none)                                                \
    static inline float weft_from_##t(weft_##t x)                                                                      \
    {                                                                                                                  \
        uint32_t bits = x.bits & (sign - 1u);                                                                          \
        float size = bits > beyond || bits == none ? NAN                                                               \
                   : bits == beyond ? INFINITY : weft_unpack(bits, fraction, lowest);                                  \
        return x.bits & sign ? -size : size;                                                                           \
    }

WEFT_NARROW(float8_e4m3fn, uint8_t, 0x80u, 3, -6, 448.0f, 0x7Fu, 0x7Fu)
WEFT_NARROW(float8_e5m2, uint8_t, 0x80u, 2, -14, 57344.0f, 0x7Cu, 0x7Eu)

/* Half precision: exponents are 112 less than single precision has them, and the largest one is for what is infinite or
   not a number. So written, it runs on vectors. */
static inline float weft_from_float16(weft_float16 x)
{
    const uint32_t size = (uint32_t)(x.bits & 0x7FFF) << 13, sign = (uint32_t)(x.bits & 0x8000) << 16;
    const uint32_t bits = weft_bits(weft_float(size) * 0x1p112f);
    return weft_float((size < UINT32_C(0x0F800000) ? bits : bits | UINT32_C(0x7F800000)) | sign);
}
#if defined(__FLT16_MANT_DIG__) && !defined(__cplusplus) && (!defined(__clang__) || __clang_major__ >= 15)
static inline weft_float16 weft_to_float16(float x)
{
    _Float16 half = (_Float16)x;
    weft_float16 made;
    memcpy(&made, &half, sizeof made);
    return made;
}
#else
WEFT_TO_NARROW(float16, uint16_t, 0x8000u, 10, -14, 65504.0f, 0x7C00u, 0x7E00u)
#endif

static inline bool weft_where_bool(bool c, bool x, bool y) { return c ? x : y; }

static inline uint32_t weft_rotate(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

/* Threefry-4x32 with 20 rounds: 64 random bits for a 64-bit key and a 64-bit counter, the other words zero. */
static inline uint64_t weft_threefry(uint64_t key, uint64_t counter)
{
    static const int turns[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
    const uint32_t k[5] = {(uint32_t)key, (uint32_t)(key >> 32), 0, 0,
                           (uint32_t)key ^ (uint32_t)(key >> 32) ^ UINT32_C(0x1BD11BDA)};
    uint32_t a = (uint32_t)counter + k[0], b = (uint32_t)(counter >> 32) + k[1], c = k[2], d = k[3];
    for (int turn = 0; turn < 20; turn++) {
        const int first = turns[turn % 8][0], second = turns[turn % 8][1];
        if (turn % 2 == 0) {
            a += b, b = weft_rotate(b, first) ^ a;
            c += d, d = weft_rotate(d, second) ^ c;
        } else {
            a += d, d = weft_rotate(d, first) ^ a;
            c += b, b = weft_rotate(b, second) ^ c;
        }
        if (turn % 4 == 3) {
            const int n = turn / 4 + 1;
            a += k[n % 5], b += k[(n + 1) % 5], c += k[(n + 2) % 5], d += k[(n + 3) % 5] + (uint32_t)n;
        }
    }
    return (uint64_t)a | ((uint64_t)b << 32);
}

/* A number in [0, 1) of so many of the highest bits, and from two of them a standard normal number by the method of Box
   and Muller: operation by operation as in ops/random.py, so that every backend draws the same numbers. */
#define WEFT_RANDOM(T, t, logarithms, sines, cosines)                                                                  \
    static inline T weft_uniform_##t(uint64_t bits, T digits)                                                          \
    {                                                                                                                  \
        const int count = digits >= 1 && digits <= 53 ? (int)digits : 53;                                              \
        return (T)(bits >> (64 - count)) / (T)(UINT64_C(1) << count);                                                  \
    }                                                                                                                  \
    static inline T weft_minus_log_##t(T x)                                                                            \
    {                                                                                                                  \
        T halvings = 0, total = (T)(1.0 / (2 * logarithms - 1));                                                       \
        for (int step = 32; step; step /= 2) {                                                                         \
            const bool small = x < (T)(4.0 / 3 / (double)(UINT64_C(1) << step));                                       \
            x = small ? x * (T)(UINT64_C(1) << step) : x;                                                              \
            halvings = small ? halvings + (T)step : halvings;                                                          \
        }                                                                                                              \
        const T ratio = (x - 1) / (x + 1), square = ratio * ratio;                                                     \
        for (int k = logarithms - 2; k >= 0; k--) total = total * square + (T)(1.0 / (2 * k + 1));                     \
        return halvings * (T)0.6931471805599453 - 2 * ratio * total;                                                   \
    }                                                                                                                  \
    static inline T weft_cosine_of_turns_##t(T x)                                                                      \
    {                                                                                                                  \
        static const double factorials[18] = {1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800,        \
            479001600, 6227020800, 87178291200, 1307674368000, 20922789888000, 355687428096000};                       \
        const T quarter = floor(4 * x + (T)0.5), angle = (4 * x - quarter) * (T)1.5707963267948966;                    \
        const T square = angle * angle;                                                                                \
        T sine = 0, cosine = 0;                                                                                        \
        for (int k = sines - 1; k >= 0; k--) sine = sine * square + (T)((k % 2 ? -1 : 1) / factorials[2 * k + 1]);     \
        for (int k = cosines - 1; k >= 0; k--) cosine = cosine * square + (T)((k % 2 ? -1 : 1) / factorials[2 * k]);   \
        const T size = quarter == 1 || quarter == 3 ? angle * sine : cosine;                                           \
        return quarter == 1 || quarter == 2 ? -size : size;                                                            \
    }                                                                                                                  \
    static inline T weft_normal_##t(uint64_t first, uint64_t second, T digits)                                         \
    {                                                                                                                  \
        const T radius = sqrt(2 * weft_minus_log_##t(1 - weft_uniform_##t(first, digits)));                            \
        return radius * weft_cosine_of_turns_##t(weft_uniform_##t(second, digits));                                    \
    }

WEFT_RANDOM(float, float32, 6, 5, 6)
WEFT_RANDOM(double, float64, 12, 9, 9)
