/* A new file appears whole or not at all: it is written beside its place and gets its name at the end.
 *
 * The place is where the caller's path leads: a symbolic link stays, and what it points to is replaced. Until then the
 * file is PLACE.new-PID, in the same folder, and locked (flock). A file that a process left when it ended is removed:
 * it must be a regular file of this user's that nobody has locked. Nothing of other users is followed or written to.
 * From the writing until it is named or dropped, by the same thread, that thread's signals wait: none of them ends the
 * process and leaves the file. */
#pragma once

#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#define KOLO_NEW_FILE_TEXT_BYTES 512

struct kolo_new_file {
    int fd;
    sigset_t signals; /* that were blocked before */
    char place[PATH_MAX];
    char path[PATH_MAX];                    /* meanwhile */
    char message[KOLO_NEW_FILE_TEXT_BYTES]; /* of what failed: "cannot write 'PATH': why" */
};

/* Writes such a file to the disk. It has no permissions but those in `mode`: of these, those of the file whose place it
 * takes, or what the umask leaves. Returns 0 or a negative errno with the message; then there is no file. */
int kolo_new_file_write(struct kolo_new_file *file, const char *path, mode_t mode, const void *bytes, size_t count);

/* Gives the file its name, also on the disk. Returns what kolo_new_file_write returns; on failure there is no file,
 * unless the message says that it is there: then its name may not be on the disk. */
int kolo_new_file_name(struct kolo_new_file *file);

/* Removes the file instead of naming it. */
void kolo_new_file_drop(struct kolo_new_file *file);
