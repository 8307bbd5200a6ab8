/* Structs of the public interface that begin with their size, as the caller was compiled with it: fields can be added
 * at their ends, and programs and libraries of different versions still understand each other. One rule for all of
 * them:
 *
 * What the library fills may be shorter or longer than it knows it: the fields that both know are filled, and what only
 * the caller knows is zeroed. What it reads may be shorter: the missing fields keep their defaults; or longer, if what
 * the library does not know is zero, which means the default for every field that is added (nor may a field be added
 * where older versions have padding). The fields of the first version are never missing, and a size beyond
 * KOLO_SIZED_BYTES_MAX was not set. */
#ifndef KOLO_BASE_SIZED_H
#define KOLO_BASE_SIZED_H

#include <assert.h>
#include <stddef.h>

#define KOLO_SIZED_BYTES_MAX 4096

struct kolo_sized {
    const char *type;
    const char *field; /* the first one, a size_t, which holds the size */
    size_t bytes;
    size_t bytes_min; /* up to the last field of its first version */
};

#define KOLO_SIZED(type_, field_, last_)                                                                               \
    { #type_, #field_, sizeof(type_), offsetof(type_, last_) + sizeof(((type_ *)0)->last_) }

/* Whether `theirs`, an argument of what messages begin with, has a size to go by: else KOLO_ERR_ARG. */
int kolo_sized_check(const struct kolo_sized *sized, const char *where, const void *theirs);

/* Fills *theirs, which has been checked, with *ours. */
void kolo_sized_fill(const struct kolo_sized *sized, void *theirs, const void *ours);

/* Reads *theirs into *ours, which holds the defaults. KOLO_ERR_ARG as kolo_sized_check, or the caller has set a field
 * that this version does not know. */
int kolo_sized_read(const struct kolo_sized *sized, const char *where, void *ours, const void *theirs);

#endif
