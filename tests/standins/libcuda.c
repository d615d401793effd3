/* A driver without a GPU, with the binary interface of the real one.

Memory is this process's. Nothing is done before it must be: work waits in its stream until somebody synchronizes, as on
a GPU that is slow, so whoever does not wait sees old values. Kernels are "machine code" of the form "PARAMETERS NAME",
and running one calls back. Calls are written down. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE = 100, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
       INVALID_HANDLE = 400, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };
enum { MOST = 4096 };

typedef int (*launched)(const char *name, unsigned programs, unsigned threads, unsigned shared, int count, void **values);

typedef struct { int kind, count; void *to, *from; size_t size; unsigned char value; void *other; } work;
typedef struct { int device; work *queue; size_t done, length, room; } stream;
typedef struct { int device; size_t reserved, used; } pool;
typedef struct { char *image; int device; } module;
typedef struct { char name[128]; int parameters, device, shared; } function;
typedef struct { function *of; unsigned programs, threads, shared; void *values[64]; } node;
typedef struct { node nodes[256]; bool waits[256][256]; int count; } graph;
typedef struct { void *start; size_t size; pool *of; } piece;
typedef struct { stream *of; size_t upto; } event;

static int devices = 1, major = 9, minor = 0, version = 13000, broken;
static size_t memory = 1 << 20, taken;
static launched callback;
static char calls[1 << 20];
static size_t written;
static int contexts[16];
static piece pieces[MOST], pinned[MOST];
static _Thread_local int *current[16];
static _Thread_local int depth;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

enum { FILL, COPY, RUN, FREE, AFTER };

void standin_setup(int count, int first, int second, int of_driver, size_t bytes, launched call)
{
    devices = count, major = first, minor = second, version = of_driver, memory = bytes, callback = call;
    written = 0, calls[0] = 0, broken = 0;
}

const char *standin_calls(void) { return calls; }
void standin_forget(void) { written = 0, calls[0] = 0; }
size_t standin_taken(void) { return taken; }
int standin_depth(void) { return depth; }
void standin_record(int whether) { broken = whether ? broken : -1; }

static void note(const char *name, size_t number)
{
    if (broken == -1) return;
    pthread_mutex_lock(&one_at_a_time);
    if (written < sizeof calls - 256) written += sprintf(calls + written, "%s %zu\n", name, number);
    pthread_mutex_unlock(&one_at_a_time);
}

static int here(void) { return depth ? *current[depth - 1] : -1; }

#define CURRENT(device) do { if (here() < 0 || here() != (device)) return INVALID_CONTEXT; } while (0)

int cuInit(unsigned flags) { return devices ? OK : NO_DEVICE; }
int cuDriverGetVersion(int *found) { return *found = version, OK; }
int cuGetErrorName(int code, const char **text) { return *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER", OK; }
int cuGetErrorString(int code, const char **text) { return *text = code == 2 ? "out of memory" : "something else", OK; }
int cuDeviceGetCount(int *count) { return *count = devices, OK; }
int cuDeviceGet(int *device, int number) { return *device = number, number < devices ? OK : INVALID_VALUE; }
int cuDeviceGetName(char *name, int length, int device) { return snprintf(name, length, "Stand-in %d", device), OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = memory, OK; }
int cuDeviceCanAccessPeer(int *can, int device, int other) { return *can = 1, OK; }

int cuDeviceGetAttribute(int *found, int attribute, int device)
{
    switch (attribute) { /* those of cuda.h; multiprocessors, clocks and memory are an A100's */
    case 13: return *found = 1410000, OK;
    case 16: return *found = 108, OK;
    case 36: return *found = 1593000, OK;
    case 37: return *found = 5120, OK;
    case 38: return *found = 40 << 20, OK;
    case 75: return *found = major, OK;
    case 76: return *found = minor, OK;
    case 97: return *found = 232448, OK;
    }
    return *found = 1, OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    if (memory < 4096) return OUT_OF_MEMORY;
    contexts[device] = device;
    *context = &contexts[device];
    return OK;
}

int cuCtxPushCurrent_v2(void *context) { return depth < 16 ? (current[depth++] = context, OK) : INVALID_CONTEXT; }
int cuCtxPopCurrent_v2(void **context) { return depth ? (*context = current[--depth], OK) : INVALID_CONTEXT; }

int cuMemGetInfo_v2(size_t *free, size_t *total)
{
    return *free = memory - taken, *total = memory, here() < 0 ? INVALID_CONTEXT : OK;
}

/* Streams */

static int finish(stream *on, size_t upto)
{
    int code = OK;
    while (on->done < upto) {
        work one = on->queue[on->done++];
        switch (one.kind) {
        case FILL: memset(one.to, one.value, one.size); break;
        case COPY: memcpy(one.to, one.from, one.size); if (one.other) free(one.other); break;
        case AFTER: finish(one.other, one.size); break;
        case FREE: memset(one.to, 0xdd, one.size); free(one.to); break;
        case RUN: {
            graph *whole = one.other;
            for (int number = 0; callback && number < whole->count && code == OK; number++) {
                node *run = &whole->nodes[number];
                code = callback(run->of->name, run->programs, run->threads, run->shared, run->of->parameters, run->values);
            }
        }
        }
    }
    return code;
}

static int wait(stream *on, work one)
{
    if (on->length == on->room) on->queue = realloc(on->queue, sizeof(work) * (on->room = on->room * 2 + 16));
    on->queue[on->length++] = one;
    return OK;
}

int cuStreamCreate(void **made, unsigned flags)
{
    if (here() < 0) return INVALID_CONTEXT;
    stream *on = calloc(1, sizeof(stream));
    on->device = here();
    return *made = on, flags ? INVALID_VALUE : OK; /* one that waits for the legacy default stream */
}

int cuStreamSynchronize(stream *on) { CURRENT(on->device); return note("synchronize", 0), finish(on, on->length); }
int cuStreamWaitEvent(void *on, void *of, unsigned flags) { return wait(on, (work){.kind = AFTER, .other = ((event *)of)->of, .size = ((event *)of)->upto}); }
int cuEventCreate(void **made, unsigned flags) { return *made = calloc(1, sizeof(event)), OK; }
int cuEventRecord(event *of, stream *on) { return of->of = on, of->upto = on->length, OK; }

/* Memory */

typedef struct { int kind, handles, type, id; } props;

int cuMemPoolCreate(void **made, const props *with)
{
    if (with->kind != 1 || with->type != 1) return INVALID_VALUE;
    pool *new = calloc(1, sizeof(pool));
    new->device = with->id;
    return *made = new, OK;
}

int cuMemPoolSetAttribute(void *of, int attribute, uint64_t *value) { return attribute == 4 && *value == UINT64_MAX ? OK : INVALID_VALUE; }
int cuMemPoolGetAttribute(pool *of, int attribute, uint64_t *value) { return *value = attribute == 5 ? of->reserved : of->used, OK; }
int cuMemPoolSetAccess(void *of, const void *who, size_t count) { return note("access", count), OK; }

int cuMemPoolTrimTo(pool *of, size_t least)
{
    taken -= of->reserved - of->used, of->reserved = of->used;
    return note("trim", least), OK;
}

int cuMemAllocFromPoolAsync(void **made, size_t size, pool *of, stream *on)
{
    CURRENT(on->device);
    if (of->used + size > of->reserved) {
        size_t more = of->used + size - of->reserved;
        if (taken + more > memory) return note("refused", size), OUT_OF_MEMORY;
        of->reserved += more, taken += more;
    }
    of->used += size;
    *made = aligned_alloc(256, (size + 255) / 256 * 256);
    memset(*made, 0xcd, size);
    for (int at = 0; at < MOST; at++)
        if (!pieces[at].start) { pieces[at] = (piece){*made, size, of}; break; }
    return note("allocate", size), OK;
}

static piece *find(piece *some, const void *address)
{
    for (int at = 0; at < MOST; at++)
        if (some[at].start && (char *)address >= (char *)some[at].start && (char *)address < (char *)some[at].start + some[at].size)
            return &some[at];
    return NULL;
}

static int inside(const void *address, size_t size)
{
    piece *one = find(pieces, address);
    return one && (char *)address + size <= (char *)one->start + one->size;
}

int cuMemFreeAsync(void *address, stream *on)
{
    CURRENT(on->device);
    piece *one = find(pieces, address);
    if (!one || one->start != address) return INVALID_VALUE;
    size_t size = one->size;
    one->of->used -= size, one->start = NULL;
    return note("free", size), wait(on, (work){.kind = FREE, .to = address, .size = size});
}

int cuMemHostAlloc(void **made, size_t size, unsigned flags)
{
    *made = calloc(1, size);
    for (int at = 0; at < MOST; at++)
        if (!pinned[at].start) { pinned[at] = (piece){*made, size, NULL}; break; }
    return here() < 0 ? INVALID_CONTEXT : OK;
}

int cuMemFreeHost(void *address)
{
    piece *one = find(pinned, address);
    if (!one) return INVALID_VALUE;
    return one->start = NULL, free(address), OK;
}

int cuMemsetD8Async(void *to, unsigned char value, size_t size, stream *on)
{
    CURRENT(on->device);
    return inside(to, size) ? wait(on, (work){.kind = FILL, .to = to, .value = value, .size = size}) : ILLEGAL_ADDRESS;
}

int cuMemcpyHtoDAsync_v2(void *to, void *from, size_t size, stream *on)
{
    CURRENT(on->device);
    if (!inside(to, size)) return ILLEGAL_ADDRESS;
    void *kept = NULL;
    if (!find(pinned, from)) from = kept = memcpy(malloc(size), from, size); /* staged at once */
    return note("upload", size), wait(on, (work){.kind = COPY, .to = to, .from = from, .size = size, .other = kept});
}

int cuMemcpyDtoHAsync_v2(void *to, void *from, size_t size, stream *on)
{
    CURRENT(on->device);
    if (!inside(from, size)) return ILLEGAL_ADDRESS;
    return note("download", size), wait(on, (work){.kind = COPY, .to = to, .from = from, .size = size});
}

int cuMemcpyDtoDAsync_v2(void *to, void *from, size_t size, stream *on)
{
    CURRENT(on->device);
    if (!inside(from, size) || !inside(to, size)) return ILLEGAL_ADDRESS;
    return note("copy", size), wait(on, (work){.kind = COPY, .to = to, .from = from, .size = size});
}

int cuMemcpyPeerAsync(void *to, void *there, void *from, void *here_, size_t size, stream *on)
{
    CURRENT(on->device);
    if (!inside(from, size) || !inside(to, size) || there == here_) return ILLEGAL_ADDRESS;
    return note("peer", size), wait(on, (work){.kind = COPY, .to = to, .from = from, .size = size});
}

/* Code */

int cuModuleLoadData(void **made, const char *image)
{
    if (here() < 0) return INVALID_CONTEXT;
    if (image[0] < '0' || image[0] > '9') return INVALID_IMAGE;
    module *new = calloc(1, sizeof(module));
    new->image = strdup(image), new->device = here();
    return *made = new, note("load", strlen(image)), OK;
}

int cuModuleGetFunction(void **made, module *of, const char *name)
{
    function *new = calloc(1, sizeof(function));
    sscanf(of->image, "%d %127s", &new->parameters, new->name);
    new->device = of->device;
    return *made = new, strcmp(name, new->name) ? NOT_FOUND : OK;
}

int cuFuncSetAttribute(function *of, int attribute, int value)
{
    if (attribute != 8 || value > 232448) return INVALID_VALUE;
    return of->shared = value, note("shared", value), OK;
}

typedef struct {
    function *of;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra;
    void *kernel, *context;
} kernel_node;

/* A tensor map of the stand-in begins with the address, the sizes, the bytes of a row and the box. */
int cuTensorMapEncodeTiled(uint64_t *made, int type, unsigned rank, void *at, const uint64_t *sizes, const uint64_t *strides,
                           const unsigned *box, const unsigned *steps, int interleaved, int swizzle, int lines, int fill)
{
    if ((uintptr_t)made % 64 || (uintptr_t)at % 16 || strides[0] % 16 || rank != 2 || interleaved || fill) return INVALID_VALUE;
    if (steps[0] != 1 || steps[1] != 1 || !box[0] || !box[1] || box[0] > 256 || box[1] > 256 || !inside(at, 1)) return INVALID_VALUE;
    made[0] = (uint64_t)at, made[1] = sizes[0], made[2] = sizes[1], made[3] = strides[0], made[4] = box[0], made[5] = box[1];
    return note("map", type * 10 + swizzle), OK;
}

int cuGraphCreate(void **made, unsigned flags) { return *made = calloc(1, sizeof(graph)), flags ? INVALID_VALUE : OK; }

int cuGraphAddKernelNode_v2(void **made, graph *to, void **after, size_t count, const kernel_node *with)
{
    if (to->count == 256 || with->extra || with->kernel || with->context || after || count) return INVALID_VALUE;
    if (with->shared > (with->of->shared ? with->of->shared : 49152)) return INVALID_VALUE;
    CURRENT(with->of->device);
    node *new = &to->nodes[to->count++];
    *new = (node){.of = with->of, .programs = with->grid[0], .threads = with->block[0], .shared = with->shared};
    if (with->grid[1] != 1 || with->grid[2] != 1 || with->block[1] != 1 || with->block[2] != 1) return INVALID_VALUE;
    for (int at = 0; at < with->of->parameters; at++) new->values[at] = *(void **)with->parameters[at];
    return *made = new, OK;
}

typedef struct { unsigned char from_port, to_port, type, reserved[5]; } edge;

/* Programmatic edges are there for kernels of Hopper's and later, and go from the port that is for them. */
int cuGraphAddDependencies_v2(graph *to, void **from, void **after, const edge *kinds, size_t count)
{
    size_t programmatic = 0;
    for (size_t at = 0; at < count; at++) {
        const ptrdiff_t first = (node *)from[at] - to->nodes, second = (node *)after[at] - to->nodes;
        if (first < 0 || first >= to->count || second < 0 || second >= to->count || to->waits[second][first]) return INVALID_VALUE;
        if (kinds[at].to_port || kinds[at].type > 1 || kinds[at].from_port != kinds[at].type || (kinds[at].type && major < 9)) return INVALID_VALUE;
        to->waits[second][first] = true, programmatic += kinds[at].type;
    }
    return note("programmatic", programmatic), OK;
}

int cuGraphInstantiateWithFlags(void **made, const graph *of, uint64_t flags)
{
    graph *copy = malloc(sizeof(graph));
    bool done[256] = {false};
    *copy = *of;
    /* Kernels run in the order that is least like the one they came in: the last that waits for nothing comes next. */
    for (int place = 0; place < of->count; place++) {
        int next = of->count - 1;
        for (bool ready = false; !ready; next -= !ready) {
            ready = !done[next];
            for (int before = 0; before < of->count; before++) ready &= !of->waits[next][before] || done[before];
        }
        done[next] = true;
        copy->nodes[place] = of->nodes[next];
    }
    return *made = copy, note("instantiate", of->count), flags ? INVALID_VALUE : OK;
}

int cuGraphUpload(void *of, stream *on) { CURRENT(on->device); return note("upload graph", 0), OK; }
int cuGraphLaunch(void *of, stream *on) { CURRENT(on->device); return note("launch", ((graph *)of)->count), wait(on, (work){.kind = RUN, .other = of}); }
int cuGraphDestroy(void *of) { return free(of), OK; }
int cuGraphExecDestroy(void *of) { return note("destroy", 0), free(of), OK; }
