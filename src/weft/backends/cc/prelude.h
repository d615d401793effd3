#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <tgmath.h>

#define WEFT_NUMBER(T, t)                                                                                              \
    static inline T weft_max_##t(T x, T y) { return (x > y || x != x) ? x : y; }                                       \
    static inline T weft_min_##t(T x, T y) { return (x < y || x != x) ? x : y; }                                       \
    static inline T weft_relu_##t(T x) { return weft_max_##t(x, 0); }                                                  \
    static inline T weft_sat01_##t(T x) { return weft_min_##t(weft_max_##t(x, 0), 1); }                                \
    static inline T weft_relu_gate_##t(T x, T y) { return x > 0 ? y : 0; }                                             \
    static inline T weft_sat01_gate_##t(T x, T y) { return x > 0 && x < 1 ? y : 0; }                                   \
    static inline T weft_where_##t(bool c, T x, T y) { return c ? x : y; }                                             \
    static inline T weft_abs_##t(T x) { return x < 0 ? -x : x; }

#define WEFT_FLOAT(T, t)                                                                                               \
    WEFT_NUMBER(T, t)                                                                                                  \
    static inline T weft_mod_##t(T x, T y)                                                                             \
    {                                                                                                                  \
        T rest = fmod(x, y);                                                                                           \
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest == 0 ? copysign((T)0, y) : rest;                   \
    }                                                                                                                  \
    static inline T weft_pow_##t(T x, T y) { return pow(x, y); }

#define WEFT_SIGNED(T, t)                                                                                              \
    WEFT_NUMBER(T, t)                                                                                                  \
    static inline T weft_mod_##t(T x, T y)                                                                             \
    {                                                                                                                  \
        if (y == 0 || y == -1) return 0;                                                                               \
        T rest = x % y;                                                                                                \
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;                                                   \
    }                                                                                                                  \
    WEFT_POWER(T, t)

#define WEFT_UNSIGNED(T, t)                                                                                            \
    WEFT_NUMBER(T, t)                                                                                                  \
    static inline T weft_mod_##t(T x, T y) { return y == 0 ? 0 : x % y; }                                              \
    WEFT_POWER(T, t)

#define WEFT_POWER(T, t)                                                                                               \
    static inline T weft_pow_##t(T x, T y)                                                                             \
    {                                                                                                                  \
        uint64_t base = (uint64_t)x, power = 1;                                                                        \
        for (uint64_t left = (uint64_t)y; left; left >>= 1, base *= base)                                              \
            if (left & 1) power *= base;                                                                               \
        return (T)power;                                                                                               \
    }

WEFT_FLOAT(float, float32)
WEFT_FLOAT(double, float64)
WEFT_SIGNED(int8_t, int8)
WEFT_SIGNED(int16_t, int16)
WEFT_SIGNED(int32_t, int32)
WEFT_SIGNED(int64_t, int64)
WEFT_UNSIGNED(uint8_t, uint8)
WEFT_UNSIGNED(uint16_t, uint16)
WEFT_UNSIGNED(uint32_t, uint32)
WEFT_UNSIGNED(uint64_t, uint64)

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

static inline float weft_uniform(uint64_t bits) { return (float)(bits >> 40) * 0x1p-24f; }
