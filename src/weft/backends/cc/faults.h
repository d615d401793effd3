/* Texts that a compiler has been seen to get wrong, or that all of weft's code rests on, each with a known answer. */

/* Neighbours added in reversed order, one after another: gcc 11, 12 before 12.4 and 13 before 13.2 put them on vectors and
   count some twice (its bug 110381). */
static WEFT_APART double weft_reversed_sum(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < 2; k++) sum = (sum + x[2 * i + 1 - k]);
    return sum;
}
static WEFT_SELDOM bool weft_right_sums(void)
{
    double x[16];
    for (int64_t at = 0; at < 16; at++) x[at] = at + 1;
    return weft_reversed_sum(x, 8) == 136;
}

/* A function that reads through its arguments on vectors: gcc 12 may tell its callers that it does not, and they then
   leave out what they wrote there. Functions are therefore compiled apart from each other. The caller is optimised. */
static WEFT_APART void weft_looked_up(const double *x, const int64_t *l, double *y)
{
    for (int64_t a = 0; a < 1; a++)
        for (int64_t b = 0; b < 4; b++)
            for (int64_t c = 0; c < 32; c++)
                if (3 * a + 3 * c + 1 < 98)
                    y[(a * 4 + b) * 32 + c] =
                        weft_where_float64(c - a + 2 < 20, x[3 * b + 2 * c + 2] + (double)l[b + c], x[3 * b + c]);
}
static WEFT_SELDOM bool weft_right_look(const double *y)
{
    for (int b = 0; b < 4; b++)
        for (int c = 0; c < 32; c++) {
            const int at = c < 18 ? 3 * b + 2 * c + 2 : 3 * b + c;
            const double wanted = (at * 8 + 3) % 11 - 3 + (c < 18 ? ((b + c) * 8 + 3) % 11 - 3 : 0);
            if (y[b * 32 + c] != wanted) return false;
        }
    return true;
}
static bool weft_right_callers(void)
{
    double x[74], y[128];
    int64_t l[71];
    for (int q = 0; q < 74; q++) x[q] = (q * 8 + 3) % 11 - 3;
    for (int q = 0; q < 71; q++) l[q] = (q * 8 + 3) % 11 - 3;
    for (int q = 0; q < 128; q++) y[q] = -77;
    weft_looked_up(x, l, y);
    return weft_right_look(y);
}

/* Choices between numbers that are read, on vectors, by comparisons of other widths. */
static WEFT_APART void weft_chosen(const float *x, const float *y, const int64_t *c, const bool *d, float *z)
{
#pragma omp simd
    for (int64_t i = 0; i < 37; i++) {
        float chosen = weft_where_float32((c[i] < 4), x[i], y[36 - i]);
        z[i] = weft_where_float32(d[i], chosen, weft_relu_gate_float32(x[i], y[i]));
    }
}
static WEFT_SELDOM bool weft_right_choices(void)
{
    float x[37], y[37], z[37];
    int64_t c[37];
    bool d[37];
    for (int q = 0; q < 37; q++) x[q] = q % 9 - 4, y[q] = 3 * q + 1, c[q] = q % 7, d[q] = q % 3 == 0;
    weft_chosen(x, y, c, d, z);
    for (int q = 0; q < 37; q++) {
        const float chosen = q % 7 < 4 ? q % 9 - 4 : 3 * (36 - q) + 1, gated = q % 9 - 4 > 0 ? 3 * q + 1 : 0;
        if (z[q] != (q % 3 == 0 ? chosen : gated)) return false;
    }
    return true;
}

/* Sums named in a request for vectors, beside stores. */
static WEFT_APART double weft_named_sum(const float *x, float *y, int64_t *count)
{
    double sum = 0;
    int64_t above = 0;
#pragma omp simd reduction(+ : sum, above)
    for (int64_t i = 0; i < 37; i++) {
        y[i] = x[i] * 2.0f;
        sum += y[i];
        above = (above + (int64_t)(x[i] > 10.0f));
    }
    *count = above;
    return sum;
}
static WEFT_SELDOM bool weft_right_reductions(void)
{
    float x[37], y[37];
    int64_t count;
    for (int q = 0; q < 37; q++) x[q] = q;
    return weft_named_sum(x, y, &count) == 37 * 36 && count == 26 && y[36] == 72;
}

/* The number of the first text that goes wrong, 0 if none does. */
int64_t weft_fault(void)
{
    return !weft_right_sums() ? 1 : !weft_right_callers() ? 2 : !weft_right_choices() ? 3 : !weft_right_reductions() ? 4 : 0;
}
