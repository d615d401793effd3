#include <stdbool.h>
#include <stdint.h>

/* Nests are compiled apart from what calls them: gcc 12 has been seen to take one that writes for one that does not. */
#if defined(__GNUC__) && !defined(__clang__)
#define WEFT_APART __attribute__((noipa))
#else
#define WEFT_APART __attribute__((noinline))
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
