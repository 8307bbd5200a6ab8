/* Shares words, files and statuses among the ranks within a call. */
#include "api/sharing.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/arguments.h"
#include "api/requests/queue.h"
#include "comm/step/progress.h"
#include "comm/creation/create.h"
#include "shm/memory_file.h"

enum { STATUSES = -KOLO_ERR_STATE + 1 };

int kolo_shared_call_begin(const char *function, kolo_comm *comm, struct kolo_call_key key) {
    int rc = kolo_get_ready(function, comm);
    if (rc == 0)
        rc = kolo_enter(function, comm);
    if (rc < 0)
        return rc;
    comm->stats.calls_by_collective[key.collective - 1]++;
    if (comm->global_size > 1)
        kolo_call_begin(comm, key);
    return 0;
}

void kolo_shared_call_leave(kolo_comm *comm) {
    if (comm->global_size > 1)
        kolo_call_leave(comm);
    kolo_leave(comm);
}

int kolo_words_gather(kolo_comm *comm, const uint64_t *own, uint64_t *words) {
    const kolo_kernel *kernel = &comm->reducer->kernels[KOLO_U64][KOLO_SUM];
    const struct kolo_message message = {
        .send = (const uint8_t *)own, .recv = (uint8_t *)words, .count = 1, .kernel = kernel};
    words[0] = *own;
    return comm->nodes      ? comm->above->internode->run(comm, &kolo_registry[KOLO_ALLGATHER], &message)
           : comm->size > 1 ? kolo_allgather_lines(comm, own, words, 1, kernel, 0)
                            : 0;
}

/* Like kolo_words_reduce, over the ranks of this node. */
static int reduce_on_node(kolo_comm *comm, kolo_op op, const uint64_t *words, uint64_t *results, size_t count) {
    const size_t most = kolo_lines_bytes_max(comm->size) / sizeof *words;
    int rc = 0;
    if (comm->size == 1)
        memmove(results, words, count * sizeof *words);
    for (size_t done = 0; rc == 0 && comm->size > 1 && done < count; done += most)
        rc = kolo_oneshot_lines(comm, words + done, results + done, count - done < most ? count - done : most,
                                &comm->reducer->kernels[KOLO_U64][op], 0);
    return rc;
}

int kolo_words_reduce(kolo_comm *comm, kolo_op op, const uint64_t *words, uint64_t *results, size_t count) {
    const struct kolo_message message = {.send = (const uint8_t *)words,
                                         .recv = (uint8_t *)results,
                                         .count = count,
                                         .kernel = &comm->reducer->kernels[KOLO_U64][op]};
    return comm->nodes ? comm->above->internode->run(comm, &kolo_registry[KOLO_ALLREDUCE], &message)
                       : reduce_on_node(comm, op, words, results, count);
}

/* A giver's offer to the others: its file. */
struct offer {
    uint64_t status; /* why there is none, negated; 0: there is one */
    uint64_t secret; /* see shm/memory_file.h */
    uint64_t rank;
    uint64_t user;
    struct kolo_memory_file file;
};

/* The giver sends the file to the ranks that listen. Those ranks report failures. */
static void give_file(const kolo_comm *comm, const uint64_t *takers, const uint64_t *listening, uint64_t secret,
                      int fd) {
    const struct kolo_shared_member *members = comm->segment.members;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const struct kolo_shared_process *process = &members[rank].process;
        const bool is_known = kolo_liveness_knows_pid(process, comm->liveness.own_namespace);
        if (kolo_ranks_have(listening, rank) && kolo_ranks_have(takers, rank))
            kolo_handover_give(secret, rank, is_known ? process->pid : 0, fd);
    }
}

/* Every taker opens its giver's file, or gets it through a socket. */
static int take_files(kolo_comm *comm, const struct kolo_handing *handing, const struct offer *offer, int *fd) {
    uint64_t own[KOLO_RANK_WORDS] = {0}, listening[KOLO_RANK_WORDS];
    int listener = -1;
    const bool takes = offer && !handing->gives && offer->status == 0;
    if (takes)
        *fd = kolo_memory_file_open(&offer->file, O_RDWR);
    const int opened = *fd;
    if (takes && opened < 0) /* the giver can hand it over there */
        listener = kolo_handover_listen(offer->secret, comm->rank);
    if (listener >= 0)
        kolo_ranks_add(own, comm->rank);
    KOLO_POINT("share.opened");
    int rc = reduce_on_node(comm, KOLO_SUM, own, listening, KOLO_RANK_WORDS);
    if (rc == 0 && kolo_ranks_count_below(listening, comm->size) > 0) {
        if (handing->gives && *fd >= 0)
            give_file(comm, handing->takers, listening, offer->secret, *fd);
        KOLO_POINT("share.given");
        rc = reduce_on_node(comm, KOLO_SUM, own, listening, 1);
    }
    if (listener >= 0)
        listener = *fd = kolo_handover_take(listener, (uint32_t)offer->user, &offer->file);
    if (rc == 0 && takes && *fd < 0)
        *fd = kolo_fail_system(-opened,
                               "rank %u: %s: rank %u's memory can be had neither by a socket (%s; this takes one "
                               "network namespace) nor as /proc/%" PRIu64 "/fd/%" PRIu64,
                               comm->global_rank, handing->function, kolo_rank_global(comm, (uint32_t)offer->rank),
                               strerror(-listener), offer->file.pid, offer->file.fd);
    return rc;
}

/* Tells all ranks the offer of each giver. */
static int exchange_offers(kolo_comm *comm, const struct kolo_handing *handing, int fd, struct offer *own,
                           struct offer *offers) {
    if (handing->gives) {
        struct offer *offer = &own[handing->giver];
        offer->rank = comm->rank;
        offer->user = geteuid();
        offer->status = fd < 0 ? (uint64_t)-fd : 0;
        offer->secret = kolo_random_number();
        if (fd >= 0 && kolo_memory_file_name(fd, &offer->file) < 0)
            offer->status = (uint64_t)-KOLO_ERR_SYSTEM;
    }
    KOLO_POINT("share.offering");
    const int rc = reduce_on_node(comm, KOLO_SUM, (uint64_t *)own, (uint64_t *)offers,
                                  handing->givers * sizeof *offers / sizeof(uint64_t));
    KOLO_POINT("share.offered");
    return rc;
}

int kolo_file_hand_out(kolo_comm *comm, const struct kolo_handing *handing, int *fd) {
    if (comm->size == 1)
        return 0;
    struct offer one[2] = {{0}}, *offers = handing->givers == 1 ? one : calloc(2 * handing->givers, sizeof *offers);
    if (!offers)
        return kolo_failure_publish(comm, KOLO_ERR_SYSTEM, 0);
    int rc = exchange_offers(comm, handing, *fd, offers + handing->givers, offers);
    const struct offer *offer = handing->giver == KOLO_NO_GIVER ? NULL : &offers[handing->giver];
    if (rc == 0)
        rc = take_files(comm, handing, offer, fd);
    if (rc == 0 && offer && offer->status && !handing->gives)
        *fd = kolo_fail(-(int)offer->status, "rank %u: %s failed on rank %u: %s; see that rank's message",
                        comm->global_rank, handing->function, kolo_rank_global(comm, (uint32_t)offer->rank),
                        kolo_strerror(-(int)offer->status));
    if (offers != one)
        free(offers);
    return rc;
}

int kolo_file_hand_to_all(kolo_comm *comm, const char *function, int *fd) {
    uint64_t all[KOLO_RANK_WORDS];
    memset(all, 0xff, sizeof all);
    return kolo_file_hand_out(
        comm, &(struct kolo_handing){.function = function, .givers = 1, .gives = comm->rank == 0, .takers = all}, fd);
}

int kolo_status_agree(kolo_comm *comm, const char *function, int rc) {
    uint64_t own[STATUSES] = {0}, all[STATUSES], failed = 0; /* the first: the sum of the ranks that have failed */
    int status = 0;
    if (rc < 0) {
        own[0] = comm->global_rank;
        own[-rc] = 1;
    }
    const int exchanged = kolo_words_reduce(comm, KOLO_SUM, own, all, STATUSES);
    if (exchanged < 0)
        return exchanged;
    for (int i = STATUSES - 1; i > 0; i--) {
        failed += all[i];
        if (all[i] && status != KOLO_ERR_NO_SPACE) /* whose message says what to do */
            status = -i;
    }
    if (status == 0 || status == rc)
        return status;
    failed -= rc < 0;
    if (failed == 1)
        return kolo_fail(status, "rank %u: %s failed on rank %" PRIu64 "; see that rank's message", comm->global_rank,
                         function, all[0] - own[0]);
    return kolo_fail(status, "rank %u: %s failed on %" PRIu64 " other ranks; see their messages", comm->global_rank,
                     function, failed);
}

int kolo_status_meet(kolo_comm *comm, const char *function, struct kolo_call_key key, int rc) {
    const int begun = kolo_shared_call_begin(function, comm, key);
    if (begun < 0)
        return begun;
    rc = kolo_status_agree(comm, function, rc);
    kolo_shared_call_leave(comm);
    return rc;
}

/* Sets *index to that of the first item in which rank `odd` differs from rank 0, found by halving. */
static int find_difference(kolo_comm *comm, const struct kolo_items *items, int odd, uint64_t *index) {
    uint64_t same = 0, end = items->count, digest = 0;
    int rc = kolo_broadcast(comm, &end, 1, KOLO_U64, 0);
    while (rc == 0 && same < end) {
        const uint64_t middle = same + (end - same + 1) / 2;
        const uint64_t own = kolo_items_digest(items, same, middle, digest);
        uint64_t of_first = own;
        rc = kolo_broadcast(comm, &of_first, 1, KOLO_U64, 0);
        uint64_t is_same = own == of_first;
        if (rc == 0)
            rc = kolo_broadcast(comm, &is_same, 1, KOLO_U64, odd);
        if (is_same) {
            same = middle;
            digest = own;
        } else {
            end = middle - 1;
        }
    }
    *index = same;
    return rc;
}

/* Names the item that differs, and its value on both ranks. */
static int name_difference(kolo_comm *comm, const char *function, const struct kolo_items *items, int odd) {
    char name[KOLO_ITEM_TEXT_BYTES], of_first[KOLO_ITEM_TEXT_BYTES] = "", of_odd[KOLO_ITEM_TEXT_BYTES];
    uint64_t index;
    int rc = find_difference(comm, items, odd, &index);
    kolo_item_name(items, index, name);
    if (index < items->count) {
        const struct kolo_item item = items->item(items->context, index);
        kolo_item_value(&item, item.value, of_first);
    }
    memcpy(of_odd, of_first, sizeof of_odd);
    if (rc == 0)
        rc = kolo_broadcast(comm, name, sizeof name, KOLO_U8, 0);
    if (rc == 0)
        rc = kolo_broadcast(comm, of_first, sizeof of_first, KOLO_U8, 0);
    if (rc == 0)
        rc = kolo_broadcast(comm, of_odd, sizeof of_odd, KOLO_U8, odd);
    return rc < 0 ? rc
                  : KOLO_REFUSE(comm, function, "%s is %s on rank %d, %s on rank 0: pass the same on all ranks", name,
                                of_odd, odd, of_first);
}

int kolo_items_agree(kolo_comm *comm, const char *function, const struct kolo_items *items) {
    const uint64_t size = comm->global_size, digest = kolo_items_digest(items, 0, items->count, 0);
    uint64_t of_first = digest, odd;
    int rc = kolo_broadcast(comm, &of_first, 1, KOLO_U64, 0);
    odd = of_first == digest ? size : comm->global_rank;
    if (rc == 0)
        rc = kolo_allreduce(comm, &odd, &odd, 1, KOLO_U64, KOLO_MIN);
    return rc == 0 && odd < size ? name_difference(comm, function, items, (int)odd) : rc;
}
