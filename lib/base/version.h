/* The library's version as one word, for whoever meets a process that may have another. */
#ifndef KOLO_BASE_VERSION_H
#define KOLO_BASE_VERSION_H

#include <stdint.h>

#include "kolo.h"

/* For printf: the format, and its arguments. */
#define KOLO_VERSION_FORMAT      "%u.%u.%u"
#define KOLO_VERSION_PARTS(word) (unsigned)((word) >> 16 & 255), (unsigned)((word) >> 8 & 255), (unsigned)((word)&255)

#define KOLO_VERSION_WORD ((uint32_t)(KOLO_VERSION_MAJOR << 16 | KOLO_VERSION_MINOR << 8 | KOLO_VERSION_PATCH))

#endif
