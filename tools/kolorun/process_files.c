/* Files of one process, read as untrusted text. */
#include "process_files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

void process_text_read(const char *proc, long pid, const char *name, char *text, size_t text_bytes) {
    char path[512];
    text[0] = '\0';
    if (snprintf(path, sizeof path, "%s/%ld/%s", proc, pid, name) >= (int)sizeof path)
        return;
    const ssize_t bytes = kolo_file_read(path, text, text_bytes - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
}

bool process_status_read(const char *proc, long pid, const char *key, char *value, size_t value_bytes) {
    char status[PROCESS_STATUS_BYTES];
    process_text_read(proc, pid, "status", status, sizeof status);
    const char *at = strstr(status, key);
    while (at != NULL && at != status && at[-1] != '\n')
        at = strstr(at + 1, key);
    if (at == NULL)
        return false;
    at += strlen(key);
    at += strspn(at, " \t");
    const size_t length = strcspn(at, "\n");
    snprintf(value, value_bytes, "%.*s", (int)length, at);
    return length > 0 && length < value_bytes;
}

char process_state(const char *proc, long pid) {
    char state[32];
    return process_status_read(proc, pid, "State:", state, sizeof state) ? state[0] : 0;
}
