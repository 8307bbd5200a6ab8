/* JSON that anybody may have written, read strictly and in place: no number, text or depth is taken that was not
 * expected. What was read before a mistake stays. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 16, JSON_WHY_BYTES = 128 };

typedef struct json_reader {
    const char *begin, *at, *end;
    int depth;
    char why[JSON_WHY_BYTES]; /* the first mistake; "": none */
} json_reader;

/* A field of an object: its name, and one place for the value. */
typedef struct json_field {
    const char *name;
    bool optional;
    int64_t *number; /* from min to max */
    int64_t min, max;
    uint64_t *count;
    bool *flag;
    char *text; /* of text_bytes with its NUL; clean, see trace_text_clean */
    size_t text_bytes;
    bool (*read)(json_reader *reader, void *context); /* reads the value itself */
    void *context;
} json_field;

void json_reader_begin(json_reader *reader, const char *text, size_t bytes);

/* Reads an object with 32 known fields at most. A field that is missing or that comes twice is a mistake; one that is
 * not known is skipped. *seen has a bit for each field that was read, also after a mistake. */
bool json_object_read(json_reader *reader, const json_field *fields, int count, uint32_t *seen);

/* Reads a list of values, each by item(reader, context). */
bool json_list_read(json_reader *reader, bool (*item)(json_reader *reader, void *context), void *context);

/* After the value: whether nothing else follows. */
bool json_reader_finish(json_reader *reader);

/* Notes a mistake, unless there is one already. Returns false. */
bool json_refuse(json_reader *reader, const char *why, const char *name);
