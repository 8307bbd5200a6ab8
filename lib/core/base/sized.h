/* Structs of the public interface that begin with their size as the caller was compiled. Fields can therefore be added
 * at the end, and programs and libraries of different versions still understand each other. The rules for all such
 * structs:
 *   - A struct that the library fills may be shorter or longer than the library knows it. Fields that both know are
 *     filled; those that only the caller knows are zeroed.
 *   - A struct that the library reads may be shorter: the missing fields keep their defaults. It may be longer if what
 *     the library does not know is zero. So zero means the default for every field that is added, and no field may be
 *     added where older versions have padding.
 *   - A struct that the library fills has zeros in its padding, too, so that two of them can be compared by their
 *     bytes: the library's own copy begins with a memset, since an initializer may leave padding as it was.
 *   - The fields of the first version are never missing. A size over KOLO_SIZED_BYTES_MAX was not set by the caller. */
#pragma once

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

/* Checks that `theirs` has a plausible size, else KOLO_ERR_ARG. `where` is the function that messages begin with. */
int kolo_sized_check(const struct kolo_sized *sized, const char *where, const void *theirs);

/* Fills *theirs, which has been checked, with *ours. */
void kolo_sized_fill(const struct kolo_sized *sized, void *theirs, const void *ours);

/* Checks *theirs, and fills it where that is well; returns what the check did. */
int kolo_sized_give(const struct kolo_sized *sized, const char *where, void *theirs, const void *ours);

/* Reads *theirs into *ours, which holds the defaults. KOLO_ERR_ARG: kolo_sized_check, or an unknown field is set. */
int kolo_sized_read(const struct kolo_sized *sized, const char *where, void *ours, const void *theirs);
