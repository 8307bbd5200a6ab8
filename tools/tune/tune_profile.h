/* The file of a profile: where it is, what stands in it, and that it is replaced whole. How it is written the library
 * knows, as it reads it. */
#ifndef KOLO_TUNE_PROFILE_H
#define KOLO_TUNE_PROFILE_H

#include <stdio.h>

#include "tune_space.h"

/* Makes sure that a file can be written there, with the directories above it on request. Returns 0 or -1 after a
 * complaint. */
int tune_profile_prepare(const char *path, bool make_directories);

/* Writes a section, or for NULL what a profile of this machine begins with; copies the sections of `path`, if kolo uses
 * that profile, but for those that these spaces replace. Return 0, or -1 after a complaint. */
int tune_profile_write(FILE *file, const kolo_profile_section *section);
int tune_profile_keep_sections(FILE *file, const char *path, const tune_space *spaces, int count);

/* Puts `text` in place of the file `path`, whole or not at all. Returns 0 or -1 after a complaint. */
int tune_profile_replace(const char *path, const char *text, size_t bytes);

/* From now on communicators that this process creates as rank 0 go by one candidate of the space; TUNE_DEFAULT:
 * by the defaults. Returns 0 or -1 after a complaint. */
int tune_profile_try(const tune_space *space, int candidate);

/* kolo-tune --check: says whether kolo uses the profile here. Returns an exit status. */
int tune_profile_check(const char *path);

#endif
