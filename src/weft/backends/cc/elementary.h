#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

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

/* The exponential without branches, within 1 ulp: 2 to a whole power, in two steps, times a polynomial. */
static inline float weft_exp_float32(float x)
{
    float near = x != x ? 0.0f : x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
    float turns = rintf(near * 1.44269504f);
    float rest = (near - turns * 0.693359375f) + turns * 2.12194440e-4f;
    float power = 1.9875691500e-4f;
    power = power * rest + 1.3981999507e-3f;
    power = power * rest + 8.3334519073e-3f;
    power = power * rest + 4.1665795894e-2f;
    power = power * rest + 1.6666665459e-1f;
    power = power * rest + 5.0000001201e-1f;
    power = power * rest * rest + rest + 1.0f;
    int32_t whole = (int32_t)turns, half = whole >> 1;
    power = power * weft_float((uint32_t)(half + 127) << 23) * weft_float((uint32_t)(whole - half + 127) << 23);
    return x != x ? x : power;
}
static inline double weft_exp_float64(double x) { return exp(x); }

/* The natural logarithm without branches, within 1 ulp: that of a power of 2, and a polynomial near 1. */
static inline float weft_log_float32(float x)
{
    float large = x * 8388608.0f, scaled = x < 1.17549435e-38f ? large : x; /* what is tiny has few digits */
    uint32_t bits = weft_bits(scaled) - 0x3f3504f3u;                        /* the root of a half: the least rest */
    int32_t whole = (int32_t)bits >> 23, less = x < 1.17549435e-38f ? 23 : 0;
    float power = (float)(whole - less);
    float rest = weft_float((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f, square = rest * rest;
    float sum = 6.7466385663e-2f;
    sum = sum * rest - 1.1675651371e-1f;
    sum = sum * rest + 1.1888162792e-1f;
    sum = sum * rest - 1.2405589223e-1f;
    sum = sum * rest + 1.4219552279e-1f;
    sum = sum * rest - 1.6667996347e-1f;
    sum = sum * rest + 2.0002119243e-1f;
    sum = sum * rest - 2.5000008941e-1f;
    sum = sum * rest + 3.3333313465e-1f;
    sum = sum * rest * square - power * 2.12194440e-4f - 0.5f * square;
    float result = rest + sum + power * 0.693359375f;
    return result + (x < 0.0f ? NAN : x == 0.0f ? -INFINITY : x > 3.4028235e38f || x != x ? x : 0.0f);
}
static inline double weft_log_float64(double x) { return log(x); }

/* The logarithm of 1 + x, with what was lost when 1 was added. */
static inline float weft_log1p_float32(float x)
{
    float whole = 1.0f + x, near = whole > 0.0f && whole < INFINITY ? whole : 1.0f;
    float lost = (x < INFINITY ? x : 0.0f) - ((x < INFINITY ? whole : 1.0f) - 1.0f);
    return copysignf(weft_log_float32(whole) + lost / near, x); /* of -0 it is -0 */
}
static inline double weft_log1p_float64(double x) { return log1p(x); }

/* The error function without branches, within 2 ulp: a polynomial where x is small, 1 - exp of one elsewhere. */
static inline float weft_erf_float32(float x)
{
    float size = x != x ? 0.0f : fabsf(x) > 4.0f ? 4.0f : fabsf(x), square = size * size;
    float small = -6.31512573e-4f;
    small = small * square + 5.05109416e-3f;
    small = small * square - 2.68025473e-2f;
    small = small * square + 1.12827174e-1f;
    small = small * square - 3.76125718e-1f;
    small = small * square + 1.28379160e-1f;
    float large = -2.00177120e-5f;
    large = large * size + 4.22177659e-4f;
    large = large * size - 4.11245049e-3f;
    large = large * size + 2.49676917e-2f;
    large = large * size - 1.08049773e-1f;
    large = large * size - 6.33552016e-1f;
    large = large * size - 1.12941562f;
    large = large * size + 1.54501518e-4f;
    float result = size < 0.85f ? small * size + size : 1.0f - weft_exp_float32(large);
    return x != x ? x : copysignf(result, x);
}
static inline double weft_erf_float64(double x) { return erf(x); }

/* The hyperbolic tangent without branches, within 2 ulp: 1 - 2 / (exp(2x) + 1), a polynomial where x is small. */
static inline float weft_tanh_float32(float x)
{
    float size = x != x ? 0.0f : fabsf(x) > 10.0f ? 10.0f : fabsf(x), square = size * size;
    float turns = rintf(2.0f * size * 1.44269504f);
    float rest = (2.0f * size - turns * 0.693359375f) + turns * 2.12194440e-4f;
    float power = 1.9875691500e-4f;
    power = power * rest + 1.3981999507e-3f;
    power = power * rest + 8.3334519073e-3f;
    power = power * rest + 4.1665795894e-2f;
    power = power * rest + 1.6666665459e-1f;
    power = power * rest + 5.0000001201e-1f;
    power = (power * rest * rest + rest + 1.0f) * weft_float(((uint32_t)(int32_t)turns + 127u) << 23);
    float small = -5.70498872745e-3f;
    small = small * square + 2.06390887954e-2f;
    small = small * square - 5.37397155531e-2f;
    small = small * square + 1.33314422036e-1f;
    small = small * square - 3.33332819422e-1f;
    small = small * square * size + size;
    float result = size < 0.625f ? small : 1.0f - 2.0f / (power + 1.0f);
    return x != x ? x : copysignf(result, x);
}
static inline double weft_tanh_float64(double x) { return tanh(x); }
