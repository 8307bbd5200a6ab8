/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_record.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json_text.h"
#include "kolo_tools.h"

perf_origin perf_origin_now(void) {
    perf_origin origin = {.host = "unknown", .cpu = "unknown"};
    char host[sizeof(origin.host)] = "";
    if (gethostname(host, sizeof(host) - 1) == 0 && host[0] != '\0')
        memcpy(origin.host, host, sizeof(host));
    kolo_machine machine = {.machine_bytes = sizeof(machine)};
    if (kolo_machine_query(&machine) == KOLO_OK && machine.cpu_model[0] != '\0')
        snprintf(origin.cpu, sizeof(origin.cpu), "%s", machine.cpu_model);
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) == NULL || strftime(origin.date, sizeof(origin.date), "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        snprintf(origin.date, sizeof(origin.date), "unknown");
    return origin;
}

size_t perf_origin_append(const perf_origin *origin, perf_field *fields, size_t count) {
    const perf_field own[PERF_ORIGIN_FIELDS] = {{.name = "host", .text = origin->host},
                                                {.name = "cpu", .text = origin->cpu},
                                                {.name = "kolo_version", .text = kolo_version()},
                                                {.name = "date", .text = origin->date}};
    memcpy(fields + count, own, sizeof(own));
    return count + PERF_ORIGIN_FIELDS;
}

static void write_json_value(FILE *to, const perf_field *field) {
    if (field->kind == PERF_TEXT)
        json_text_print(to, field->text);
    else if (isnan(field->number))
        fputs("null", to);
    else if (field->kind == PERF_TRUTH)
        fputs(field->number != 0 ? "true" : "false", to);
    else
        fprintf(to, "%.*f", field->decimals, field->number);
}

/* How many characters of a name are its object's, with the dot. */
static size_t object_length(const perf_field *field) {
    const char *dot = strchr(field->name, '.');
    return dot != NULL ? (size_t)(dot - field->name) + 1 : 0;
}

void perf_record_json(FILE *to, const perf_field *fields, size_t count) {
    putc('{', to);
    for (size_t i = 0; i < count; i++) {
        const char *name = fields[i].name;
        const size_t object = object_length(&fields[i]);
        const bool begins = object > 0 && (i == 0 || strncmp(fields[i - 1].name, name, object) != 0);
        const bool ends = object > 0 && (i + 1 == count || strncmp(fields[i + 1].name, name, object) != 0);
        if (i > 0)
            fputs(", ", to);
        if (begins)
            fprintf(to, "\"%.*s\": {", (int)object - 1, name);
        fprintf(to, "\"%s\": ", name + object);
        write_json_value(to, &fields[i]);
        if (ends)
            putc('}', to);
    }
    fputs("}\n", to);
}

/* In quotes where the text has what would end the value or the line. */
static void write_csv_text(FILE *to, const char *text) {
    const bool quoted = text[strcspn(text, ",\"\r\n")] != '\0';
    if (quoted)
        putc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            putc('"', to);
        putc(*text, to);
    }
    if (quoted)
        putc('"', to);
}

void perf_record_csv_names(FILE *to, const perf_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s%s", i > 0 ? "," : "", fields[i].name);
    putc('\n', to);
}

void perf_record_csv(FILE *to, const perf_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            putc(',', to);
        if (fields[i].kind == PERF_TEXT)
            write_csv_text(to, fields[i].text);
        else if (!isnan(fields[i].number))
            fprintf(to, "%.*f", fields[i].decimals, fields[i].number);
    }
    putc('\n', to);
}
