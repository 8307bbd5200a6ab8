/* The proxy, like NCCL's proxy thread: the part of a node's leader that exchanges partial results with other nodes.
 *
 * The leader orders one exchange after another, a ticket each (kolo_proxy_order), at most KOLO_SLOTS of them at once.
 * The proxy begins them in that order, and moves frames by its engine (net/engine.h). It publishes how far it has got
 * in kolo_shared_lane.done, which all ranks of the node wait for like any flag. The result of each exchange lies where
 * its order says.
 *
 * A node has one proxy or, where one thread does not keep up with the network, several (threads:N of KOLO_NET, the same
 * number on all nodes): of n proxies, number t % n does ticket t. Each proxy has its own thread, engine and sockets,
 * its lane to the other nodes. Lanes share nothing but the segment: each has a control stream of its own, since with
 * one for all lanes control frames would race with the end of other lanes' sockets. The price is that a failure is told
 * once on each lane; a node that knows of one ignores the others.
 *
 * One of two threads drives the proxy at a time:
 *   - The leader drives it while it waits for an exchange: to hand a small one to another thread, and back, would take
 *     longer than the network does. It gives the proxy back while the program's hooks may run.
 *   - The proxy's own thread drives it at other times: for a moment every 20 ms, so that other nodes hear that this one
 *     lives and has not failed; and all the time while an exchange is ordered in the background, since the leader has
 *     other work to do. Once ranks send and receive between nodes the thread alone drives the first lane, which carries
 *     their messages (internode/relay/relay.h).
 *
 * Writers. The leader writes orders[t % KOLO_SLOTS] and then `ordered`. The driving thread writes all else here and the
 * lane's kolo_shared_lane. The leader writes an order's place again for ticket t + KOLO_SLOTS, which it orders after it
 * has seen that t is done. internode/exchange.h says what the frames of an exchange mean, and
 * internode/exchange_calls.c how nodes whose ranks make different calls find out.
 *
 * Failures go both ways. The proxy looks at the segment's failure word at least every 20 ms, and tells all other nodes
 * once what it finds there. It publishes in the segment what another node tells, unless a failure is there already, and
 * passes it on: else a node that is slow to hear of a failure might take the end of a node that left because of it for
 * the cause. A node whose streams have all ended is at fault only if something is awaited from it, now or by a later
 * order: it may have finished and left. A node that is silent for too long is given up at once. After a failure the
 * proxy exchanges nothing more, but tells others that it lives until the leader leaves, for ranks that shrink the
 * communicator.
 *
 * Buffers. Frames lie in the segment, in boxes, or in the buffers of the leader of a node of one rank. That leader's
 * call returns 0 when its tickets are done: all that they await is there, and the kernel has let go of all that they
 * send. It returns an error after all data of all lanes is stopped (kolo_proxy_abandon): a frame that is cut off then
 * never becomes whole, so that no result is made of what the caller writes there afterwards. */
#pragma once

#include "internode/exchange.h"

struct kolo_proxy;

/* Starts the thread of a lane, in the leader. It sends heartbeats from then on. fds as from kolo_assembly_link; the
 * proxy closes those of its lane, also where this fails. */
int kolo_proxy_create(struct kolo_proxy **proxy, kolo_comm *comm, uint32_t lane, int *fds);

/* The leader calls this once all leaders have their proxies: from now on the other nodes must be heard. Before that
 * some may still be making their proxies, however long that takes. */
void kolo_proxy_watch(struct kolo_proxy *proxy);

/* The leader orders an exchange of the present call, which this fills in. background: the proxy's thread drives it. */
void kolo_proxy_order(kolo_comm *comm, struct kolo_order *order, bool background);

/* Waits until the exchange of `ticket` is done. Unless it was ordered in the background, the leader drives it. */
int kolo_proxy_await(kolo_comm *comm, uint64_t ticket);

/* A rank whose call has failed calls this. Once it returns, the leader's exchanges go no further, and neither they nor
 * the kernel read or write the buffers of the call any more. It waits only for the thread that drives them at the
 * moment, and for this machine's kernel. */
void kolo_proxy_abandon(kolo_comm *comm);

/* Whether another node's leader is still heard. LOST: the leader was silent for too long, and was given up. CLOSED: its
 * streams have ended otherwise. */
typedef enum kolo_pulse { KOLO_PULSE_BEATS, KOLO_PULSE_LOST, KOLO_PULSE_CLOSED } kolo_pulse;

/* What this lane knows of a node's leader. For the leader. */
kolo_pulse kolo_proxy_pulse(struct kolo_proxy *proxy, uint32_t node);

/* The leader calls this when the listener is no longer this communicator's. Until then the communicator's first lane
 * looks after it: it ends the connections that fill the kernel's queue there. */
void kolo_proxy_leave_listener(struct kolo_proxy *proxy);

/* Tells the other nodes that this one leaves, and ends the thread; waits for it, but for no other node. */
void kolo_proxy_destroy(struct kolo_proxy *proxy);

/* In a forked child: closes the child's copies of the sockets; the thread is not there. */
void kolo_proxy_forget(struct kolo_proxy *proxy);
