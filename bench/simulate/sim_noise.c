/* SPDX-License-Identifier: Apache-2.0
 */
#include "sim_noise.h"

#include "sim_engine.h"

/* A rank takes 1 to SLOWEST times as long as the fastest; each access is up to SHORT_NS late, and one of RARE by up to
 * LONG_NS: longer than a whole call of a small message. */
enum { SLOWEST = 4, SHORT_NS = 40, LONG_NS = 20000, RARE = 256 };

static struct {
    uint64_t seed;
    uint64_t drawn;
} noise;

void sim_noise_begin(uint64_t seed) {
    noise.seed = seed;
    noise.drawn = 0;
}

/* From 0 to 1, by the splitmix64 generator: a counter, mixed. */
static double draw(uint64_t index) {
    uint64_t mixed = (noise.seed + index) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((mixed ^ mixed >> 31) >> 11) * 0x1p-53;
}

double sim_noise_work_ns(double ns) {
    if (noise.seed == 0)
        return ns;
    return ns * (1 + (SLOWEST - 1) * draw(UINT64_C(1) << 62 | sim_self()));
}

void sim_noise_pause(void) {
    if (noise.seed == 0)
        return;
    const double kind = draw(noise.drawn++), size = draw(noise.drawn++);
    sim_spend(size * (kind * RARE < 1 ? LONG_NS : SHORT_NS));
}
