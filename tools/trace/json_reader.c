/* Reading JSON strictly. */
#include "json_reader.h"

#include <stdio.h>
#include <string.h>

#include "trace_read.h"

enum { NAME_BYTES = 32 };

void json_reader_begin(json_reader *reader, const char *text, size_t bytes) {
    *reader = (json_reader){.begin = text, .at = text, .end = text + bytes};
}

bool json_refuse(json_reader *reader, const char *why, const char *name) {
    if (!reader->why[0])
        snprintf(reader->why, sizeof reader->why, "%s%s%s", why, name[0] ? " " : "", name);
    return false;
}

/* The next character that is no space; '\0' at the end. */
static char next(json_reader *reader) {
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at)
        reader->at++;
    return (char)(reader->at < reader->end ? *reader->at : '\0');
}

static bool take(json_reader *reader, char wanted) {
    if (next(reader) == wanted && reader->at < reader->end) {
        reader->at++;
        return true;
    }
    const char name[] = {'\'', wanted, '\'', '\0'};
    return json_refuse(reader, reader->at == reader->end ? "it ends before" : "there is no", name);
}

static bool take_word(json_reader *reader, const char *word) {
    const size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static bool is_digit(const json_reader *reader) {
    return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}

/* Reads digits without a sign, as JSON has them. */
static bool read_digits(json_reader *reader, uint64_t *value, bool *overflows) {
    *value = 0;
    *overflows = false;
    if (!is_digit(reader))
        return json_refuse(reader, reader->at == reader->end ? "it ends before a number" : "there is no number", "");
    const bool is_zero = *reader->at == '0';
    for (int count = 0; is_digit(reader); count++, reader->at++) {
        const uint64_t digit = (uint64_t)(*reader->at - '0');
        if (is_zero && count > 0)
            return json_refuse(reader, "a number begins with 0", "");
        *overflows |= *value > (UINT64_MAX - digit) / 10;
        *value = *value * 10 + digit;
    }
    return true;
}

/* A number with no point and no exponent. */
static bool read_integer(json_reader *reader, bool *is_negative, uint64_t *value, const char *name) {
    bool overflows;
    next(reader);
    *is_negative = take_word(reader, "-");
    if (!read_digits(reader, value, &overflows))
        return false;
    if (overflows || (reader->at < reader->end && *reader->at && strchr(".eE", *reader->at)))
        return json_refuse(reader, "the number is out of range:", name);
    return true;
}

static bool read_number(json_reader *reader, const json_field *field) {
    bool is_negative;
    uint64_t value;
    if (!read_integer(reader, &is_negative, &value, field->name))
        return false;
    if (value > INT64_MAX)
        return json_refuse(reader, "the number is out of range:", field->name);
    const int64_t number = is_negative ? -(int64_t)value : (int64_t)value;
    if (number < field->min || number > field->max)
        return json_refuse(reader, "the number is out of range:", field->name);
    *field->number = number;
    return true;
}

static bool read_count(json_reader *reader, const json_field *field) {
    bool is_negative;
    uint64_t value;
    if (!read_integer(reader, &is_negative, &value, field->name))
        return false;
    if (is_negative)
        return json_refuse(reader, "the number is out of range:", field->name);
    *field->count = value;
    return true;
}

static bool read_flag(json_reader *reader, bool *flag) {
    next(reader);
    *flag = take_word(reader, "true");
    return *flag || take_word(reader, "false") || json_refuse(reader, "there is neither true nor false", "");
}

/* Reads four digits of base 16. */
static bool read_code(json_reader *reader, unsigned *code) {
    *code = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *found = reader->at < reader->end && *reader->at ? strchr(digits, *reader->at) : NULL;
        if (!found)
            return json_refuse(reader, "there is no text with \\u and four digits", "");
        *code = *code << 4 | (unsigned)(found - digits) % 16;
    }
    return true;
}

/* Reads what follows a backslash. Returns the letter's number; 0: a mistake. Halves of a pair, and NUL, become '?'. */
static unsigned read_escape(json_reader *reader) {
    static const char names[] = "\"\\/bfnrt", letters[] = "\"\\/\b\f\n\r\t";
    const char *found = reader->at < reader->end && *reader->at ? strchr(names, *reader->at) : NULL;
    unsigned code = 0, low = 0;
    if (found) {
        reader->at++;
        return (unsigned char)letters[found - names];
    }
    if (!take_word(reader, "u"))
        return (unsigned)json_refuse(reader, "there is a wrong \\ in a text", "");
    if (!read_code(reader, &code))
        return 0;
    if (code >= 0xd800 && code < 0xdc00 && take_word(reader, "\\u")) {
        if (!read_code(reader, &low))
            return 0;
        return low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : '?';
    }
    return code == 0 || (code >= 0xd800 && code < 0xe000) ? '?' : code;
}

/* Writes a letter as UTF-8. Returns its bytes. */
static size_t put_letter(char *to, unsigned code) {
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    const size_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = bytes - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)((bytes == 2 ? 0xc0 : bytes == 3 ? 0xe0 : 0xf0) | code);
    return bytes;
}

/* text NULL: skips it. */
static bool read_text(json_reader *reader, char *text, size_t text_bytes, const char *name) {
    char letter[4];
    size_t used = 0;
    if (!take(reader, '"'))
        return false;
    while (reader->at < reader->end && *reader->at != '"') {
        size_t bytes = 1;
        letter[0] = *reader->at++;
        if ((unsigned char)letter[0] < 0x20)
            return json_refuse(reader, "there is a control character in a text", "");
        if (letter[0] == '\\') {
            const unsigned code = read_escape(reader);
            if (!code)
                return false;
            bytes = put_letter(letter, code);
        }
        if (text && bytes >= text_bytes - used)
            return json_refuse(reader, "the text is too long:", name);
        if (text)
            memcpy(text + used, letter, bytes);
        used += bytes;
    }
    if (text) {
        text[used] = '\0';
        trace_text_clean(text);
    }
    return take(reader, '"');
}

static bool skip(json_reader *reader);

static bool skip_item(json_reader *reader, void *context) {
    (void)context;
    return skip(reader);
}

static bool skip_number(json_reader *reader) {
    uint64_t digits;
    bool overflows;
    take_word(reader, "-");
    if (!read_digits(reader, &digits, &overflows))
        return false;
    if (take_word(reader, ".")) {
        if (!is_digit(reader))
            return json_refuse(reader, "there is no number", "");
        while (is_digit(reader))
            reader->at++;
    }
    if (take_word(reader, "e") || take_word(reader, "E")) {
        if (!take_word(reader, "+"))
            take_word(reader, "-");
        if (!is_digit(reader))
            return json_refuse(reader, "there is no number", "");
        while (is_digit(reader))
            reader->at++;
    }
    return true;
}

/* Skips any value. */
static bool skip(json_reader *reader) {
    uint32_t seen;
    switch (next(reader)) {
    case '{':
        return json_object_read(reader, NULL, 0, &seen);
    case '[':
        return json_list_read(reader, skip_item, NULL);
    case '"':
        return read_text(reader, NULL, 0, "");
    default:
        return take_word(reader, "true") || take_word(reader, "false") || take_word(reader, "null") ||
               skip_number(reader);
    }
}

static bool read_value(json_reader *reader, const json_field *field) {
    return field->number  ? read_number(reader, field)
           : field->count ? read_count(reader, field)
           : field->flag  ? read_flag(reader, field->flag)
           : field->text  ? read_text(reader, field->text, field->text_bytes, field->name)
                          : field->read(reader, field->context);
}

static bool read_pair(json_reader *reader, const json_field *fields, int count, uint32_t *seen) {
    char name[NAME_BYTES];
    const json_reader before = *reader;
    int field = 0;
    if (!read_text(reader, name, sizeof name, "")) { /* a name so long is none of ours */
        *reader = before;
        name[0] = '\0';
        if (!read_text(reader, NULL, 0, ""))
            return false;
    }
    if (!take(reader, ':'))
        return false;
    while (field < count && strcmp(fields[field].name, name) != 0)
        field++;
    if (field == count)
        return skip(reader);
    if (*seen & UINT32_C(1) << field)
        return json_refuse(reader, "this comes twice:", name);
    if (!read_value(reader, &fields[field]))
        return false;
    *seen |= UINT32_C(1) << field;
    return true;
}

/* Enters or leaves what has others in it. */
static bool enter(json_reader *reader, char opening) {
    return take(reader, opening) && (++reader->depth <= JSON_DEPTH_MAX || json_refuse(reader, "it is too deep", ""));
}

static bool leave(json_reader *reader, char closing) {
    reader->depth--;
    return take(reader, closing);
}

bool json_object_read(json_reader *reader, const json_field *fields, int count, uint32_t *seen) {
    *seen = 0;
    if (!enter(reader, '{'))
        return false;
    if (next(reader) != '}')
        do
            if (!read_pair(reader, fields, count, seen))
                return false;
        while (next(reader) == ',' && take(reader, ','));
    for (int field = 0; field < count; field++)
        if (!fields[field].optional && !(*seen & UINT32_C(1) << field) && next(reader) == '}')
            return json_refuse(reader, "this is missing:", fields[field].name);
    return leave(reader, '}');
}

bool json_list_read(json_reader *reader, bool (*item)(json_reader *reader, void *context), void *context) {
    if (!enter(reader, '['))
        return false;
    if (next(reader) != ']')
        do
            if (!item(reader, context))
                return false;
        while (next(reader) == ',' && take(reader, ','));
    return leave(reader, ']');
}

bool json_reader_finish(json_reader *reader) {
    next(reader);
    return reader->at == reader->end || json_refuse(reader, "something follows its end", "");
}
