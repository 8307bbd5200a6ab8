/* A watch of kolo_watch.h. */
#pragma once

#include "kolo_watch.h"
#include "comm/observer.h"

struct kolo_watch {
    char target[KOLO_JOB_NAME_BYTES];
    struct kolo_observer observer; /* each communicator that it has observed has a reading */
};
