#include "reduce/copy.h"

#include <string.h>

void kolo_copy(void *dst, const void *src, size_t bytes) {
    memcpy(dst, src, bytes);
}

void kolo_copy_stream(void *dst, const void *src, size_t bytes) {
    memcpy(dst, src, bytes);
}
