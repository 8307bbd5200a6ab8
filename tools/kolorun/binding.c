/* From what this process may use and what other jobs hold to the CPUs of each rank. */
#include "binding.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/limits.h"
#include "messages.h"

/* How many ranks could run at once: CPUs, of which a control group's quota may leave less. */
static uint32_t processors(const kolo_topology *topology) {
    const uint32_t cpus = kolo_cpu_set_count(&topology->allowed);
    const uint32_t quota = (kolo_quota_read() + 999) / 1000;
    return quota > 0 && quota < cpus ? quota : cpus;
}

/* Returns false where the ranks are better not bound: there are more of them than processors, or one has all CPUs. */
static bool place(kolo_cpu_set *rank_cpus, uint32_t ranks, enum bind_mode mode, const kolo_topology *topology) {
    kolo_cpu_set held = {{0}}, open;
    if (mode == BIND_AUTO && ranks > processors(topology))
        return false;
    if (ranks < kolo_cpu_set_count(&topology->allowed)) /* otherwise they need all, whoever else runs there */
        neighbours_cpus(&held, &topology->allowed, "/proc", getpid());
    placement_open(&open, topology, &held, ranks);
    return placement_choose(rank_cpus, ranks, mode == BIND_CORE, topology, &open) &&
           (mode == BIND_CORE || memcmp(&rank_cpus[0], &topology->allowed, sizeof open) != 0);
}

int binding_choose(struct binding *binding, int ranks, enum bind_mode mode) {
    kolo_cpu_set allowed;
    kolo_topology topology;
    *binding = (struct binding){.lock_fd = -1};
    if (mode == BIND_NONE)
        return 0;
    kolo_cpu_set_allowed(&allowed);
    kolo_topology_read(&topology, &allowed);
    binding->cpus = kolo_cpu_set_count(&allowed);
    binding->ranks = calloc((size_t)ranks, sizeof *binding->ranks);
    if (binding->ranks == NULL)
        return -ENOMEM;
    binding->lock_fd = neighbours_lock();
    if (place(binding->ranks, (uint32_t)ranks, mode, &topology))
        return 0;
    binding_close(binding);
    return mode == BIND_CORE ? -ERANGE : 0;
}

void binding_settle(struct binding *binding) {
    if (binding->lock_fd >= 0)
        close(binding->lock_fd);
    binding->lock_fd = -1;
}

void binding_close(struct binding *binding) {
    binding_settle(binding);
    free(binding->ranks);
    binding->ranks = NULL;
}

int binding_apply(const kolo_cpu_set *cpus) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    _Static_assert(sizeof mask * 8 >= KOLO_CPUS_MAX, "the mask has room for all CPUs");
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        if (kolo_cpu_set_has(cpus, cpu))
            CPU_SET(cpu, &mask);
    return sched_setaffinity(0, sizeof mask, &mask) == 0 ? 0 : -errno;
}

void binding_report(const kolo_cpu_set *cpus, int number, pid_t pid) {
    char host[64] = "this machine", list[400];
    bool listed[KOLO_CPUS_MAX];
    kolo_cpu_set allowed;
    (void)gethostname(host, sizeof host - 1);
    kolo_cpu_set_allowed(&allowed);
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        listed[cpu] = kolo_cpu_set_has(cpus != NULL ? cpus : &allowed, cpu);
    message_list_format(list, sizeof list, "CPU", listed, KOLO_CPUS_MAX, 0);
    message_print("rank %d on %s, pid %d: %s %s", number, host, (int)pid, cpus != NULL ? "bound to" : "not bound,",
                  list);
}
