/* The name of the processor model, read from /proc/cpuinfo. */
#include "cpu/model.h"

#include <stdio.h>
#include <string.h>

void kolo_cpu_model(char *model, size_t model_bytes) {
    model[0] = '\0';
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    char line[512];
    while (!model[0] && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon += strspn(colon, ": \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(model, model_bytes, "%s", colon);
    }
    fclose(file);
    size_t length = strlen(model);
    while (length > 0 && (model[length - 1] == ' ' || model[length - 1] == '\t'))
        model[--length] = '\0';
}
