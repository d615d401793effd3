/* The team: threads of this process that share the iterations of loops.

   A caller opens a round with a seat for every thread that may join it, and works itself. Whoever has a seat claims a
   chunk, works on it and claims the next: a thread whose core is busy elsewhere keeps nobody waiting but for the chunk
   it is at. When all are claimed the round is closed, and only those who have a seat are waited for. There is one round
   at a time: a second caller works alone. Threads look for the next round for a while, then they sleep.

   The caller claims chunks from the front, the others from the back: a core finds in its cache what it had of the same
   cells in the round before, though nobody is bound to any chunk.

   Two threads of a round that the system put on one processor stay there, each at half its speed, for as long as a
   second, though another one is free: so who takes a seat and finds somebody of the round on its processor moves to one
   that it may run on and where nobody of the round is. It may run on as many as before afterwards.

   They are started when they are first needed, and again after a fork. Where none can be started callers work alone.
   Nobody waits for them at the end of the process: between rounds they touch nothing but what stands here. All of it is
   waiting and counting, which no optimisation makes faster. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("Og")
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
extern int sched_getcpu(void);
#endif

#if defined(__x86_64__) || defined(__i386__)
#define WEFT_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define WEFT_PAUSE() __asm__ volatile("yield")
#else
#define WEFT_PAUSE() sched_yield()
#endif

enum {
    weft_seats = 0xffff,       /* these bits of the gate count seats, those above count rounds */
    weft_looks = 32,           /* so many between two looks at the clock */
    weft_worth_waking = 100000, /* nanoseconds of work, of this round and others since, that sleepers did not share */
    weft_stack = 1 << 20,
    weft_processors = 1024,     /* those beyond are as good as any */
    weft_word = 64,
    weft_half = 32
};

static struct {
    _Alignas(64) _Atomic uint64_t gate;
    _Alignas(64) _Atomic uint64_t claimed; /* chunks from the front, and those from the back above `weft_half` bits */
    _Alignas(64) _Atomic int64_t left; /* threads that had a seat and are done */
    _Atomic bool waiting;              /* does the caller sleep until they are? */
    _Alignas(64) _Atomic bool taken;   /* is there a round? */
    _Atomic uint64_t used_in[weft_processors]; /* the last round that somebody worked in on a processor */
    _Atomic int64_t asleep, spin_ns;
    weft_work work;
    int64_t workers, missed_ns;
    bool refused, heeds_forks;
    pthread_mutex_t lock;
    pthread_cond_t opened, done;
} weft_team = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static int64_t weft_now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

#define WEFT_SPIN_UNTIL(holds)                                                                                         \
    for (int64_t at = weft_now(), end = at + atomic_load(&weft_team.spin_ns); !(holds) && at < end; at = weft_now())   \
        for (int look = 0; look < weft_looks && !(holds); look++) WEFT_PAUSE();

static uint64_t weft_round(uint64_t gate) { return gate >> 16; }

static bool weft_is_new(uint64_t seen)
{
    const uint64_t gate = atomic_load(&weft_team.gate);
    return gate & weft_seats && weft_round(gate) != seen;
}

/* Wait for a round other than the one seen. */
static uint64_t weft_await(uint64_t seen)
{
    WEFT_SPIN_UNTIL(weft_is_new(seen))
    if (!weft_is_new(seen)) {
        pthread_mutex_lock(&weft_team.lock);
        atomic_fetch_add(&weft_team.asleep, 1);
        while (!weft_is_new(seen)) pthread_cond_wait(&weft_team.opened, &weft_team.lock);
        atomic_fetch_sub(&weft_team.asleep, 1);
        pthread_mutex_unlock(&weft_team.lock);
    }
    return atomic_load(&weft_team.gate);
}

/* Take a seat of the round that a gate shows: its number, 0 where none is left or the round is over. */
static int64_t weft_seat(uint64_t gate)
{
    const uint64_t round = weft_round(gate);
    while (gate & weft_seats && weft_round(gate) == round)
        if (atomic_compare_exchange_weak(&weft_team.gate, &gate, gate - 1)) return gate & weft_seats;
    return 0;
}

#if defined(__linux__)
/* Work in a round on this processor; false where somebody else does. */
static bool weft_settle(uint64_t round)
{
    const int here = sched_getcpu();
    return here < 0 || here >= weft_processors || atomic_exchange(&weft_team.used_in[here], round) != round;
}

/* Go to a processor that this thread may run on and where nobody works in a round, if there is one. */
static WEFT_SELDOM void weft_move(uint64_t round)
{
    uint64_t may[weft_processors / weft_word] = {0}, idle[weft_processors / weft_word] = {0}, any = 0;
    if (syscall(SYS_sched_getaffinity, 0, sizeof may, may) <= 0) return;
    for (int at = 0; at < weft_processors; at++) {
        const uint64_t bit = may[at / weft_word] & (uint64_t)1 << at % weft_word;
        if (bit && atomic_load(&weft_team.used_in[at]) != round) any |= idle[at / weft_word] |= bit;
    }
    if (!any || syscall(SYS_sched_setaffinity, 0, sizeof idle, idle)) return;
    weft_settle(round);
    syscall(SYS_sched_setaffinity, 0, sizeof may, may);
}
#else
static bool weft_settle(uint64_t round) { return round > 0; }
static void weft_move(uint64_t round) { (void)round; }
#endif

static int64_t weft_chunks(const weft_work *work) { return (work->size + work->chunk - 1) / work->chunk; }

/* How many chunks are left where so many are claimed. */
static int64_t weft_unclaimed(const weft_work *work, uint64_t claimed)
{
    const int64_t left = weft_chunks(work) - (int64_t)(claimed & UINT32_MAX) - (int64_t)(claimed >> weft_half);
    return left > 0 ? left : 0;
}

/* Claim a chunk, from the front or from the back, and work on it; false where none is left. */
static bool weft_claim(const weft_work *work, char *scratch, bool front)
{
    const uint64_t one = front ? 1 : (uint64_t)1 << weft_half;
    const uint64_t claimed = atomic_fetch_add_explicit(&weft_team.claimed, one, memory_order_relaxed);
    if (!weft_unclaimed(work, claimed)) return false;
    const int64_t at = front ? (int64_t)(claimed & UINT32_MAX) : weft_chunks(work) - 1 - (int64_t)(claimed >> weft_half);
    const int64_t first = at * work->chunk;
    work->part(work->of, first, work->size - first < work->chunk ? work->size : first + work->chunk, scratch);
    return true;
}

static void *weft_worker(void *unused)
{
    for (uint64_t seen = 0;;) {
        const uint64_t gate = weft_await(seen);
        const int64_t seat = weft_seat(gate);
        seen = weft_round(gate);
        if (!seat) continue;
        if (!weft_settle(seen)) weft_move(seen);
        char *const scratch = weft_team.work.scratch + seat * weft_team.work.each;
        while (weft_claim(&weft_team.work, scratch, false)) {}
        atomic_fetch_add(&weft_team.left, 1);
        if (atomic_load(&weft_team.waiting)) {
            pthread_mutex_lock(&weft_team.lock);
            pthread_cond_signal(&weft_team.done);
            pthread_mutex_unlock(&weft_team.lock);
        }
    }
    return unused;
}

/* A child has none of the threads, and nobody is in the middle of a round but whoever forked, who never is. */
static WEFT_SELDOM void weft_forked(void)
{
    weft_team.gate = weft_team.claimed = weft_team.left = weft_team.asleep = weft_team.workers = 0;
    weft_team.waiting = weft_team.taken = weft_team.refused = false;
    for (int at = 0; at < weft_processors; at++) weft_team.used_in[at] = 0;
    pthread_mutex_init(&weft_team.lock, 0);
    pthread_cond_init(&weft_team.opened, 0);
    pthread_cond_init(&weft_team.done, 0);
}

/* Start threads until there are so many; they leave signals to others. */
static WEFT_SELDOM void weft_start(int64_t wanted)
{
    sigset_t all, before;
    pthread_attr_t how;
    pthread_t started;
    if (!weft_team.heeds_forks) weft_team.refused = pthread_atfork(0, 0, weft_forked) != 0;
    weft_team.heeds_forks = true;
    if (weft_team.refused || pthread_attr_init(&how)) return;
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, weft_stack);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (weft_team.workers < wanted && !weft_team.refused) {
        weft_team.refused = pthread_create(&started, &how, weft_worker, 0) != 0;
        weft_team.workers += !weft_team.refused;
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
    pthread_attr_destroy(&how);
}

/* Wake as many sleepers as there is work for. */
static void weft_wake(int64_t wanted)
{
    pthread_mutex_lock(&weft_team.lock);
    if (wanted >= atomic_load(&weft_team.asleep)) pthread_cond_broadcast(&weft_team.opened);
    else
        while (wanted--) pthread_cond_signal(&weft_team.opened);
    pthread_mutex_unlock(&weft_team.lock);
}

/* The caller's own part. Sleepers are woken first where the chunks that they could do took longer than waking them takes
   when such work was last done without them; else after its first chunk, once they missed that much. */
static void weft_take_part(const weft_work *work)
{
    if (atomic_load(&weft_team.asleep)) {
        const int64_t others = weft_chunks(work) - 1, begun = weft_now();
        const bool long_enough = *work->took_ns * others > weft_worth_waking;
        if (long_enough) weft_wake(others);
        const int64_t started = long_enough ? weft_now() : begun;
        if (!weft_claim(work, work->scratch, true)) return;
        *work->took_ns = weft_now() - started;
        const int64_t left = weft_unclaimed(work, atomic_load(&weft_team.claimed));
        weft_team.missed_ns = long_enough ? 0 : weft_team.missed_ns + *work->took_ns * left;
        if (left > 0 && weft_team.missed_ns > weft_worth_waking) {
            weft_team.missed_ns = 0;
            weft_wake(left);
        }
    }
    while (weft_claim(work, work->scratch, true)) {}
}

/* Wait until those are done who had a seat, so many. */
static void weft_join(int64_t seated)
{
    WEFT_SPIN_UNTIL(atomic_load(&weft_team.left) == seated)
    if (atomic_load(&weft_team.left) == seated) return;
    pthread_mutex_lock(&weft_team.lock);
    atomic_store(&weft_team.waiting, true);
    while (atomic_load(&weft_team.left) != seated) pthread_cond_wait(&weft_team.done, &weft_team.lock);
    atomic_store(&weft_team.waiting, false);
    pthread_mutex_unlock(&weft_team.lock);
}

/* Do some work on at most so many threads, the calling one among them. */
void weft_share(const weft_work *work, int64_t threads, int64_t spin_ns)
{
    const int64_t chunks = weft_chunks(work);
    const bool alone = threads < 2 || chunks < 2 || chunks > INT32_MAX;
    if (alone || atomic_exchange(&weft_team.taken, true)) {
        work->part(work->of, 0, work->size, work->scratch);
        return;
    }
    const int64_t others = (threads < chunks ? threads : chunks) - 1;
    if (weft_team.workers < others && !weft_team.refused) weft_start(others);
    weft_team.work = *work;
    atomic_store(&weft_team.spin_ns, spin_ns);
    atomic_store(&weft_team.left, 0);
    atomic_store(&weft_team.claimed, 0);
    const uint64_t round = weft_round(atomic_load(&weft_team.gate)) + 1;
    weft_settle(round);
    atomic_store(&weft_team.gate, round << 16 | others);
    weft_take_part(work);
    weft_join(others - (atomic_fetch_and(&weft_team.gate, ~(uint64_t)weft_seats) & weft_seats));
    atomic_store(&weft_team.taken, false);
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
