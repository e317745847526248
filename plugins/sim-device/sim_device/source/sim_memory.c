/* The device's memory: one reserved range, handed out in blocks at addresses that no processor follows. */
#define _GNU_SOURCE
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GRAIN = 512, GUARD = 64, RUBBISH = 0xA5 };

static const int64_t SIZE = 1 << 30;
/* Bits 48 and up of an address repeat bit 47 (x86) or are 0 (Arm, but for the highest 8). */
static const uint64_t SHIFT = 0x00A5000000000000u;

typedef struct block {
    struct block *next; /* by address */
    char *start;        /* a multiple of GRAIN */
    char *pointer;      /* as handed out, mapped */
    int64_t bytes;      /* asked for */
    int64_t extent;     /* with its guard, a multiple of GRAIN */
    int32_t is_pinned;
    int32_t owners;
} block;

static char *base;
static block *blocks, *pinned; /* of the device; of the host */
static int64_t used;           /* how much of the range has ever been handed out */
static int32_t open_depth;

static int32_t reserve(void) {
    if (base) return SIM_OK;
    void *range = mmap(NULL, (size_t)SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return SIM_NO_MEMORY;
    base = range;
    return SIM_OK;
}

static void protect(int protection) {
    if (base && used && mprotect(base, (size_t)used, protection)) abort();
}

void sim_open_memory(void) {
    if (!open_depth++) protect(PROT_READ | PROT_WRITE);
}

void sim_close_memory(void) {
    if (!--open_depth) protect(PROT_NONE);
}

void *sim_mapped(const void *pointer) {
    return pointer ? (void *)((uintptr_t)pointer ^ (uintptr_t)SHIFT) : NULL;
}

static void *hidden(const void *mapped) { return sim_mapped(mapped); }

int32_t sim_is_on_device(const void *pointer) {
    const uintptr_t address = (uintptr_t)sim_mapped(pointer);
    return base && address >= (uintptr_t)base && address < (uintptr_t)base + (uintptr_t)SIZE;
}

static int32_t lies_in(const block *list, const void *mapped, int64_t bytes) {
    const char *at = mapped;
    for (const block *b = list; b; b = b->next)
        if (at >= b->pointer && bytes >= 0 && at + bytes <= b->pointer + b->bytes) return 1;
    return 0;
}

int32_t sim_holds(const void *pointer, int64_t bytes) {
    return sim_is_on_device(pointer) && lies_in(blocks, sim_mapped(pointer), bytes);
}

int32_t sim_is_pinned(const void *pointer, int64_t bytes) { return lies_in(pinned, pointer, bytes); }

static void count(const block *b, int64_t change) {
    sim_counters *c = &sim_device.counters;
    if (b->is_pinned) c->pinned_blocks += change;
    else c->blocks += change, c->block_bytes += change * b->bytes;
    if (change < 0) return;
    c->allocations++;
    c->allocations_in_steps += sim_device.steps > 0;
}

/* The first gap of `extent` bytes, and the link of the list where it belongs. */
static char *find_gap(int64_t extent, block ***link) {
    char *at = base;
    for (*link = &blocks; **link; *link = &(**link)->next) {
        if ((**link)->start - at >= extent) return at;
        at = (**link)->start + (**link)->extent;
    }
    const int64_t limit = sim_device.capacity && sim_device.capacity < SIZE ? sim_device.capacity : SIZE;
    return at + extent <= base + limit ? at : NULL;
}

static void fill(const block *b) {
    sim_open_memory();
    memset(b->start, RUBBISH, (size_t)b->extent);
    sim_close_memory();
}

static int32_t place(block *b) {
    block **link;
    b->start = find_gap(b->extent, &link);
    if (!b->start) return SIM_NO_MEMORY;
    b->pointer = b->start + sim_device.misalignment;
    b->next = *link;
    *link = b;
    const int64_t end = b->start + b->extent - base;
    if (end > used) {
        if (open_depth && mprotect(base + used, (size_t)(end - used), PROT_READ | PROT_WRITE)) abort();
        used = end;
    }
    fill(b);
    return SIM_OK;
}

static int32_t is_overrun(const block *b) {
    int32_t changed = 0;
    sim_open_memory();
    for (const char *at = b->pointer + b->bytes; at < b->start + b->extent; at++)
        changed |= *(const unsigned char *)at != RUBBISH;
    sim_close_memory();
    return changed;
}

int32_t sim_allocate(int64_t bytes, void **out) {
    sim_lock();
    int32_t code = sim_enter("allocate");
    if (code == SIM_OK && (bytes < 0 || bytes > SIZE)) code = bytes < 0 ? SIM_INVALID : SIM_NO_MEMORY;
    if (code == SIM_OK) code = reserve();
    block *b = code == SIM_OK ? calloc(1, sizeof *b) : NULL;
    if (code == SIM_OK && !b) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        b->bytes = bytes;
        b->owners = 1;
        b->extent = (bytes + sim_device.misalignment + GUARD + GRAIN - 1) / GRAIN * GRAIN;
        code = place(b);
    }
    if (code == SIM_OK) {
        count(b, 1);
        *out = hidden(b->pointer);
    } else free(b);
    sim_unlock();
    return code;
}

int32_t sim_allocate_pinned(int64_t bytes, void **out) {
    sim_lock();
    int32_t code = sim_enter("pinned");
    if (code == SIM_OK && bytes < 0) code = SIM_INVALID;
    block *b = code == SIM_OK ? calloc(1, sizeof *b) : NULL;
    if (b && posix_memalign((void **)&b->start, SIM_ALIGNMENT, (size_t)bytes + SIM_ALIGNMENT))
        b->start = NULL;
    if (code == SIM_OK && (!b || !b->start)) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        b->pointer = b->start + sim_device.misalignment % SIM_ALIGNMENT;
        b->bytes = bytes;
        b->is_pinned = b->owners = 1;
        b->next = pinned;
        pinned = b;
        count(b, 1);
        *out = b->pointer;
    } else free(b);
    sim_unlock();
    return code;
}

/* The link to the block of a mapped pointer; it points to NULL if there is none. */
static block **link_to(block **list, const void *mapped) {
    while (*list && (*list)->pointer != mapped) list = &(*list)->next;
    return list;
}

static void free_block(block *b) {
    count(b, -1);
    if (b->is_pinned) free(b->start);
    else {
        sim_device.counters.overruns += is_overrun(b);
        fill(b);
    }
    free(b);
}

/* Memory is also given back after the device is lost. */
static int32_t give_back(block **list, const void *mapped) {
    if (!mapped) return SIM_OK;
    sim_lock();
    block **link = link_to(list, mapped), *b = *link;
    if (b && !--b->owners) {
        *link = b->next;
        free_block(b);
    }
    sim_unlock();
    return b ? SIM_OK : SIM_INVALID;
}

int32_t sim_retain(void *pointer) {
    sim_lock();
    block *b = *link_to(&blocks, sim_mapped(pointer));
    if (b) b->owners++;
    sim_unlock();
    return b ? SIM_OK : SIM_INVALID;
}

int32_t sim_deallocate(void *pointer) { return give_back(&blocks, sim_mapped(pointer)); }

int32_t sim_deallocate_pinned(void *pointer) { return give_back(&pinned, pointer); }
