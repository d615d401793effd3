/* What products in tiles are written with. Vectors are called by their type and their bytes, which the tiles say: a
   compiler whose own are narrower makes several of each. */

/* Multiplications and additions of a tile are fused, where the machine can; gcc is told so function by function. */
#if defined(__clang__)
#define WEFT_TILE inline __attribute__((always_inline))
#define WEFT_FUSED __attribute__((noinline))
#define WEFT_UNROLL _Pragma("unroll")
#define WEFT_CONTRACT _Pragma("clang fp contract(fast)")
#else
#define WEFT_TILE inline __attribute__((always_inline, optimize("fp-contract=fast")))
#define WEFT_FUSED __attribute__((noipa, optimize("fp-contract=fast")))
#define WEFT_UNROLL _Pragma("GCC unroll 16")
#define WEFT_CONTRACT
#endif

/* The types of vectors of W bytes, which lie anywhere in memory. */
#define WEFT_TYPES(W)                                                                                                  \
    typedef float weft_float32v##W __attribute__((vector_size(W), aligned(4), may_alias));                             \
    typedef double weft_float64v##W __attribute__((vector_size(W), aligned(8), may_alias));                            \
    typedef int32_t weft_int32v##W __attribute__((vector_size(W), aligned(4), may_alias));                             \
    typedef int64_t weft_int64v##W __attribute__((vector_size(W), aligned(8), may_alias));                             \
    typedef uint64_t weft_uint64v##W __attribute__((vector_size(W), aligned(8), may_alias));                           \
    typedef uint8_t weft_boolv##W __attribute__((vector_size(W), aligned(1), may_alias));

/* A number in all lanes. Less zero it is what it was, also if it is -0.0. */
#define WEFT_EACH(T, t, W)                                                                                             \
    static WEFT_TILE weft_##t##v##W weft_each_##t##v##W(T x) { return x - (weft_##t##v##W){0}; }

/* Operations on vectors that are none of the language's: lane by lane. Of two numbers, the larger takes one comparison. */
#define WEFT_LANES(T, t, W, value)                                                                                     \
    {                                                                                                                  \
        weft_##t##v##W made;                                                                                           \
        _Pragma("omp simd") for (int at = 0; at < (int)(W / sizeof(T)); at++) made[at] = value;                        \
        return made;                                                                                                   \
    }
#define WEFT_EXTREMUM(name, T, t, W, value)                                                                            \
    static WEFT_TILE weft_##t##v##W name(weft_##t##v##W x, weft_##t##v##W y) WEFT_LANES(T, t, W, value)
#define WEFT_FLOAT_EXTREMA(T, t, W)                                                                                    \
    WEFT_EXTREMUM(weft_max_##t##v##W, T, t, W, weft_max_##t(x[at], y[at]))                                             \
    WEFT_EXTREMUM(weft_min_##t##v##W, T, t, W, weft_min_##t(x[at], y[at]))                                             \
    WEFT_EXTREMUM(weft_larger_##t##v##W, T, t, W, x[at] > y[at] ? x[at] : y[at])                                       \
    WEFT_EXTREMUM(weft_smaller_##t##v##W, T, t, W, x[at] < y[at] ? x[at] : y[at])
#if defined(__AVX512F__)
#define WEFT_WHOLE_EXTREMA(T, t, W)                                                                                    \
    WEFT_EXTREMUM(weft_max_##t##v##W, T, t, W, x[at] > y[at] ? x[at] : y[at])                                          \
    WEFT_EXTREMUM(weft_min_##t##v##W, T, t, W, x[at] < y[at] ? x[at] : y[at])
#else /* few machines choose the larger of two whole numbers of 64 bits by one instruction */
#define WEFT_CHOSEN(name, t, W, chosen)                                                                                \
    static WEFT_TILE weft_##t##v##W name(weft_##t##v##W x, weft_##t##v##W y)                                           \
    {                                                                                                                  \
        const weft_##t##v##W first = (weft_##t##v##W)(chosen);                                                         \
        return (x & first) | (y & ~first);                                                                             \
    }
#define WEFT_WHOLE_EXTREMA(T, t, W)                                                                                    \
    WEFT_CHOSEN(weft_max_##t##v##W, t, W, x > y)                                                                       \
    WEFT_CHOSEN(weft_min_##t##v##W, t, W, x < y)
#endif

/* A sum that takes in a product, fused where the machine can, of a vector that is kept for several rows. gcc is told so
   where vectors are the widest: else it loads them again for each row, and moves sums until no register is left. */
#define WEFT_PLAIN_TAKING(T, t, W)                                                                                     \
    static WEFT_TILE weft_##t##v##W weft_kept_##t##v##W(weft_##t##v##W x) { return x; }                                \
    static WEFT_TILE weft_##t##v##W weft_taking_##t##v##W(weft_##t##v##W sum, weft_##t##v##W x, weft_##t##v##W y)      \
    {                                                                                                                  \
        WEFT_CONTRACT                                                                                                  \
        return sum + x * y;                                                                                            \
    }
#define WEFT_FUSED_TAKING(T, t, W, suffix)                                                                             \
    static WEFT_TILE weft_##t##v##W weft_kept_##t##v##W(weft_##t##v##W x)                                              \
    {                                                                                                                  \
        __asm__("" : "+v"(x));                                                                                         \
        return x;                                                                                                      \
    }                                                                                                                  \
    static WEFT_TILE weft_##t##v##W weft_taking_##t##v##W(weft_##t##v##W sum, weft_##t##v##W x, weft_##t##v##W y)      \
    {                                                                                                                  \
        __asm__("vfmadd231" suffix " %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));                                        \
        return sum;                                                                                                    \
    }
#define WEFT_TAKING_16 WEFT_PLAIN_TAKING(float, float32, 16) WEFT_PLAIN_TAKING(double, float64, 16)
#define WEFT_TAKING_32 WEFT_PLAIN_TAKING(float, float32, 32) WEFT_PLAIN_TAKING(double, float64, 32)
#if defined(__AVX512F__) && !defined(__clang__)
#define WEFT_TAKING_64 WEFT_FUSED_TAKING(float, float32, 64, "ps") WEFT_FUSED_TAKING(double, float64, 64, "pd")
#else
#define WEFT_TAKING_64 WEFT_PLAIN_TAKING(float, float32, 64) WEFT_PLAIN_TAKING(double, float64, 64)
#endif

/* A scalar in memory and a vector added up: where registers are many, as a product with one, which is added to. It is
   rounded once, as a sum is, and done where products are, not where sums and comparisons are. */
#define WEFT_PLAIN_PLUS(T, t, W)                                                                                       \
    static WEFT_TILE weft_##t##v##W weft_plus_##t##v##W(const T *x, weft_##t##v##W y) { return *x + y; }
#define WEFT_FUSED_PLUS(T, t, W, suffix, lanes)                                                                        \
    static WEFT_TILE weft_##t##v##W weft_plus_##t##v##W(const T *x, weft_##t##v##W y)                                  \
    {                                                                                                                  \
        const weft_##t##v##W one = (weft_##t##v##W){0} + 1;                                                            \
        __asm__("vfmadd231" suffix " %1%{1to" lanes "%}, %2, %0" : "+v"(y) : "m"(*x), "v"(one));                       \
        return y;                                                                                                      \
    }
#define WEFT_PLUS_16 WEFT_PLAIN_PLUS(float, float32, 16) WEFT_PLAIN_PLUS(double, float64, 16)
#define WEFT_PLUS_32 WEFT_PLAIN_PLUS(float, float32, 32) WEFT_PLAIN_PLUS(double, float64, 32)
#if defined(__AVX512F__)
#define WEFT_PLUS_64 WEFT_FUSED_PLUS(float, float32, 64, "ps", "16") WEFT_FUSED_PLUS(double, float64, 64, "pd", "8")
#else
#define WEFT_PLUS_64 WEFT_PLAIN_PLUS(float, float32, 64) WEFT_PLAIN_PLUS(double, float64, 64)
#endif

/* Whether terms are numbers shows in sums over their factors. Of factors that are added up, the sum is `plain`: opposite
   infinities meet in it. Of others all must be `finite`, or at least a `number`: they count as zero then. */
#define WEFT_LOOK(kind, T, t, value)                                                                                   \
    static inline T weft_##kind##_##t(T x) { return value; }                                                           \
    static inline T weft_look_##kind##_##t(const T *x, int64_t count)                                                  \
    {                                                                                                                  \
        const int64_t part = count / 4;                                                                                \
        T looked = 0;                                                                                                  \
        _Pragma("omp simd reduction(+ : looked)") for (int64_t at = 0; at < part; at++)                                \
            looked += (weft_##kind##_##t(x[at]) + weft_##kind##_##t(x[part + at])) +                                   \
                      (weft_##kind##_##t(x[2 * part + at]) + weft_##kind##_##t(x[3 * part + at]));                     \
        for (int64_t at = 4 * part; at < count; at++) looked += weft_##kind##_##t(x[at]);                              \
        return looked;                                                                                                 \
    }
#define WEFT_LOOKS(T, t)                                                                                               \
    WEFT_LOOK(plain, T, t, x)                                                                                          \
    WEFT_LOOK(finite, T, t, x * 0)                                                                                     \
    WEFT_LOOK(number, T, t, x != x ? x : 0)

WEFT_LOOKS(float, float32)
WEFT_LOOKS(double, float64)

#define WEFT_VECTOR_LOOK(kind, T, t, W)                                                                                \
    static WEFT_TILE weft_##t##v##W weft_##kind##_##t##v##W(weft_##t##v##W x)                                          \
        WEFT_LANES(T, t, W, weft_##kind##_##t(x[at]))
#define WEFT_VECTOR_LOOKS(T, t, W)                                                                                     \
    WEFT_VECTOR_LOOK(plain, T, t, W)                                                                                   \
    WEFT_VECTOR_LOOK(finite, T, t, W)                                                                                  \
    WEFT_VECTOR_LOOK(number, T, t, W)

/* A vector of which only the last lanes are left, so many of them. */
#define WEFT_LAST(T, t, I, i, W)                                                                                       \
    static const I weft_lanes_##t##v##W[2 * W / sizeof(T)] = {[W / sizeof(T)... 2 * W / sizeof(T) - 1] = -1};          \
    static inline weft_##t##v##W weft_last_##t##v##W(weft_##t##v##W x, int count)                                      \
    {                                                                                                                  \
        return (weft_##t##v##W)((weft_##i##v##W)x & *(const weft_##i##v##W *)&weft_lanes_##t##v##W[count]);            \
    }

/* The narrowest vectors: 4 floats, or words of narrower numbers, which lie anywhere in memory, or 2 doubles. */
typedef float weft_four __attribute__((vector_size(16), aligned(1), may_alias));
typedef double weft_two __attribute__((vector_size(16), aligned(8), may_alias));
#if defined(__clang__) || __GNUC__ >= 12
#define WEFT_MIX(T, x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
typedef int32_t weft_mix_weft_four __attribute__((vector_size(16)));
typedef int64_t weft_mix_weft_two __attribute__((vector_size(16)));
#define WEFT_MIX(T, x, y, ...) __builtin_shuffle(x, y, (weft_mix_##T){__VA_ARGS__})
#endif

/* Vectors added up across: halves of one, then 4 sums of floats or 2 of doubles at once. */
#define WEFT_HALVES(name, from, to)                                                                                    \
    static inline to name(from x)                                                                                      \
    {                                                                                                                  \
        const union {                                                                                                  \
            from whole;                                                                                                \
            to half[2];                                                                                                \
        } both = {x};                                                                                                  \
        return both.half[0] + both.half[1];                                                                            \
    }
typedef float weft_half_float32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double weft_half_float64 __attribute__((vector_size(32), aligned(8), may_alias));
#define WEFT_FEW_16                                                                                                    \
    static inline weft_four weft_few_float32v16(weft_float32v16 x) { return x; }                                       \
    static inline weft_two weft_few_float64v16(weft_float64v16 x) { return x; }
#define WEFT_FEW_32                                                                                                    \
    WEFT_HALVES(weft_few_float32v32, weft_float32v32, weft_four)                                                       \
    WEFT_HALVES(weft_few_float64v32, weft_float64v32, weft_two)
#define WEFT_FEW_64                                                                                                    \
    WEFT_HALVES(weft_halved_float32, weft_float32v64, weft_half_float32)                                               \
    WEFT_HALVES(weft_halved_float64, weft_float64v64, weft_half_float64)                                               \
    WEFT_HALVES(weft_quartered_float32, weft_half_float32, weft_four)                                                  \
    WEFT_HALVES(weft_quartered_float64, weft_half_float64, weft_two)                                                   \
    static inline weft_four weft_few_float32v64(weft_float32v64 x)                                                     \
    {                                                                                                                  \
        return weft_quartered_float32(weft_halved_float32(x));                                                         \
    }                                                                                                                  \
    static inline weft_two weft_few_float64v64(weft_float64v64 x)                                                      \
    {                                                                                                                  \
        return weft_quartered_float64(weft_halved_float64(x));                                                         \
    }
#define WEFT_ACROSS(W)                                                                                                 \
    static inline float weft_across_float32v##W(weft_float32v##W x)                                                    \
    {                                                                                                                  \
        const weft_four few = weft_few_float32v##W(x);                                                                 \
        return (few[0] + few[2]) + (few[1] + few[3]);                                                                  \
    }                                                                                                                  \
    static inline double weft_across_float64v##W(weft_float64v##W x)                                                   \
    {                                                                                                                  \
        const weft_two few = weft_few_float64v##W(x);                                                                  \
        return few[0] + few[1];                                                                                        \
    }                                                                                                                  \
    static inline weft_four weft_across4_float32v##W(weft_float32v##W w, weft_float32v##W x, weft_float32v##W y,       \
                                                     weft_float32v##W z)                                               \
    {                                                                                                                  \
        const weft_four a = weft_few_float32v##W(w), b = weft_few_float32v##W(x);                                      \
        const weft_four c = weft_few_float32v##W(y), d = weft_few_float32v##W(z);                                      \
        const weft_four ab = WEFT_MIX(weft_four, a, b, 0, 4, 1, 5) + WEFT_MIX(weft_four, a, b, 2, 6, 3, 7);            \
        const weft_four cd = WEFT_MIX(weft_four, c, d, 0, 4, 1, 5) + WEFT_MIX(weft_four, c, d, 2, 6, 3, 7);            \
        return WEFT_MIX(weft_four, ab, cd, 0, 1, 4, 5) + WEFT_MIX(weft_four, ab, cd, 2, 3, 6, 7);                      \
    }                                                                                                                  \
    static inline weft_two weft_across2_float64v##W(weft_float64v##W x, weft_float64v##W y)                            \
    {                                                                                                                  \
        const weft_two a = weft_few_float64v##W(x), b = weft_few_float64v##W(y);                                       \
        return WEFT_MIX(weft_two, a, b, 0, 2) + WEFT_MIX(weft_two, a, b, 1, 3);                                        \
    }

/* Sums in double precision: a part of them is stored, or added to what is there. */
#define WEFT_ACCUMULATE(T, t)                                                                                          \
    static WEFT_APART void weft_accumulate_##t(double *restrict sums, const T *restrict part, int64_t cells, bool more)\
    {                                                                                                                  \
        if (!more)                                                                                                     \
            for (int64_t at = 0; at < cells; at++) sums[at] = 0;                                                       \
        _Pragma("omp simd")                                                                                            \
        for (int64_t at = 0; at < cells; at++) sums[at] += (double)part[at];                                           \
    }

WEFT_ACCUMULATE(float, float32)
WEFT_ACCUMULATE(double, float64)

/* A small block transposed. */
enum { weft_block_float32 = 4, weft_block_float64 = 2 };
static inline void weft_transpose_block_float32(const float *from, int64_t stride, float *to, int64_t wide)
{
    const weft_four a = *(const weft_four *)from, b = *(const weft_four *)(from + stride);
    const weft_four c = *(const weft_four *)(from + 2 * stride), d = *(const weft_four *)(from + 3 * stride);
    const weft_four ab = WEFT_MIX(weft_four, a, b, 0, 4, 1, 5), ba = WEFT_MIX(weft_four, a, b, 2, 6, 3, 7);
    const weft_four cd = WEFT_MIX(weft_four, c, d, 0, 4, 1, 5), dc = WEFT_MIX(weft_four, c, d, 2, 6, 3, 7);
    *(weft_four *)to = WEFT_MIX(weft_four, ab, cd, 0, 1, 4, 5);
    *(weft_four *)(to + wide) = WEFT_MIX(weft_four, ab, cd, 2, 3, 6, 7);
    *(weft_four *)(to + 2 * wide) = WEFT_MIX(weft_four, ba, dc, 0, 1, 4, 5);
    *(weft_four *)(to + 3 * wide) = WEFT_MIX(weft_four, ba, dc, 2, 3, 6, 7);
}
static inline void weft_transpose_block_float64(const double *from, int64_t stride, double *to, int64_t wide)
{
    const weft_two a = *(const weft_two *)from, b = *(const weft_two *)(from + stride);
    *(weft_two *)to = WEFT_MIX(weft_two, a, b, 0, 2);
    *(weft_two *)(to + wide) = WEFT_MIX(weft_two, a, b, 1, 3);
}

/* Columns, each `stride` after the one before, become rows of a panel `wide` apart, with zeros beyond the last column.
   Some lines of memory are transposed at a time: where the stride is a power of two, a cache holds few of them. */
#define WEFT_TRANSPOSE(T, t)                                                                                           \
    static inline void weft_transpose_blocks_##t(const T *restrict from, int64_t stride, int64_t depth,                \
                                                 int64_t columns, T *restrict to, int64_t wide)                        \
    {                                                                                                                  \
        for (int64_t c = 0; c < columns; c += weft_block_##t)                                                          \
            for (int64_t k = 0; k < depth; k += weft_block_##t)                                                        \
                weft_transpose_block_##t(from + c * stride + k, stride, to + k * wide + c, wide);                      \
    }                                                                                                                  \
    static inline void weft_transpose_##t(const T *restrict from, int64_t stride, int64_t depth, int64_t columns,      \
                                          T *restrict to, int64_t wide)                                                \
    {                                                                                                                  \
        enum { size = weft_block_##t, line = 64 / sizeof(T) };                                                         \
        const int64_t whole = columns - columns % size;                                                                \
        for (int64_t first = 0; first < depth; first += line) {                                                        \
            const int64_t end = depth - first < line ? depth : first + line, blocks = end - (end - first) % size;      \
            weft_transpose_blocks_##t(from + first, stride, blocks - first, whole, to + first * wide, wide);           \
            for (int64_t k = first; k < end; k++) {                                                                    \
                for (int64_t c = k < blocks ? whole : 0; c < columns; c++) to[k * wide + c] = from[c * stride + k];    \
                for (int64_t c = columns; c < wide; c++) to[k * wide + c] = 0;                                         \
            }                                                                                                          \
        }                                                                                                              \
    }

WEFT_TRANSPOSE(float, float32)
WEFT_TRANSPOSE(double, float64)

/* Words of several narrow numbers, which lie anywhere in memory; they are transposed as floats are. */
typedef int32_t weft_packed __attribute__((aligned(1), may_alias));
enum { weft_block_packed = weft_block_float32 };
static inline void weft_transpose_block_packed(const weft_packed *from, int64_t stride, weft_packed *to, int64_t wide)
{
    weft_transpose_block_float32((const float *)from, stride, (float *)to, wide);
}
WEFT_TRANSPOSE(weft_packed, packed)

/* The products of words added to what is in a lane: of pairs of bfloat16, and of four numbers without signs with four
   that have them, in 32 bits. Compilers call the instructions differently, assemblers do not. */
#define WEFT_WORDS_PLAIN(name, t, W, value)                                                                            \
    static inline __attribute__((always_inline)) weft_##t##v##W name(weft_##t##v##W sum, weft_int32v##W x,             \
                                                                     weft_int32v##W y)                                 \
    {                                                                                                                  \
        return value;                                                                                                  \
    }
#define WEFT_WORDS_ADDED(name, t, W, instruction)                                                                      \
    static inline __attribute__((always_inline)) weft_##t##v##W name(weft_##t##v##W sum, weft_int32v##W x,             \
                                                                     weft_int32v##W y)                                 \
    {                                                                                                                  \
        __asm__(instruction " %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));                                               \
        return sum;                                                                                                    \
    }
#if defined(__AVX512BF16__) && defined(__AVX512VL__)
#define WEFT_PAIRS(W) WEFT_WORDS_ADDED(weft_pairs_float32v##W, float32, W, "vdpbf16ps")
#else
#define WEFT_PAIRS(W)                                                                                                  \
    WEFT_WORDS_PLAIN(weft_pairs_float32v##W, float32, W,                                                               \
                     sum + (weft_float32v##W)(x << 16) * (weft_float32v##W)(y << 16) +                                 \
                         (weft_float32v##W)(x & -65536) * (weft_float32v##W)(y & -65536))
#endif
#define WEFT_FOURTH(x, y, at) (x >> 8 * at & 255) * (y << (24 - 8 * at) >> 24)
#define WEFT_FOURS_PLAIN(W)                                                                                            \
    WEFT_WORDS_PLAIN(weft_fours_int32v##W, int32, W,                                                                   \
                     sum + WEFT_FOURTH(x, y, 0) + WEFT_FOURTH(x, y, 1) + WEFT_FOURTH(x, y, 2) + WEFT_FOURTH(x, y, 3))
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define WEFT_FOURS(W) WEFT_WORDS_ADDED(weft_fours_int32v##W, int32, W, "vpdpbusd")
#elif defined(__AVXVNNI__)
#define WEFT_FOURS(W) WEFT_FOURS_##W
#define WEFT_FOURS_16 WEFT_WORDS_ADDED(weft_fours_int32v16, int32, 16, "%{vex%} vpdpbusd")
#define WEFT_FOURS_32 WEFT_WORDS_ADDED(weft_fours_int32v32, int32, 32, "%{vex%} vpdpbusd")
#define WEFT_FOURS_64 WEFT_FOURS_PLAIN(64)
#else
#define WEFT_FOURS(W) WEFT_FOURS_PLAIN(W)
#endif

/* All that there is of vectors of W bytes; a text has it for those that its tiles are of. */
#define WEFT_VECTORS(W)                                                                                                \
    WEFT_TYPES(W)                                                                                                      \
    WEFT_EACH(float, float32, W)                                                                                       \
    WEFT_EACH(double, float64, W)                                                                                      \
    WEFT_EACH(int64_t, int64, W)                                                                                       \
    WEFT_EACH(uint64_t, uint64, W)                                                                                     \
    WEFT_FLOAT_EXTREMA(float, float32, W)                                                                              \
    WEFT_FLOAT_EXTREMA(double, float64, W)                                                                             \
    WEFT_WHOLE_EXTREMA(int64_t, int64, W)                                                                              \
    WEFT_WHOLE_EXTREMA(uint64_t, uint64, W)                                                                            \
    WEFT_PLUS_##W                                                                                                      \
    WEFT_TAKING_##W                                                                                                    \
    WEFT_VECTOR_LOOKS(float, float32, W)                                                                               \
    WEFT_VECTOR_LOOKS(double, float64, W)                                                                              \
    WEFT_LAST(float, float32, int32_t, int32, W)                                                                       \
    WEFT_LAST(double, float64, int64_t, int64, W)                                                                      \
    WEFT_FEW_##W                                                                                                       \
    WEFT_ACROSS(W)                                                                                                     \
    WEFT_PAIRS(W)                                                                                                      \
    WEFT_FOURS(W)
