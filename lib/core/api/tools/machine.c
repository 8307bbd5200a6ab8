/* The machine as kolo sees it, for tools. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kolo_tools.h"
#include "api/groups/derive.h"
#include "base/environment.h"
#include "base/sized.h"
#include "base/status.h"
#include "cpu/features.h"
#include "cpu/limits.h"
#include "cpu/topology.h"
#include "reduce/reducer.h"
#include "sync/fence.h"

static void read_shm(kolo_machine *machine) {
    struct statvfs mount;
    if (statvfs("/dev/shm", &mount) < 0)
        return;
    machine->shm_total_bytes = (uint64_t)mount.f_blocks * mount.f_frsize;
    machine->shm_free_bytes = (uint64_t)mount.f_bavail * mount.f_frsize;
}

static int probe_pidfd(void) {
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

int kolo_machine_query(kolo_machine *machine) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_machine, machine_bytes, pidfd);
    const struct kolo_internode_calls *internode = kolo_layers.internode;
    uint32_t mask;
    int rc = kolo_sized_check(&sized, "kolo_machine_query", machine);
    if (rc == 0)
        rc = kolo_cpu_mask_parse(kolo_environment_text(KOLO_VARIABLE_CPU), &mask);
    if (rc < 0)
        return rc;
    kolo_cpu_set allowed;
    kolo_topology topology;
    kolo_cpu_set_allowed(&allowed);
    kolo_topology_read(&topology, &allowed);
    kolo_machine found;
    memset(&found, 0, sizeof found);
    found.cpus_online = topology.cpus_online;
    found.cpus_allowed = kolo_cpu_set_count(&allowed);
    found.quota_millicpus = kolo_quota_read();
    found.numa_nodes = topology.numa_nodes;
    found.l3_domains = topology.l3_domains;
    found.l1d_bytes = topology.l1d_bytes;
    found.l2_bytes = topology.l2_bytes;
    found.l3_bytes = topology.l3_bytes;
    found.memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    found.io_uring = internode ? internode->probe_uring() : -ENOSYS;
    found.membarrier = kolo_fence_register();
    found.pidfd = probe_pidfd();
    found.several_machines = internode != NULL;
    const uint32_t features = kolo_cpu_features();
    kolo_cpu_model(found.cpu_model, sizeof found.cpu_model);
    kolo_cpu_features_format(features, found.isa, sizeof found.isa);
    snprintf(found.kernels, sizeof found.kernels, "%s", kolo_reducer_select(features & mask)->name);
    read_shm(&found);
    kolo_sized_fill(&sized, machine, &found);
    return 0;
}
