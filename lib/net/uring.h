/* io_uring, as far as this kernel and its policy allow it. */
#ifndef KOLO_NET_URING_H
#define KOLO_NET_URING_H

/* 0 where a ring can be set up; else the negative errno with which it is refused (-ENOSYS in a build without it). */
int kolo_uring_probe(void);

#endif
