/* Adoption: memory that a program already has becomes a part of a file that all ranks map, and stays at its address.
 * Afterwards it becomes memory of that process alone again.
 *
 *   1. The file exists, is mapped elsewhere, and its part has pages: the steps below need no more of them.
 *   2. The contents are copied into the part.
 *   3. One mmap puts the part in the place of the old pages. Another thread that reads meanwhile finds the same bytes
 *      before and after; what such a thread writes between steps 2 and 3 may be lost.
 * The way back is the same with private pages, which are made and filled elsewhere and then moved into place by one
 * mremap. At each moment the contents are complete at the address. A process that dies leaves the file, until its last
 * mapping.
 *
 * Steps 2 and 3 hold kolo_adoption_lock. So a fork finds the memory before them or after them, and of two ranks
 * in one process that pass the same memory the second one is refused. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Memory that has been adopted, and the file whose pages it now consists of; inode 0: no memory has been adopted. */
struct kolo_adopted {
    void *memory;
    size_t bytes;
    uint64_t device, inode;
};

/* Checks that the `bytes` at `memory`, both whole pages, can be adopted: they must be private, anonymous, readable and
 * writable, and not of a stack. Returns 0, or KOLO_ERR_ARG or KOLO_ERR_SYSTEM, saying what is there. */
int kolo_adoption_check(const char *function, const void *memory, size_t bytes);

/* Puts the bytes of file `fd` from `offset` on, which are mapped at `part`, in the place of `memory`, with its
 * contents. What was at `part` cannot be used any more. Errors: those of kolo_adoption_check, and KOLO_ERR_SYSTEM; then
 * the memory is what it was, and *adopted not set. */
int kolo_adoption_begin(const char *function, struct kolo_adopted *adopted, void *memory, size_t bytes, void *part,
                        int fd, off_t offset);

/* Makes adopted memory private at the same address, with the same contents. Pages that the program has unmapped or
 * replaced in the meantime stay as they are. Where the system has no memory for a copy, the pages stay those of the
 * file, which nobody else uses once all ranks have unmapped it. */
void kolo_adoption_end(struct kolo_adopted *adopted);
