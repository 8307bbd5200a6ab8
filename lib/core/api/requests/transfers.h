/* A transfer: one send, one receive, or both at once, made by a call or a request. */
#pragma once

#include "comm/channels/transfer.h"

struct kolo_transfer {
    kolo_comm *comm;
    kolo_request *request; /* which completes with the transfer, through `complete`; NULL: a call waits for it */
    void (*complete)(kolo_request *request, int status);
    struct kolo_sending sending;
    struct kolo_receiving receiving;
    bool sends, receives;
    kolo_received *received; /* NULL: the caller does not want it */

    bool is_begun;
    uint32_t parts; /* in flight */
    int status;     /* once no part is in flight: 0, or KOLO_ERR_ARG */
};

/* Puts the transfer in flight; a part that needs no other rank is done at once. Errors: KOLO_ERR_NO_SPACE, and nothing
 * was done; or the status with which the communicator broke. */
int kolo_transfer_begin(struct kolo_transfer *transfer);

/* Whether the transfer receives from its own rank a message that the rank has not sent: while the rank waits, no other
 * thread can send it. If so, the transfer is in flight no more, with KOLO_ERR_ARG. */
bool kolo_transfer_give_up(struct kolo_transfer *transfer, const char *function);
