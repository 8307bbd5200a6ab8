/* One send, one receive, or both at once, as a call makes them or a request does. */
#ifndef KOLO_API_REQUESTS_TRANSFERS_H
#define KOLO_API_REQUESTS_TRANSFERS_H

#include "comm/channels/transfer.h"

struct kolo_transfer {
    kolo_comm *comm;
    kolo_request *request; /* which completes by it, through `complete`; NULL: a call waits for it */
    void (*complete)(kolo_request *request, int status);
    struct kolo_sending sending;
    struct kolo_receiving receiving;
    bool sends, receives;
    kolo_received *received; /* NULL: the caller does not want it */

    bool is_begun;
    uint32_t parts; /* in flight */
    int status;     /* once there are none: 0, or KOLO_ERR_ARG */
};

/* Puts it in flight; what needs nobody is done at once. An error: KOLO_ERR_NO_SPACE, nothing was done; or the status
 * with which the communicator broke. */
int kolo_transfer_begin(struct kolo_transfer *transfer);

/* Whether it receives from its own rank what that has not sent: while the rank waits, nobody else can. If so, it is in
 * flight no more, with KOLO_ERR_ARG. */
bool kolo_transfer_give_up(struct kolo_transfer *transfer, const char *function);

#endif
