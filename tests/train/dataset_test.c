/* Reading data, refusing what is wrong with it, and dividing it into training and testing rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char good_rows[] = "1, 2,0\n3,4.5,1\r\n5,-6,2\n\n7,8,0\n1,1,1\n2,2,2\n3,3,0\n4,4,1\n5,5,2\n6,6,0";

static int read_bytes(dataset *data, const void *bytes, size_t count, char *reason, size_t reason_bytes) {
    char path[] = "/tmp/kolo-dataset-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
    close(fd);
    int rc = dataset_read(data, path, reason, reason_bytes);
    unlink(path);
    return rc;
}

static void reads_rows(void **state) {
    (void)state;
    dataset data;
    char reason[512];
    assert_int_equal(read_bytes(&data, good_rows, strlen(good_rows), reason, sizeof(reason)), 0);
    assert_int_equal(data.rows, 10);
    assert_int_equal(data.features, 2);
    assert_int_equal(data.classes, 3);
    const float first[] = {1, 2, 3, 4.5F, 5, -6, 7, 8};
    const int32_t labels[] = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
    assert_memory_equal(data.inputs, first, sizeof(first));
    assert_memory_equal(data.labels, labels, sizeof(labels));
    dataset_free(&data);
}

/* The good rows with a bad one after them. */
static void assert_refused(const char *bad_row, const char *why) {
    char text[512];
    snprintf(text, sizeof(text), "%s\n%s\n", good_rows, bad_row);
    dataset data;
    char reason[512] = "";
    assert_int_equal(read_bytes(&data, text, strlen(text), reason, sizeof(reason)), -1);
    if (strstr(reason, why) == NULL || strstr(reason, "line 12") == NULL)
        fail_msg("'%s' was refused with '%s', which lacks '%s' or 'line 12'", bad_row, reason, why);
}

static void refuses_wrong_rows(void **state) {
    (void)state;
    assert_refused("1,1", "number of fields");
    assert_refused("1,1,1,1", "number of fields");
    assert_refused("1,x,1", "not a number");
    assert_refused("1,,1", "not a number");
    assert_refused("1,nan,1", "not a number");
    assert_refused("1,1 1,1", "not a number");
    assert_refused("1,1,-1", "label");
    assert_refused("1,1,0.5", "label");
    assert_refused("1,1,65536", "label");
    assert_refused("1,1,", "label");
}

static void refuses_wrong_files(void **state) {
    (void)state;
    dataset data;
    char reason[512] = "";
    assert_int_equal(dataset_read(&data, "/nonexistent/digits.csv", reason, sizeof(reason)), -1);
    assert_non_null(strstr(reason, "/nonexistent/digits.csv"));
    assert_non_null(strstr(reason, "No such file"));
    assert_int_equal(dataset_read(&data, "/tmp", reason, sizeof(reason)), -1);
    assert_non_null(strstr(reason, "directory"));
    assert_int_equal(read_bytes(&data, "", 0, reason, sizeof(reason)), -1);
    assert_non_null(strstr(reason, "0 rows"));
    assert_int_equal(read_bytes(&data, "5\n", 2, reason, sizeof(reason)), -1);
    assert_non_null(strstr(reason, "1 to 65536 features"));
    static const char gzip_head[] = "\x1f\x8b\x08\0\0\0\0\0\0\x03\n";
    assert_int_equal(read_bytes(&data, gzip_head, sizeof(gzip_head) - 1, reason, sizeof(reason)), -1);
    assert_non_null(strstr(reason, "gunzip"));
}

/* Rows that tell which they are: row i holds i + 1 and 2 (i + 1), and its label is i. */
static void number_rows(dataset *data, size_t rows) {
    *data = (dataset){.rows = rows, .features = 2, .classes = rows};
    dataset_reserve(data, data->rows);
    for (size_t i = 0; i < rows; i++) {
        data->inputs[2 * i] = (float)(i + 1);
        data->inputs[2 * i + 1] = (float)(2 * (i + 1));
        data->labels[i] = (int32_t)i;
    }
}

/* Counts the rows of a part in `seen`, whose inputs must be the original ones divided by `scale`. */
static void mark_rows(const dataset *part, float scale, unsigned char *seen) {
    for (size_t i = 0; i < part->rows; i++) {
        assert_true(part->inputs[2 * i] == (float)(part->labels[i] + 1) / scale);
        assert_true(part->inputs[2 * i + 1] == (float)(2 * (part->labels[i] + 1)) / scale);
        seen[part->labels[i]]++;
    }
}

static void splits_without_overlap(void **state) {
    (void)state;
    enum { ROWS = 103 };
    dataset all;
    dataset train;
    dataset test;
    number_rows(&all, ROWS);
    dataset_split(&all, &train, &test);
    assert_int_equal(train.rows, 83);
    assert_int_equal(test.rows, 20);
    assert_int_equal(test.classes, ROWS);

    int32_t largest = 0; /* of the training rows, which alone set the scale */
    for (size_t i = 0; i < train.rows; i++)
        largest = train.labels[i] > largest ? train.labels[i] : largest;
    unsigned char seen[ROWS] = {0};
    mark_rows(&train, (float)(2 * (largest + 1)), seen);
    mark_rows(&test, (float)(2 * (largest + 1)), seen);
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(seen[i], 1);

    dataset train_again;
    dataset test_again;
    dataset_split(&all, &train_again, &test_again);
    assert_memory_equal(test.labels, test_again.labels, test.rows * sizeof(*test.labels));
    int shuffled = 0;
    for (size_t i = 0; i + 1 < test.rows; i++)
        shuffled |= test.labels[i] > test.labels[i + 1];
    assert_true(shuffled);
    dataset_free(&all);
    dataset_free(&train);
    dataset_free(&test);
    dataset_free(&train_again);
    dataset_free(&test_again);
}

static void splits_rows_of_zeros(void **state) {
    (void)state;
    dataset all = {.rows = 10, .features = 3, .classes = 2};
    dataset train;
    dataset test;
    dataset_reserve(&all, all.rows);
    memset(all.inputs, 0, all.rows * all.features * sizeof(*all.inputs));
    memset(all.labels, 0, all.rows * sizeof(*all.labels));
    dataset_split(&all, &train, &test);
    for (size_t i = 0; i < train.rows * train.features; i++)
        assert_true(train.inputs[i] == 0);
    dataset_free(&all);
    dataset_free(&train);
    dataset_free(&test);
}

static void fingerprint_tells_data_apart(void **state) {
    (void)state;
    dataset data;
    char reason[512];
    assert_int_equal(read_bytes(&data, good_rows, strlen(good_rows), reason, sizeof(reason)), 0);
    const uint64_t original = dataset_fingerprint(&data);
    assert_true(original != 0);
    data.labels[9] = 1;
    assert_true(dataset_fingerprint(&data) != original);
    data.labels[9] = 0;
    data.inputs[0] = 1.0000001F;
    assert_true(dataset_fingerprint(&data) != original);
    data.inputs[0] = 1;
    data.classes++;
    assert_true(dataset_fingerprint(&data) != original);
    data.classes--;
    assert_true(dataset_fingerprint(&data) == original);
    dataset_free(&data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_rows),           cmocka_unit_test(refuses_wrong_rows),
        cmocka_unit_test(refuses_wrong_files),  cmocka_unit_test(splits_without_overlap),
        cmocka_unit_test(splits_rows_of_zeros), cmocka_unit_test(fingerprint_tells_data_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
