/* CUDA C++ on the host: threads of a grid one after another, those of a block that wait for each other as fibres. */
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ucontext.h>

#define __global__
#define __launch_bounds__(threads)
#define __syncthreads() weft_wait()
#define weft_await()

struct weft_index { unsigned x; };
static weft_index threadIdx, blockIdx, blockDim;

static const int weft_stack = 1 << 17;
static ucontext_t weft_scheduler, *weft_fibre;

/* Every thread of a block waits as often as any other: who is done and who waits is counted, round by round. */
static int weft_waiting, weft_done;
static void weft_wait()
{
    weft_waiting++;
    swapcontext(weft_fibre, &weft_scheduler);
}

static void (*weft_kernel)(void **);
static void **weft_arguments;
static void weft_start()
{
    weft_kernel(weft_arguments);
    weft_done++;
}

/* A block of so many threads, which take turns from one barrier to the next; false if some wait where others end. */
static bool weft_block(int threads, bool backwards)
{
    ucontext_t *fibres = (ucontext_t *)calloc(threads, sizeof(ucontext_t));
    char *stacks = (char *)malloc((size_t)threads * weft_stack);
    for (int at = 0; at < threads; at++) {
        getcontext(&fibres[at]);
        fibres[at].uc_stack.ss_sp = stacks + (size_t)at * weft_stack;
        fibres[at].uc_stack.ss_size = weft_stack;
        fibres[at].uc_link = &weft_scheduler;
        makecontext(&fibres[at], weft_start, 0);
    }
    bool together = true;
    for (weft_done = 0; weft_done == 0 && together;) {
        weft_waiting = 0;
        for (int turn = 0; turn < threads; turn++) {
            int at = backwards ? threads - 1 - turn : turn;
            threadIdx.x = at, weft_fibre = &fibres[at];
            swapcontext(&weft_scheduler, weft_fibre);
        }
        together = weft_done + weft_waiting == threads && (weft_done == 0 || weft_waiting == 0);
    }
    free(stacks);
    free(fibres);
    return together;
}

extern "C" int weft_launch(void (*kernel)(void **), void **arguments, int programs, int threads, int waits, int backwards)
{
    weft_kernel = kernel, weft_arguments = arguments;
    blockDim.x = threads, blockIdx.x = 0;
    if (waits) return weft_block(threads, backwards);
    for (int64_t turn = 0, all = (int64_t)programs * threads; turn < all; turn++) {
        int64_t at = backwards ? all - 1 - turn : turn;
        blockIdx.x = at / threads, threadIdx.x = at % threads;
        kernel(arguments);
    }
    return 1;
}
