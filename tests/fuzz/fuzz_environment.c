/* The environment (base/environment.h, comm/creation/options.h, comm/creation/launcher.h, cpu/levels.h): NAME=value
 * lines. What is let through is a place in a job and settings within their bounds, and a job's name can be no path. */
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "comm/creation/options.h"
#include "fuzz_target.h"
#include "shm/layout.h"

enum { BYTES_MAX = 4096, VARIABLES_MAX = 64 };

static void require_good(const struct kolo_settings *settings) {
    const struct kolo_place *place = &settings->place;
    REQUIRE(place->size >= 1 && place->size <= KOLO_RANKS_MAX && place->rank >= 0 && place->rank < place->size);
    REQUIRE(memchr(place->job, '\0', sizeof place->job));
    for (const char *c = place->job; *c; c++)
        REQUIRE(isalnum((unsigned char)*c) || strchr("._-", *c));
    const struct kolo_net_settings *net = &settings->net;
    REQUIRE(memchr(net->rendezvous, '\0', sizeof net->rendezvous) && (place->size > 1 || !net->rendezvous[0]));
    REQUIRE(place->size == 1 || place->job[0] || settings->shm_fd >= 0 || net->rendezvous[0]);
    REQUIRE(net->lanes >= 1 && net->lanes <= KOLO_LANES_MAX);
    REQUIRE(net->streams >= 1 && net->streams <= KOLO_STREAMS_MAX && net->servers >= 1 && net->silence_ns > 0);
    REQUIRE((unsigned)net->exchange < KOLO_EXCHANGES);
    REQUIRE(!net->rank_order || (net->exchange != KOLO_EXCHANGE_RING && !net->half_on_wire));
    REQUIRE(settings->slot_bytes > 0 && settings->slot_bytes % KOLO_PAGE_BYTES == 0);
    REQUIRE(settings->slot_bytes <= (size_t)1 << 30);
    REQUIRE(settings->timeout_ns >= 0 && settings->create_timeout_ns >= 0);
    REQUIRE((unsigned)settings->algorithm < KOLO_ALGORITHMS);
    for (unsigned i = 0; i < KOLO_LEVELS_MAX && settings->tree_levels[i]; i++) {
        const uint32_t size = settings->tree_levels[i];
        REQUIRE((size & (size - 1)) == 0 && size > (i ? settings->tree_levels[i - 1] : 1));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char text[BYTES_MAX + 1], *variables[VARIABLES_MAX + 1], **outer = environ;
    if (bytes > BYTES_MAX)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    size_t count = 0;
    for (char *line = strtok(text, "\n"); line && count < VARIABLES_MAX; line = strtok(NULL, "\n"))
        variables[count++] = line;
    variables[count] = NULL;
    struct kolo_settings settings;
    environ = variables;
    const int rc = kolo_settings_resolve(&settings, NULL);
    environ = outer;
    REQUIRE(rc == 0 || rc == KOLO_ERR_ARG || rc == KOLO_ERR_UNSUPPORTED);
    if (rc == 0)
        require_good(&settings);
    return 0;
}
