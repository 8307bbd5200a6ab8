/* The layout of a segment: where its parts begin, and whether a claimed layout is possible. */
#include "shm/layout.h"

struct kolo_layout kolo_layout_compute(uint32_t ranks, size_t slot_bytes, uint32_t internode) {
    struct kolo_layout layout = {0};
    layout.members = sizeof(struct kolo_shared_header);
    layout.signals = layout.members + ranks * sizeof(struct kolo_shared_member);
    layout.histories = layout.signals + ranks * sizeof(struct kolo_shared_signal);
    layout.lines = layout.histories + ranks * sizeof(struct kolo_shared_history);
    layout.mailboxes = layout.lines + ranks * sizeof(struct kolo_shared_lines);
    layout.slots = kolo_whole_pages(layout.mailboxes + ranks * sizeof(struct kolo_shared_mailbox));
    layout.allocated = layout.slots + (size_t)ranks * KOLO_SLOTS * slot_bytes;
    if (internode) {
        layout.internode = layout.allocated;
        layout.internode_slots = layout.internode + kolo_whole_pages(sizeof(struct kolo_shared_internode));
        layout.allocated = layout.internode_slots + 2 * KOLO_SLOTS * slot_bytes;
    }
    const size_t all = internode ? internode : ranks, directions = internode ? 2 : 1;
    layout.rings = layout.allocated;
    layout.streams = layout.rings + directions * ranks * all * sizeof(struct kolo_shared_ring);
    layout.bytes = layout.streams + all * sizeof(struct kolo_shared_stream);
    return layout;
}

bool kolo_layout_is_legal(const struct kolo_segment_claim *claim) {
    if (claim->internode > KOLO_RANKS_MAX || (claim->internode && claim->internode < claim->ranks) ||
        claim->ranks < (claim->internode ? 1 : 2) || claim->ranks > KOLO_RANKS_MAX || claim->slot_bytes == 0 ||
        claim->slot_bytes % KOLO_PAGE_BYTES || claim->slot_bytes > KOLO_SLOT_BYTES_MAX)
        return false;
    const struct kolo_layout layout =
        kolo_layout_compute((uint32_t)claim->ranks, claim->slot_bytes, (uint32_t)claim->internode);
    return (claim->segment_bytes == layout.bytes || claim->segment_bytes == layout.allocated) &&
           claim->offset % KOLO_PAGE_BYTES == 0 && claim->offset <= claim->file_bytes &&
           claim->segment_bytes <= claim->file_bytes - claim->offset;
}

size_t kolo_layout_job_bytes(uint32_t ranks) {
    return kolo_whole_pages(sizeof(struct kolo_job_header) + ranks * sizeof(struct kolo_job_member));
}
