/* The library's version as one word, for whoever meets a process that may have another. */
#ifndef KOLO_BASE_VERSION_H
#define KOLO_BASE_VERSION_H

#include <stdint.h>

#include "kolo.h"

#define KOLO_VERSION_WORD ((uint32_t)(KOLO_VERSION_MAJOR << 16 | KOLO_VERSION_MINOR << 8 | KOLO_VERSION_PATCH))

#endif
