/* The CPU time that control groups leave. */
#include "cpu/limits/quota.h"

#include "cpu/limits/cgroup.h"

/* Converts a quota and a period, both in microseconds, to thousandths of a CPU. */
static uint64_t millicpus(int64_t quota_us, int64_t period_us) {
    if (quota_us <= 0 || period_us <= 0 || quota_us > INT64_MAX / 1000)
        return 0;
    const int64_t value = quota_us * 1000 / period_us;
    return value < 1 ? 1 : value > UINT32_MAX ? 0 : (uint64_t)value;
}

static uint64_t limit_v2(const char *directory) {
    int64_t quota_us = 0, period_us = 100000;
    return kolo_cgroup_read(directory, "cpu.max", &quota_us, &period_us) ? millicpus(quota_us, period_us) : 0;
}

static uint64_t limit_v1(const char *directory) {
    int64_t quota_us = 0, period_us = 0, ignored;
    if (!kolo_cgroup_read(directory, "cpu.cfs_quota_us", &quota_us, &ignored) ||
        !kolo_cgroup_read(directory, "cpu.cfs_period_us", &period_us, &ignored))
        return 0;
    return millicpus(quota_us, period_us);
}

uint32_t kolo_quota_read(void) {
    return (uint32_t)kolo_cgroup_tightest("cpu", limit_v2, limit_v1);
}
