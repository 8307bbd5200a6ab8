#include "dataset.h"

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

int dataset_reserve(dataset *data, size_t rows) {
    float *inputs = reallocarray(data->inputs, rows, data->features * sizeof(*inputs));
    int32_t *labels = reallocarray(data->labels, rows, sizeof(*labels));
    data->inputs = inputs != NULL ? inputs : data->inputs;
    data->labels = labels != NULL ? labels : data->labels;
    return inputs != NULL && labels != NULL ? 0 : -1;
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
    size_t line; /* from 1 */
    size_t rows_allocated;
    char *reason;
    size_t reason_bytes;
} reader;

static int refuse_line(reader *r, const char *what) {
    snprintf(r->reason, r->reason_bytes, "%s, line %zu: %s", r->path, r->line, what);
    return -1;
}

static size_t count_fields(const char *text) {
    size_t fields = 1;
    for (; *text != '\0'; text++)
        fields += *text == ',';
    return fields;
}

static int make_room_for_row(reader *r) {
    if (r->data->rows < r->rows_allocated)
        return 0;
    r->rows_allocated = r->rows_allocated == 0 ? 1024 : 2 * r->rows_allocated;
    return dataset_reserve(r->data, r->rows_allocated) == 0 ? 0 : refuse_line(r, "not enough memory");
}

/* Reads one number, which must end at `end_mark`, and moves *text past that. */
static int read_number(const char **text, char end_mark, double *value) {
    char *end;
    *value = strtod(*text, &end);
    while (*end == ' ')
        end++;
    if (end == *text || *end != end_mark || !isfinite(*value) || fabs(*value) > 1e30)
        return -1;
    *text = end + 1;
    return 0;
}

static int read_row(reader *r, const char *text) {
    dataset *data = r->data;
    size_t fields = count_fields(text);
    if (data->rows == 0)
        data->features = fields - 1;
    if (data->features < 1 || data->features > FEATURES_MAX)
        return refuse_line(r, "a row needs 1 to 65536 features and then a label, separated by commas");
    if (fields != data->features + 1)
        return refuse_line(r, "has another number of fields than the first line");
    if (make_room_for_row(r) < 0)
        return -1;

    double value;
    float *inputs = data->inputs + data->rows * data->features;
    for (size_t i = 0; i < data->features; i++) {
        if (read_number(&text, ',', &value) < 0)
            return refuse_line(r, "a feature is not a number (the file has no header line)");
        inputs[i] = (float)value;
    }
    if (read_number(&text, '\0', &value) < 0 || value < 0 || value > LABEL_MAX || value != floor(value))
        return refuse_line(r, "the last field is the label and must be an integer from 0 to 65535");
    data->labels[data->rows] = (int32_t)value;
    if ((size_t)value >= data->classes)
        data->classes = (size_t)value + 1;
    data->rows++;
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
    if (rc == 0 && ferror(file)) {
        snprintf(r->reason, r->reason_bytes, "cannot read '%s': %s", r->path, strerror(errno));
        rc = -1;
    }
    free(text);
    return rc;
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
    uint64_t hash = fingerprint_add(FINGERPRINT_BEGIN, shape, 3);
    hash = fingerprint_add(hash, data->inputs, data->rows * data->features);
    hash = fingerprint_add(hash, data->labels, data->rows);
    return hash | 1;
}

void dataset_copy_rows(dataset *to, const dataset *from, const size_t *order) {
    for (size_t i = 0; i < to->rows; i++) {
        memcpy(to->inputs + i * to->features, from->inputs + order[i] * to->features,
               to->features * sizeof(*to->inputs));
        to->labels[i] = from->labels[order[i]];
    }
}

static float largest_magnitude(const dataset *data) {
    float largest = 0;
    for (size_t i = 0; i < data->rows * data->features; i++)
        largest = fmaxf(largest, fabsf(data->inputs[i]));
    return largest;
}

static void divide_inputs(dataset *data, float divisor) {
    for (size_t i = 0; i < data->rows * data->features; i++)
        data->inputs[i] /= divisor;
}

int dataset_split(const dataset *all, dataset *train, dataset *test) {
    *train = (dataset){.rows = all->rows - all->rows / TEST_SHARE, .features = all->features, .classes = all->classes};
    *test = (dataset){.rows = all->rows / TEST_SHARE, .features = all->features, .classes = all->classes};
    size_t *order = calloc(all->rows, sizeof(*order));
    if (order == NULL || dataset_reserve(train, train->rows) < 0 || dataset_reserve(test, test->rows) < 0) {
        free(order);
        dataset_free(train);
        dataset_free(test);
        return -1;
    }

    random_stream stream = random_begin(SPLIT_SEED, 0);
    random_permutation(&stream, order, all->rows);
    dataset_copy_rows(train, all, order);
    dataset_copy_rows(test, all, order + train->rows);
    free(order);

    float scale = largest_magnitude(train);
    if (scale > 0) {
        divide_inputs(train, scale);
        divide_inputs(test, scale);
    }
    return 0;
}
