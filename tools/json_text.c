#include "json_text.h"

/* Bytes of the letter outside ASCII that begins there; 0: it is not UTF-8. */
static int letter_bytes(const unsigned char *at) {
    const int bytes = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    const int low = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    const int high = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    if (at[0] < 0xc2 || at[0] > 0xf4 || at[1] < low || at[1] > high)
        return 0;
    for (int i = 2; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

void json_text_print(FILE *to, const char *text) {
    if (!text) {
        fputs("null", to);
        return;
    }
    putc('"', to);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        const int bytes = letter_bytes(at);
        if (bytes > 0) {
            fwrite(at, 1, (size_t)bytes, to);
            at += bytes - 1;
        } else if (*at == '"' || *at == '\\')
            fprintf(to, "\\%c", *at);
        else if (*at < 0x20 || *at >= 0x7f)
            fprintf(to, "\\u%04x", *at);
        else
            putc(*at, to);
    }
    putc('"', to);
}
