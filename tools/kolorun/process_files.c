/* Files of one process, read as untrusted text.
 */
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

bool process_status_value(const char *status, const char *key, char *value, size_t value_bytes) {
    for (const char *line = status; *line != '\0'; line += strcspn(line, "\n") + 1) {
        if (strncmp(line, key, strlen(key)) != 0) {
            if (strchr(line, '\n') == NULL)
                return false;
            continue;
        }
        const char *begin = line + strlen(key) + strspn(line + strlen(key), " \t");
        const size_t length = strcspn(begin, "\n");
        if (length == 0 || length >= value_bytes)
            return false;
        memcpy(value, begin, length);
        value[length] = '\0';
        return true;
    }
    return false;
}

char process_state(const char *proc, long pid) {
    char status[PROCESS_STATUS_BYTES], state[32];
    process_text_read(proc, pid, "status", status, sizeof status);
    return process_status_value(status, "State:", state, sizeof state) ? state[0] : 0;
}
