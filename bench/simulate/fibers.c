#include "fibers.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

/* A stack that grows too far faults in what lies before it: a page or more, whatever a page's size is. */
enum { GUARD_BYTES = 64 << 10, STACK_BYTES = 256 << 10, STRIDE_BYTES = GUARD_BYTES + STACK_BYTES };

static struct {
    uint32_t reserved; /* contexts and stacks */
    ucontext_t *contexts;
    uint8_t *stacks;
    ucontext_t outside;
    uint32_t running;
    void (*body)(uint32_t fiber);
} fibers = {.running = FIBER_NONE};

static int reserve(uint32_t count) {
    if (count <= fibers.reserved)
        return 0;
    ucontext_t *contexts = realloc(fibers.contexts, count * sizeof *contexts);
    if (contexts == NULL)
        return -1;
    fibers.contexts = contexts;
    uint8_t *stacks = mmap(NULL, count * (size_t)STRIDE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        mprotect(stacks + i * (size_t)STRIDE_BYTES, GUARD_BYTES, PROT_NONE);
    if (fibers.stacks != NULL)
        munmap(fibers.stacks, fibers.reserved * (size_t)STRIDE_BYTES);
    fibers.stacks = stacks;
    fibers.reserved = count;
    return 0;
}

static void begin(void) {
    fibers.body(fibers.running);
    abort();
}

static void prepare(ucontext_t *context, uint8_t *stack) {
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = NULL;
    makecontext(context, begin, 0);
}

int fibers_create(uint32_t count, void (*body)(uint32_t fiber)) {
    if (reserve(count) != 0)
        return -1;
    fibers.body = body;
    for (uint32_t i = 0; i < count; i++)
        prepare(&fibers.contexts[i], fibers.stacks + i * (size_t)STRIDE_BYTES + GUARD_BYTES);
    return 0;
}

uint32_t fiber_running(void) {
    return fibers.running;
}

static ucontext_t *context_of(uint32_t fiber) {
    return fiber == FIBER_NONE ? &fibers.outside : &fibers.contexts[fiber];
}

void fiber_switch(uint32_t to) {
    const uint32_t from = fibers.running;
    if (to == from)
        return;
    fibers.running = to;
    swapcontext(context_of(from), context_of(to));
}
