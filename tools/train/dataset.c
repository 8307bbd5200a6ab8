#include "dataset.h"

#include "complain.h"
#include "random.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEATURES_MAX = 1 << 16,
    LABEL_MAX = (1 << 16) - 1,
    TEST_SHARE = 5, /* one row in that many is for testing */
    SPLIT_SEED = 1797
};
static const double feature_max = 1e30;

void dataset_reserve(dataset *data, size_t rows) {
    data->inputs = enlarge(data->inputs, rows, data->features * sizeof(*data->inputs));
    data->labels = enlarge(data->labels, rows, sizeof(*data->labels));
}

void dataset_free(dataset *data) {
    free(data->inputs);
    free(data->labels);
    *data = (dataset){0};
}

/* A file on its way into a dataset. */
typedef struct reader {
    dataset *data;
    const char *path;
    size_t line;       /* from 1 */
    size_t rows_there; /* is memory for so many */
    char *reason;
    size_t reason_bytes;
} reader;

static int refuse_line(const reader *r, const char *what) {
    snprintf(r->reason, r->reason_bytes, "%s, line %zu: %s", r->path, r->line, what);
    return -1;
}

static int read_row(reader *r, const char *text) {
    dataset *data = r->data;
    size_t fields = 1;
    for (const char *comma = text; (comma = strchr(comma, ',')) != NULL; comma++)
        fields++;
    if (data->rows == 0)
        data->features = fields - 1;
    if (data->features < 1 || data->features > FEATURES_MAX)
        return refuse_line(r, "a row needs 1 to 65536 features and then a label, separated by commas");
    if (fields != data->features + 1)
        return refuse_line(r, "has another number of fields than the first line");
    if (data->rows == r->rows_there)
        dataset_reserve(data, r->rows_there = 2 * r->rows_there + 1024);

    for (size_t i = 0; i < fields; i++) {
        char *end;
        const double value = strtod(text, &end);
        const int is_label = i == data->features, is_number = end != text && fabs(value) <= feature_max;
        end += strspn(end, " ");
        const int is_whole = value >= 0 && value <= LABEL_MAX && value == floor(value);
        if (!is_number || *end != (is_label ? '\0' : ',') || (is_label && !is_whole))
            return refuse_line(r, is_label ? "the last field is the label and must be an integer from 0 to 65535"
                                           : "a feature is not a number (the file has no header line)");
        if (is_label)
            data->labels[data->rows] = (int32_t)value;
        else
            data->inputs[data->rows * data->features + i] = (float)value;
        text = end + 1;
    }
    const size_t label = (size_t)data->labels[data->rows++];
    data->classes = label >= data->classes ? label + 1 : data->classes;
    return 0;
}

static int read_rows(reader *r, FILE *file) {
    char *text = NULL;
    size_t text_bytes = 0;
    ssize_t length;
    int rc = 0;
    while (rc == 0 && (length = getline(&text, &text_bytes, file)) >= 0) {
        r->line++;
        while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
            text[--length] = '\0';
        if (strlen(text) != (size_t)length)
            rc = refuse_line(r, "is not text (a compressed file must be unpacked first, e.g. with gunzip)");
        else if (length > 0)
            rc = read_row(r, text);
    }
    free(text);
    if (rc < 0 || !ferror(file))
        return rc;
    snprintf(r->reason, r->reason_bytes, "cannot read '%s': %s", r->path, strerror(errno));
    return -1;
}

int dataset_read(dataset *data, const char *path, char *reason, size_t reason_bytes) {
    *data = (dataset){0};
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        snprintf(reason, reason_bytes, "cannot open '%s': %s", path, strerror(errno));
        return -1;
    }
    reader r = {.data = data, .path = path, .reason = reason, .reason_bytes = reason_bytes};
    int rc = read_rows(&r, file);
    fclose(file);
    if (rc == 0 && (data->rows < 2 * TEST_SHARE || data->classes < 2)) {
        snprintf(reason, reason_bytes, "'%s' has %zu rows of %zu classes; at least %d rows of 2 classes are needed",
                 path, data->rows, data->classes, 2 * TEST_SHARE);
        rc = -1;
    }
    if (rc < 0)
        dataset_free(data);
    return rc;
}

/* FNV-1a, a word at a time. */
uint64_t fingerprint_add(uint64_t hash, const void *words, size_t count) {
    const char *at = words;
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, at + i * sizeof(word), sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint64_t dataset_fingerprint(const dataset *data) {
    const uint32_t shape[] = {(uint32_t)data->rows, (uint32_t)data->features, (uint32_t)data->classes};
    const uint64_t hash = fingerprint_add(FINGERPRINT_BEGIN, shape, 3);
    return fingerprint_add(fingerprint_add(hash, data->inputs, data->rows * data->features), data->labels, data->rows) |
           1;
}

int dataset_share(dataset *data, kolo_comm *comm) {
    uint64_t shape[3] = {data->rows, data->features, data->classes};
    int rc = check(comm, kolo_broadcast(comm, shape, 3, KOLO_U64, 0), "cannot share the data's shape");
    if (rc == 0 && kolo_comm_rank(comm) != 0 && data->inputs == NULL) {
        *data = (dataset){.rows = shape[0], .features = shape[1], .classes = shape[2]};
        dataset_reserve(data, data->rows);
    }
    if (rc == 0)
        rc = check(comm, kolo_broadcast(comm, data->inputs, data->rows * data->features, KOLO_F32, 0),
                   "cannot share the data");
    return rc < 0 ? rc
                  : check(comm, kolo_broadcast(comm, data->labels, data->rows, KOLO_I32, 0), "cannot share labels");
}

void dataset_copy_rows(dataset *to, const dataset *from, const size_t *order) {
    for (size_t i = 0; i < to->rows; i++) {
        memcpy(to->inputs + i * to->features, from->inputs + order[i] * to->features,
               to->features * sizeof(*to->inputs));
        to->labels[i] = from->labels[order[i]];
    }
}

void dataset_split(const dataset *all, dataset *train, dataset *test) {
    size_t *order = allocate(all->rows, sizeof(*order)), first = 0;
    random_stream stream = random_begin(SPLIT_SEED, 0);
    random_permutation(&stream, order, all->rows);
    dataset *const parts[] = {train, test};
    const size_t test_rows = all->rows / TEST_SHARE, rows[] = {all->rows - test_rows, test_rows};
    float largest = 0;
    for (int part = 0; part < 2; first += rows[part++]) {
        dataset *its = parts[part];
        *its = (dataset){.rows = rows[part], .features = all->features, .classes = all->classes};
        dataset_reserve(its, its->rows);
        dataset_copy_rows(its, all, order + first);
        for (size_t i = 0; its == train && i < its->rows * its->features; i++)
            largest = fmaxf(largest, fabsf(its->inputs[i]));
        for (size_t i = 0; largest > 0 && i < its->rows * its->features; i++)
            its->inputs[i] /= largest;
    }
    free(order);
}
