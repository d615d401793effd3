/* The functions of elementary.h in double precision. */

/* 2 to the power of the last bits of a number, from -1022 to 1023. */
WEFT_INLINE double weft_wide_raised(double shifted)
{
    return weft_double(weft_wide_bits(1.0) + (weft_wide_bits(shifted) << 52));
}

/* A number times 2 to the power of the last bits of another, in two steps: it may overflow or be tiny. */
WEFT_INLINE double weft_scaled(double x, double shifted)
{
    double half = WEFT_WIDE_FMA(shifted - WEFT_TO_WHOLE, 0.5, WEFT_TO_WHOLE), other = shifted - half + WEFT_TO_WHOLE;
    return x * weft_wide_raised(half) * weft_wide_raised(other);
}

/* x less a whole number of logarithms of 2, from -0.35 to 0.35; that number is left as the last bits of another. */
WEFT_INLINE double weft_wide_rest(double x, double *shifted)
{
    *shifted = WEFT_WIDE_FMA(x, 1.4426950408889634, WEFT_TO_WHOLE);
    double whole = *shifted - WEFT_TO_WHOLE, rest = WEFT_WIDE_FMA(whole, -6.93147180369123816490e-01, x);
    return WEFT_WIDE_FMA(whole, -1.90821492927058770002e-10, rest);
}

/* exp(x) - 1 of a number from -0.35 to 0.35, x + x^2 times a polynomial: off by 2^-60 of x at most, and by rounding. */
WEFT_INLINE double weft_wide_series(double x)
{
    double sum = 2.0914686968086876e-09;
    sum = WEFT_WIDE_FMA(sum, x, 2.5105217004720745e-08);
    sum = WEFT_WIDE_FMA(sum, x, 2.75572736431103e-07);
    sum = WEFT_WIDE_FMA(sum, x, 2.7557255400206422e-06);
    sum = WEFT_WIDE_FMA(sum, x, 2.4801587325547743e-05);
    sum = WEFT_WIDE_FMA(sum, x, 0.00019841269874820627);
    sum = WEFT_WIDE_FMA(sum, x, 0.0013888888888883748);
    sum = WEFT_WIDE_FMA(sum, x, 0.008333333333326136);
    sum = WEFT_WIDE_FMA(sum, x, 0.04166666666666667);
    sum = WEFT_WIDE_FMA(sum, x, 0.1666666666666667);
    sum = WEFT_WIDE_FMA(sum, x, 0.5);
    return WEFT_WIDE_FMA(sum * x, x, x);
}

/* The exponential without branches, within 1 ulp. */
WEFT_INLINE double weft_exp_float64(double x)
{
    double near = weft_choice(x < -746, -746, weft_choice(x > 710, 710, x)), shifted;
    double rest = weft_wide_rest(near, &shifted);
    return weft_scaled(weft_wide_series(rest) + 1, shifted) + (near - near);
}

/* The natural logarithm of a positive number that is not tiny, and some logarithms of 2 and far less more: with
   s = f / (2 + f), that of 1 + f is f - f^2 / 2 + s (f^2 / 2 + s^2 times a polynomial of s^2). */
WEFT_INLINE double weft_logarithm(double x, double whole, double more)
{
    double exponent, f = weft_near_one(x, &exponent) - 1;
    double s = f / (2 + f), square = s * s, sum = 0.12913617672223008;
    exponent += whole;
    sum = WEFT_WIDE_FMA(sum, square, 0.13285957435189454);
    sum = WEFT_WIDE_FMA(sum, square, 0.15385574796462176);
    sum = WEFT_WIDE_FMA(sum, square, 0.1818180824754454);
    sum = WEFT_WIDE_FMA(sum, square, 0.2222222227110234);
    sum = WEFT_WIDE_FMA(sum, square, 0.28571428571338508);
    sum = WEFT_WIDE_FMA(sum, square, 0.40000000000000024);
    sum = WEFT_WIDE_FMA(sum, square, 0.6666666666666666) * square;
    double half = 0.5 * f * f, least = WEFT_WIDE_FMA(exponent, 1.90821492927058770002e-10, more);
    double low = WEFT_WIDE_FMA(s, half + sum, least);
    return WEFT_WIDE_FMA(exponent, 6.93147180369123816490e-01, f - (half - low));
}

/* The natural logarithm without branches, within 1 ulp. */
WEFT_INLINE double weft_log_float64(double x)
{
    bool tiny = x < 0x1p-1022;
    double finite = weft_logarithm(weft_choice(tiny, x * 0x1p54, x), weft_choice(tiny, -54, 0), 0);
    double special = weft_choice(x == 0, -INFINITY, weft_choice(x < 0, NAN, x));
    return weft_choice((x > 0) & (x < INFINITY), finite, special);
}

/* The logarithm of 1 + x without branches, within 1 ulp, with what was lost when 1 was added. */
WEFT_INLINE double weft_log1p_float64(double x)
{
    double whole = 1 + x, lost = x - (whole - 1), finite = weft_logarithm(whole, 0, lost / whole);
    double special = weft_choice(x == -1, -INFINITY, weft_choice(x < -1, NAN, x));
    return copysign(weft_choice((x > -1) & (x < INFINITY), finite, special), x); /* of -0 it is -0 */
}

/* The error function without branches, within 1.5 ulp: from 0 to 1 x + x times a polynomial of x^2, off by 2^-56 of the
   result; from 1 to 6 1 - exp of a polynomial of x, which leaves the result off by 2^-56.9; beyond that, 1. */
WEFT_INLINE double weft_erf_float64(double x)
{
    double size = weft_choice(fabs(x) > 6, 6, fabs(x)), square = size * size;
    double small = -7.607910104552536e-10;
    small = WEFT_WIDE_FMA(small, square, 1.361674115843501e-08);
    small = WEFT_WIDE_FMA(small, square, -1.6183998594182408e-07);
    small = WEFT_WIDE_FMA(small, square, 1.6444151272786902e-06);
    small = WEFT_WIDE_FMA(small, square, -1.4924465677946968e-05);
    small = WEFT_WIDE_FMA(small, square, 0.00012055280497771077);
    small = WEFT_WIDE_FMA(small, square, -0.0008548325485019266);
    small = WEFT_WIDE_FMA(small, square, 0.005223977596736047);
    small = WEFT_WIDE_FMA(small, square, -0.026866170641959144);
    small = WEFT_WIDE_FMA(small, square, 0.1128379167093695);
    small = WEFT_WIDE_FMA(small, square, -0.37612638903183343);
    small = WEFT_WIDE_FMA(small, square, 0.12837916709551256);
    double large = -4.864195021039191e-12;
    large = WEFT_WIDE_FMA(large, size, 2.020033407128282e-10);
    large = WEFT_WIDE_FMA(large, size, -3.889518371975085e-09);
    large = WEFT_WIDE_FMA(large, size, 4.592829055172484e-08);
    large = WEFT_WIDE_FMA(large, size, -3.6953135042869717e-07);
    large = WEFT_WIDE_FMA(large, size, 2.114625391547999e-06);
    large = WEFT_WIDE_FMA(large, size, -8.578097675207196e-06);
    large = WEFT_WIDE_FMA(large, size, 2.2530778111369936e-05);
    large = WEFT_WIDE_FMA(large, size, -1.9517763061636616e-05);
    large = WEFT_WIDE_FMA(large, size, -0.00013656587017334061);
    large = WEFT_WIDE_FMA(large, size, 0.0007730609464949061);
    large = WEFT_WIDE_FMA(large, size, -0.0019189671324269246);
    large = WEFT_WIDE_FMA(large, size, 0.0004135566930400305);
    large = WEFT_WIDE_FMA(large, size, 0.01898802771144096);
    large = WEFT_WIDE_FMA(large, size, -0.10270228231112814);
    large = WEFT_WIDE_FMA(large, size, -0.6366440578072569);
    large = WEFT_WIDE_FMA(large, size, -1.1283739911062867);
    large = WEFT_WIDE_FMA(large, size, -5.133042792254669e-07);
    double shifted, rest = weft_wide_rest(large, &shifted), power = weft_wide_raised(shifted);
    double rises = WEFT_WIDE_FMA(small, size, size), levels = WEFT_WIDE_FMA(-power, weft_wide_series(rest), 1 - power);
    return copysign(weft_choice(size < 1, rises, levels), x);
}

/* The logistic function without branches, within 1.75 ulp: 1 / (1 + exp(-x)), and exp(x) / (1 + exp(x)) of what is
   negative, without the power of 2 in exp(x) until the end. What the sums lack is made up for: 1 / (1 + exp(x)) is the
   result, or what it lacks of 1. */
WEFT_INLINE double weft_sigmoid_float64(double x)
{
    double size = weft_choice(fabs(x) > 746, 746, fabs(x)), shifted, rest = weft_wide_rest(-size, &shifted);
    double power = weft_scaled(1, shifted), less = weft_wide_series(rest), high = 1 + less, low = less - (high - 1);
    double whole = 1 + high * power, whole_low = high * power - (whole - 1) + low * power;
    double near = weft_choice(x < 0, high, 1) / whole, inverse = weft_choice(x < 0, 1 - near * power, near);
    double more = (weft_choice(x < 0, low, 0) - near * whole_low) * inverse;
    return (near + more) * weft_choice(x < 0, power, 1);
}

/* The hyperbolic tangent without branches, within 2 ulp: the quotient of exp(-2x) - 1 and exp(-2x) + 1, both as sums of
   two numbers, the second what the first lacks. Half of 1 less that quotient is 1 / (exp(-2x) + 1). */
WEFT_INLINE double weft_tanh_float64(double x)
{
    double size = weft_choice(fabs(x) > 20, 20, fabs(x)), shifted, rest = weft_wide_rest(-2 * size, &shifted);
    double power = weft_wide_raised(shifted), part = power * weft_wide_series(rest);
    double less = part + (power - 1), less_low = part - (less - (power - 1));
    double more = 2 + less, more_low = less - (more - 2) + less_low, near = less / more;
    return copysign(near + (less_low - near * more_low) * (0.5 - 0.5 * near), x);
}

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

/* The sine of |x|, some quarter turns later, within 1 ulp. Of a large multiple of 2^32, 2^64, … the
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

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
/* The power without branches, within 1.25 ulp: the logarithm of |x| by 2, and that times y, are sums
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
