/* The first part of an assembly: all ranks connect to rank 0, and learn from it which rank is on which node. */
#include "internode/assembly/assembly.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/status.h"
#include "base/wire.h"
#include "comm/creation/rendezvous.h"
#include "sync/point.h"

#define LOOK_UP_NS (200 * KOLO_NS_PER_MS)  /* pause before a name that does not exist is looked up again */
#define RESOLVE_NS (5000 * KOLO_NS_PER_MS) /* time in which a resolver with silent servers returns */
#define LATE_NS    (200 * KOLO_NS_PER_MS)  /* time in which late ranks learn that the creation failed */

/* The boot id says which machine this is. */

static bool read_boot_id(uint8_t boot[16]) {
    char text[64];
    const ssize_t bytes = kolo_file_read("/proc/sys/kernel/random/boot_id", text, sizeof text);
    unsigned digits = 0;
    memset(boot, 0, 16);
    for (ssize_t i = 0; i < bytes && digits < 32; i++) {
        if (!isxdigit((unsigned char)text[i]))
            continue;
        const int value = isdigit((unsigned char)text[i]) ? text[i] - '0' : tolower((unsigned char)text[i]) - 'a' + 10;
        boot[digits / 2] |= (uint8_t)(value << (digits % 2 ? 0 : 4));
        digits++;
    }
    return digits == 32;
}

static struct kolo_node_identity identify(const struct kolo_settings *settings) {
    struct kolo_node_identity identity = {.user = (uint32_t)geteuid()};
    struct stat found;
    const bool inherited = settings->shm_fd >= 0;
    const int rc = inherited ? fstat(settings->shm_fd, &found) : stat(KOLO_JOB_DIRECTORY, &found);
    identity.known = read_boot_id(identity.boot) && rc == 0;
    if (rc == 0) {
        identity.device = (uint64_t)found.st_dev;
        identity.inode = inherited ? (uint64_t)found.st_ino : 0;
    }
    return identity;
}

static bool same_node(const struct kolo_node_identity *a, const struct kolo_node_identity *b) {
    return a->known && b->known && memcmp(a->boot, b->boot, sizeof a->boot) == 0 && a->device == b->device &&
           a->inode == b->inode && a->user == b->user;
}

/* The result. */

/* session and terms are there already. */
static int fill_membership(const struct kolo_assembly *assembly, const uint32_t *groups,
                           struct kolo_membership *membership) {
    const int rc = kolo_nodes_make(&membership->nodes, groups, assembly->size);
    if (rc < 0)
        return rc;
    membership->node = membership->nodes.node_of[assembly->rank];
    snprintf(membership->job, sizeof membership->job, "net-");
    for (int i = 0; i < KOLO_SESSION_BYTES; i++)
        kolo_text_add(membership->job, sizeof membership->job, "%02x", membership->session[i]);
    return 0;
}

static bool leads(const struct kolo_membership *membership, uint32_t rank) {
    return membership->nodes.nodes > 1 &&
           kolo_nodes_rank(&membership->nodes, membership->nodes.node_of[rank], 0) == rank;
}

/* Rank 0's part. */

static int check_limit(struct kolo_assembly *assembly) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > assembly->size + KOLO_LISTENER_PENDING)
        return 0;
    return kolo_assembly_say(assembly, KOLO_ERR_SYSTEM,
                             "a job of %u ranks on several machines needs %u open files here for a while, and this "
                             "process may open %llu: raise it (ulimit -n %u)",
                             assembly->size, assembly->size + KOLO_LISTENER_PENDING, (unsigned long long)files.rlim_cur,
                             2 * assembly->size + KOLO_LISTENER_PENDING);
}

static const char *describe_peer(int fd, char *text) {
    struct kolo_address address;
    return kolo_address_of_peer(fd, &address) < 0 ? "?" : kolo_address_text(&address, text);
}

/* Fails with the reason why a newcomer cannot be one of the missing ranks, or returns 0 if it can be. */
static int check_newcomer(struct kolo_assembly *assembly, int fd, const struct kolo_introduction *who) {
    char text[KOLO_ADDRESS_TEXT_BYTES], other[KOLO_ADDRESS_TEXT_BYTES];
    const char *from = describe_peer(fd, text);
    const struct kolo_place *place = &assembly->settings.place;
    const char *job = place->job_everywhere;
    char theirs[KOLO_RELEASE_TEXT_BYTES], ours[KOLO_RELEASE_TEXT_BYTES];
    if (who->foreign)
        return kolo_assembly_say(assembly, KOLO_ERR_VERSION,
                                 "rank %u (%s) has %s, rank 0 has %s: use one version on all ranks", who->rank, from,
                                 kolo_handshake_release(who->version, who->layout, theirs),
                                 kolo_handshake_release(KOLO_VERSION_WORD, KOLO_WIRE_LAYOUT, ours));
    if (who->size != assembly->size)
        return kolo_assembly_say(assembly, KOLO_ERR_MISMATCH,
                                 "rank %u (%s) was created with size %u, rank 0 with size %u", who->rank, from,
                                 who->size, assembly->size);
    if (strncmp(who->job, job, sizeof who->job) != 0)
        return kolo_assembly_say(
            assembly, KOLO_ERR_MISMATCH,
            "rank %u (%s) is of job '%.*s', rank 0 of job '%s': give each job a KOLO_RENDEZVOUS of its own", who->rank,
            from, (int)sizeof who->job, who->job, job);
    if (who->rank == 0 || who->rank >= assembly->size)
        return kolo_assembly_say(assembly, KOLO_ERR_MISMATCH,
                                 "rank %u came from %s, where only ranks 1 to %u are awaited", who->rank, from,
                                 assembly->size - 1);
    const struct kolo_assembly_peer *before = &assembly->peers[who->rank];
    if (before->fd >= 0 && memcmp(before->session, who->session, sizeof who->session) != 0)
        return kolo_assembly_say(
            assembly, KOLO_ERR_MISMATCH,
            "rank %u came twice, from %s and from %s: every rank of a job needs a number of its own", who->rank,
            describe_peer(before->fd, other), from);
    return 0;
}

/* Returns 1 if one more rank has come. A rank that has not learnt that it was admitted comes again. */
static int admit(void *owner, int fd, const struct kolo_introduction *who) {
    struct kolo_assembly *assembly = owner;
    if (who->role != KOLO_ROLE_JOIN) {
        close(fd);
        return 0;
    }
    const int rc = check_newcomer(assembly, fd, who);
    if (rc < 0) {
        kolo_assembly_turn_away(assembly, fd, rc);
        return rc;
    }
    struct kolo_assembly_peer *peer = &assembly->peers[who->rank];
    const bool is_new = peer->fd < 0;
    kolo_assembly_part(assembly, who->rank);
    peer->fd = fd;
    memcpy(peer->session, who->session, sizeof peer->session);
    KOLO_POINT("assembly.admitted");
    return is_new;
}

static void find_groups(const struct kolo_assembly *assembly, uint32_t *groups) {
    for (uint32_t rank = 0; rank < assembly->size; rank++) {
        uint32_t first = 0;
        while (first < rank && !same_node(&assembly->peers[first].identity, &assembly->peers[rank].identity))
            first++;
        groups[rank] = first;
    }
}

static int send_roster(struct kolo_assembly *assembly, uint32_t rank, const struct kolo_membership *membership) {
    struct kolo_assembly_message message = {.kind = KOLO_MESSAGE_TERMS, .terms = membership->terms};
    memcpy(message.session, membership->session, sizeof message.session);
    int rc = kolo_assembly_send(assembly, rank, &message);
    for (uint32_t first = 0; rc == 0 && first < assembly->size; first += message.count) {
        const uint32_t left = assembly->size - first;
        message = (struct kolo_assembly_message){.kind = KOLO_MESSAGE_ROSTER};
        message.first = first;
        message.count = left < KOLO_MESSAGE_ROSTER_RANKS ? left : KOLO_MESSAGE_ROSTER_RANKS;
        for (uint32_t i = 0; i < message.count; i++)
            message.node_of[i] = (uint16_t)membership->nodes.node_of[first + i];
        rc = kolo_assembly_send(assembly, rank, &message);
    }
    return rc;
}

static void give_up_spare(struct kolo_assembly *assembly) {
    if (assembly->spare >= 0)
        close(assembly->spare);
    assembly->spare = -1;
}

static void close_listener(struct kolo_assembly *assembly) {
    give_up_spare(assembly);
    kolo_listener_close(assembly->listener);
    assembly->listener = NULL;
}

static int gather_all(struct kolo_assembly *assembly, uint32_t *groups, struct kolo_membership *membership) {
    const struct kolo_settings *settings = &assembly->settings;
    struct kolo_address bound = assembly->rendezvous;
    int rc = check_limit(assembly);
    if (assembly->rejoin) {
        assembly->listener = assembly->rejoin->rendezvous;
        assembly->rejoin->rendezvous = NULL;
    }
    if (rc == 0 && !assembly->listener)
        rc = kolo_listener_open(&assembly->listener, &assembly->rendezvous, &assembly->secret, &bound);
    if (rc < 0)
        return rc;
    assembly->spare = kolo_listener_share(assembly->listener);
    kolo_listener_log(assembly->listener, settings->log_level, 0);
    kolo_address_text(&bound, assembly->place);
    kolo_log(settings->log_level, KOLO_LOG_INFO, 0, "awaiting %u ranks at %s", assembly->size - 1, assembly->place);
    rc = kolo_assembly_answer(assembly, assembly->listener, assembly->size - 1, admit, assembly);
    if (rc < 0)
        return rc;
    close_listener(assembly);
    rc = kolo_assembly_serve_until(assembly, KOLO_MESSAGE_IDENTITY, assembly->size - 1);
    if (rc == 0)
        rc = kolo_random_bytes(membership->session, sizeof membership->session);
    if (rc < 0)
        return rc;
    membership->terms =
        (struct kolo_terms){settings->slot_bytes, settings->threads, settings->algorithm, settings->net};
    assembly->peers[0].identity = identify(settings);
    find_groups(assembly, groups);
    KOLO_POINT("assembly.gathered");
    rc = fill_membership(assembly, groups, membership);
    for (uint32_t rank = 1; rc == 0 && rank < assembly->size; rank++) {
        rc = send_roster(assembly, rank, membership);
        assembly->peers[rank].departs = !leads(membership, rank);
        if (rc == 0 && membership->nodes.nodes == 1)
            kolo_assembly_part(assembly, rank);
    }
    return rc;
}

/* Tells ranks that have not come yet that the creation has failed. Without that they would wait in vain. */
static void turn_away_rest(struct kolo_assembly *assembly, int status) {
    const int64_t until_ns = kolo_clock_ns() + LATE_NS;
    struct kolo_introduction who;
    int fd;
    give_up_spare(assembly); /* to accept with, where that is what was missing */
    while (kolo_clock_ns() < until_ns &&
           kolo_listener_accept(assembly->listener, until_ns - kolo_clock_ns(), &fd, &who) == 0)
        kolo_assembly_turn_away(assembly, fd, status);
}

/* The others' part. */

static int connect_to_zero(struct kolo_assembly *assembly) {
    const struct kolo_settings *settings = &assembly->settings;
    struct kolo_connecting wanted = {
        .to = &assembly->rendezvous,
        .secret = &assembly->secret,
        .self = {.role = KOLO_ROLE_JOIN, .rank = assembly->rank, .size = assembly->size},
        .awake = &assembly->awake,
        .deadline_ns = assembly->deadline_ns,
        .is_open = assembly->rejoin != NULL,
        .alert_fd = -1,
    };
    struct kolo_introduction *self = &wanted.self;
    snprintf(self->job, sizeof self->job, "%s", settings->place.job_everywhere);
    int rc = kolo_random_bytes(self->session, sizeof self->session);
    if (rc == 0)
        rc = kolo_connect(&wanted, &assembly->peers[0].fd);
    if (rc == KOLO_ERR_TIMEOUT)
        return kolo_assembly_say(
            assembly, rc, "rank 0 was not reached within %" PRId64 " ms: %s (KOLO_CREATE_TIMEOUT_MS sets the time)",
            settings->create_timeout_ns / KOLO_NS_PER_MS, kolo_error_message());
    if (rc == KOLO_ERR_PEER_DEAD && !assembly->rejoin)
        return kolo_assembly_say(assembly, rc, "rank 0 has ended, or has given up creating the communicator: %s",
                                 kolo_error_message());
    return rc;
}

static int receive_roster(struct kolo_assembly *assembly, uint32_t *groups, struct kolo_membership *membership) {
    struct kolo_assembly_message message;
    int rc = kolo_assembly_await(assembly, KOLO_MESSAGE_TERMS, &message);
    if (rc < 0)
        return rc;
    membership->terms = message.terms;
    memcpy(membership->session, message.session, sizeof message.session);
    for (uint32_t first = 0; first < assembly->size; first += message.count) {
        rc = kolo_assembly_await(assembly, KOLO_MESSAGE_ROSTER, &message);
        if (rc < 0)
            return rc;
        if (message.first != first || message.count > assembly->size - first)
            return kolo_assembly_say(assembly, KOLO_ERR_VERSION, "rank 0 sent a list of nodes that is damaged");
        for (uint32_t i = 0; i < message.count; i++)
            groups[first + i] = message.node_of[i];
    }
    return fill_membership(assembly, groups, membership);
}

static int gather_one(struct kolo_assembly *assembly, uint32_t *groups, struct kolo_membership *membership) {
    const struct kolo_assembly_message message = {.kind = KOLO_MESSAGE_IDENTITY,
                                                  .identity = identify(&assembly->settings)};
    int rc = connect_to_zero(assembly);
    KOLO_POINT("assembly.joined");
    if (rc == 0)
        rc = kolo_assembly_send(assembly, 0, &message);
    if (rc == 0)
        rc = receive_roster(assembly, groups, membership);
    if (rc < 0)
        return rc;
    if (membership->nodes.nodes == 1)
        kolo_assembly_part(assembly, 0);
    KOLO_POINT("assembly.placed");
    return 0;
}

/* Making and closing an assembly. */

/* Where jobs get host names of their own, as in Kubernetes, rank 0's name may exist only once rank 0 runs. */
static int look_up(struct kolo_assembly *assembly) {
    for (;;) {
        const int rc = kolo_address_parse(kolo_environment_name(KOLO_VARIABLE_RENDEZVOUS),
                                          assembly->settings.net.rendezvous, &assembly->rendezvous);
        if (rc != KOLO_ERR_SYSTEM || kolo_awake_after(&assembly->awake, RESOLVE_NS) >= assembly->deadline_ns)
            return rc;
        kolo_clock_sleep(kolo_awake_slice(&assembly->awake, LOOK_UP_NS));
    }
}

static int begin(struct kolo_assembly **result, const struct kolo_settings *settings, struct kolo_rejoin *rejoin) {
    const uint32_t size = (uint32_t)settings->place.size;
    struct kolo_assembly *assembly = calloc(1, sizeof *assembly);
    if (!assembly)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    assembly->settings = *settings;
    assembly->rejoin = rejoin;
    assembly->spare = -1;
    assembly->rank = (uint32_t)settings->place.rank;
    assembly->ended = UINT32_MAX;
    assembly->deadline_ns =
        kolo_awake_begin(&assembly->awake, settings->create_timeout_ns) + settings->create_timeout_ns;
    assembly->peers = calloc(size, sizeof *assembly->peers);
    assembly->polled = calloc(size, sizeof *assembly->polled);
    *result = assembly;
    if (!assembly->peers || !assembly->polled)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", size);
    assembly->size = size;
    for (uint32_t rank = 0; rank < size; rank++)
        assembly->peers[rank].fd = -1;
    const int rc = kolo_secret_read(&assembly->secret);
    return rc < 0 ? rc : look_up(assembly);
}

int kolo_assembly_gather(struct kolo_assembly **result, const struct kolo_settings *settings,
                         struct kolo_rejoin *rejoin, struct kolo_membership *membership) {
    struct kolo_assembly *assembly = NULL;
    *membership = (struct kolo_membership){.node = 0};
    *result = NULL;
    int rc = begin(&assembly, settings, rejoin);
    uint32_t *groups = rc == 0 ? calloc(assembly->size, sizeof *groups) : NULL;
    if (rc == 0 && !groups)
        rc = kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", assembly->size);
    if (rc == 0)
        rc = assembly->rank == 0 ? gather_all(assembly, groups, membership) : gather_one(assembly, groups, membership);
    free(groups);
    if (rc == 0) {
        *result = assembly;
        return 0;
    }
    if (assembly && !assembly->reason[0])
        kolo_assembly_say(assembly, rc, "%s", kolo_error_message());
    kolo_assembly_fail(assembly, rc);
    if (assembly && assembly->listener)
        turn_away_rest(assembly, rc);
    kolo_assembly_close(assembly);
    kolo_nodes_free(&membership->nodes);
    return rc;
}

void kolo_assembly_close(struct kolo_assembly *assembly) {
    if (!assembly)
        return;
    for (uint32_t rank = 0; rank < assembly->size; rank++)
        kolo_assembly_part(assembly, rank);
    close_listener(assembly);
    kolo_secret_forget(&assembly->secret);
    free(assembly->peers);
    free(assembly->polled);
    free(assembly);
}
