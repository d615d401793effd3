#include <stdbool.h>
#include <stdint.h>

/* Nests are compiled apart from what calls them: gcc 12 has been seen to take one that writes for one that does not.
   What runs once is not worth the time that making it fast takes; what is cold, or only calls others, not much of it. */
#if defined(__GNUC__) && !defined(__clang__)
#define WEFT_APART __attribute__((noipa))
#define WEFT_SELDOM __attribute__((noipa, cold, optimize("O0")))
#define WEFT_COLD __attribute__((noipa, cold, optimize("Og")))
#define WEFT_CALLING __attribute__((noipa, optimize("Og")))
#else
#define WEFT_APART __attribute__((noinline))
#define WEFT_SELDOM __attribute__((noinline, cold))
#define WEFT_COLD WEFT_SELDOM
#define WEFT_CALLING WEFT_APART
#endif

/* Some lines of memory, from one of them on, that are soon read, or written. Nothing is wrong with those beyond it. */
static inline __attribute__((always_inline)) void weft_fetch(const void *from, int64_t first, int lines)
{
    _Pragma("GCC unroll 16") for (int at = 0; at < lines; at++)
        __builtin_prefetch((const char *)from + 64 * (first + at), 0);
}
static inline __attribute__((always_inline)) void weft_fetch_to_write(const void *from, int64_t first, int lines)
{
    _Pragma("GCC unroll 16") for (int at = 0; at < lines; at++)
        __builtin_prefetch((const char *)from + 64 * (first + at), 1);
}

/* Whole lines of memory past the caches, if they begin where lines do. */
static inline __attribute__((always_inline)) void weft_store_past_caches(void *memory, const void *values, int bytes)
{
#if defined(__AVX512F__)
    typedef float lanes __attribute__((vector_size(64), may_alias));
#elif defined(__AVX__)
    typedef float lanes __attribute__((vector_size(32), may_alias));
#else
    typedef float lanes __attribute__((vector_size(16), may_alias));
#endif
    const lanes *const from = values;
    lanes *const to = memory;
    if ((intptr_t)memory & 63) {
        __builtin_memcpy(memory, values, bytes);
        return;
    }
    _Pragma("GCC unroll 16") for (unsigned at = 0; at < bytes / sizeof(lanes); at++) {
#if defined(__clang__)
        __builtin_nontemporal_store(from[at], to + at);
#elif defined(__AVX512F__)
        __builtin_ia32_movntps512((float *)(to + at), from[at]);
#elif defined(__AVX__)
        __builtin_ia32_movntps256((float *)(to + at), from[at]);
#elif defined(__SSE__)
        __builtin_ia32_movntps((float *)(to + at), from[at]);
#else
        to[at] = from[at];
#endif
    }
}

/* Lets others see what went past the caches, before they see what follows. */
static inline void weft_finish_stores(void)
{
#if defined(__SSE__)
    __builtin_ia32_sfence();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Work that threads share: a part of it does the iterations from `first` to before `end`. They claim `chunk` at a time,
   and each has `each` bytes of scratch memory to itself. What a chunk took is noted for the next time. */
typedef void weft_part(const void *of, int64_t first, int64_t end, char *scratch);
typedef struct {
    weft_part *part;
    const void *of;
    int64_t size, chunk;
    char *scratch;
    int64_t each, *took_ns;
} weft_work;

/* What a kernel runs with: scratch memory, and threads of the process's one team, at most so many (`team.h`). */
typedef struct {
    void (*share)(const weft_work *work, int64_t threads, int64_t spin_ns);
    int64_t threads, spin_ns;
    char *scratch;
} weft_run;
