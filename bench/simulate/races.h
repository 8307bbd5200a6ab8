/* Data races: accesses of which the later one's rank cannot know that the earlier one is done, whether or not this
 * run's order happens to make them go well.
 *
 * To know means to have acquired a word that was released after it. Each rank has a clock: how far it knows every other
 * to be. A release copies it to the word and begins a new epoch of the rank; an acquire joins the word's to the rank's
 * own. Memory is cut into zones, each of which remembers, to the byte, who has written it last and who has read it
 * since. One run at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct races_setting {
    uint32_t ranks;
    const uint8_t *words; /* that are released and acquired */
    size_t words_bytes;
    const uint8_t *memory; /* whose accesses are looked at */
    size_t memory_bytes;
    size_t zone_bytes; /* small zones find sooner what an access overlaps with */
    /* What lies there, in words. */
    void (*describe)(const void *address, size_t bytes, char *text, size_t text_bytes);
    /* Who a rank is, in words; NULL: "rank 3". */
    void (*name)(uint32_t rank, char *text, size_t text_bytes);
    /* A race in words, or that there is no memory to find more. May leave for good. */
    void (*complain)(const char *text);
    /* What any rank may overwrite, whoever wrote it before; is_read: or read, whoever writes it. NULL: nothing. */
    bool (*is_given_up)(const void *address, bool is_read);
} races_setting;

/* Forgets an earlier run. 0, or -1 if there is no memory. */
int races_begin(const races_setting *setting);

/* Ends an epoch of the rank; `clock`, of as many entries as there are ranks, gets what it knew. */
void races_release(uint32_t rank, uint32_t *clock);

/* A store to the word that releases `clock` of `rank`. NULL: one that releases nothing, and ends what was there. */
void races_store(const void *word, uint32_t rank, const uint32_t *clock);

/* A read-modify-write that releases it in addition to what was there. */
void races_merge(const void *word, uint32_t rank, const uint32_t *clock);

/* A load that acquires. */
void races_acquire(uint32_t rank, const void *word);

/* The rank learns that `ended` has ended: all that it did is done. */
void races_learn_end(uint32_t rank, uint32_t ended);

/* Plain accesses; those of other memory are nobody's concern. */
void races_read(uint32_t rank, const void *address, size_t bytes);
void races_write(uint32_t rank, const void *address, size_t bytes);

/* How many of the bytes nobody has written; and makes it as if nobody had. */
size_t races_unwritten(const void *address, size_t bytes);
void races_forget(const void *address, size_t bytes);
