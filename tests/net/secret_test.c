/* Secrets: files of all bad kinds, variables, and what is computed with a key. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kolo_tools.h"
#include "net/connect/secret.h"

#define WORDS "correct horse battery staple"

static char folder[64], path[96], other_path[96];

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/kolo-secret-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/secret", folder);
    snprintf(other_path, sizeof other_path, "%s/other", folder);
    unsetenv("KOLO_SECRET");
    unsetenv("KOLO_SECRET_FILE");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    unlink(other_path);
    return rmdir(folder);
}

static void write_file(const char *text, size_t bytes, mode_t mode) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    setenv("KOLO_SECRET_FILE", path, 1);
}

static void assert_message(const char *words) {
    if (!strstr(kolo_error_message(), words))
        fail_msg("'%s' is not in '%s'", words, kolo_error_message());
    if (strstr(kolo_error_message(), "horse"))
        fail_msg("the secret is in '%s'", kolo_error_message());
}

static void assert_refused(const char *words) {
    struct kolo_secret secret;
    assert_int_equal(kolo_secret_read(&secret), KOLO_ERR_ARG);
    assert_message(words);
}

static struct kolo_secret read_good(void) {
    struct kolo_secret secret = {0};
    if (kolo_secret_read(&secret) != 0)
        fail_msg("%s", kolo_error_message());
    assert_true(secret.used);
    return secret;
}

static void test_none(void **state) {
    struct kolo_secret secret = {.used = true};
    uint8_t proof[KOLO_KEY_BYTES];
    static const uint8_t zeros[KOLO_KEY_BYTES];
    (void)state;
    setenv("KOLO_SECRET", "none", 1);
    assert_int_equal(kolo_secret_read(&secret), 0);
    assert_false(secret.used);
    kolo_secret_prove(&secret, "text", 4, proof);
    assert_memory_equal(proof, zeros, sizeof proof);
    assert_true(kolo_secret_check(&secret, "text", 4, proof));
    struct kolo_secret derived = {.used = true};
    kolo_secret_derive(&secret, "purpose", 7, &derived);
    assert_false(derived.used);
}

/* A file is a secret, whatever the other variable says. */
static void test_file_beside_none(void **state) {
    (void)state;
    setenv("KOLO_SECRET", "none", 1);
    setenv("KOLO_SECRET_FILE", other_path, 1);
    assert_refused("KOLO_SECRET_FILE");
}

static void test_not_set(void **state) {
    (void)state;
    assert_refused("head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE");
    assert_message("KOLO_SECRET_FILE");
    assert_message("KOLO_SECRET=none");
}

static void test_file_and_variable_agree(void **state) {
    (void)state;
    write_file(WORDS "\n", sizeof WORDS, 0600);
    const struct kolo_secret from_file = read_good();
    write_file(WORDS, sizeof WORDS - 1, 0400);
    const struct kolo_secret without_newline = read_good();
    unsetenv("KOLO_SECRET_FILE");
    setenv("KOLO_SECRET", WORDS, 1);
    const struct kolo_secret from_variable = read_good();
    setenv("KOLO_SECRET", WORDS "s", 1);
    const struct kolo_secret another = read_good();
    assert_memory_equal(from_file.key, without_newline.key, KOLO_KEY_BYTES);
    assert_memory_equal(from_file.key, from_variable.key, KOLO_KEY_BYTES);
    assert_memory_not_equal(from_file.key, another.key, KOLO_KEY_BYTES);
}

static void test_file_goes_first(void **state) {
    (void)state;
    setenv("KOLO_SECRET", "another secret that counts for nothing", 1);
    write_file(WORDS, sizeof WORDS - 1, 0600);
    const struct kolo_secret first = read_good();
    unsetenv("KOLO_SECRET");
    const struct kolo_secret second = read_good();
    assert_memory_equal(first.key, second.key, KOLO_KEY_BYTES);
}

static void test_lengths(void **state) {
    static char text[4097];
    (void)state;
    memset(text, 'x', sizeof text);
    write_file(text, 15, 0600);
    assert_refused("KOLO_SECRET_FILE: a secret has 16 characters or more");
    write_file("xxxxxxxxxxxxxxx\n\n", 17, 0600);
    assert_refused("16 characters or more");
    write_file("", 0, 0600);
    assert_refused("16 characters or more");
    write_file(text, 16, 0600);
    read_good();
    write_file(text, 4096, 0600);
    read_good();
    write_file(text, 4097, 0600);
    assert_refused("has more than 4096 bytes");
    unsetenv("KOLO_SECRET_FILE");
    setenv("KOLO_SECRET", "fifteen horses!", 1);
    assert_refused("KOLO_SECRET: a secret has 16 characters or more");
}

static void test_open_to_others(void **state) {
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0644, 0666};
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        write_file(WORDS, sizeof WORDS - 1, modes[i]);
        assert_refused("others may open it (mode 06");
        assert_message("chmod 600");
    }
}

static void test_of_another_user(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    write_file(WORDS, sizeof WORDS - 1, 0600);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_refused("belongs to user 12345");
}

static void test_no_regular_file(void **state) {
    (void)state;
    write_file(WORDS, sizeof WORDS - 1, 0600);
    assert_int_equal(symlink(path, other_path), 0);
    setenv("KOLO_SECRET_FILE", other_path, 1);
    assert_refused("is a link");
    unlink(other_path);
    assert_refused("No such file");
    assert_int_equal(mkfifo(other_path, 0600), 0);
    assert_refused("is no regular file"); /* and opening it does not block */
    setenv("KOLO_SECRET_FILE", folder, 1);
    assert_refused("is no regular file");
    setenv("KOLO_SECRET_FILE", "/dev/zero", 1);
    assert_refused("is no regular file");
}

/* By Python: key = hmac(WORDS, "kolo-key"), of which hmac(key, text) and hmac(key, "kolo-derive" + purpose). */
static void test_known_answers(void **state) {
    static const uint8_t key[KOLO_KEY_BYTES] = {0xbc, 0xfa, 0x42, 0x13, 0x9f, 0xd6, 0x91, 0x7b, 0x1d, 0xe2, 0xd9,
                                                0xeb, 0xe1, 0x75, 0x9b, 0xed, 0x0a, 0xb4, 0x76, 0xd2, 0x54, 0x07,
                                                0x0f, 0x95, 0x11, 0x34, 0x5e, 0xac, 0x53, 0x32, 0x7c, 0x07};
    static const uint8_t proof[KOLO_KEY_BYTES] = {0x40, 0x5e, 0x3b, 0x75, 0xe7, 0x49, 0x55, 0xcb, 0x44, 0x3c, 0x13,
                                                  0x49, 0x7e, 0xfe, 0x34, 0xec, 0xd6, 0xf8, 0x93, 0x2f, 0x89, 0x4e,
                                                  0x67, 0xa2, 0x9a, 0xba, 0x2c, 0x08, 0xb2, 0x42, 0x1b, 0xd9};
    static const uint8_t derived_key[KOLO_KEY_BYTES] = {
        0x6e, 0x47, 0x13, 0x3e, 0x98, 0xfa, 0xaa, 0x35, 0x98, 0x40, 0x3f, 0xee, 0xb7, 0xc4, 0xdb, 0x26,
        0x6d, 0x76, 0x2a, 0x0c, 0xa2, 0x56, 0x33, 0xfb, 0x31, 0x50, 0xbe, 0x72, 0x00, 0xeb, 0x70, 0x2a};
    uint8_t made[KOLO_KEY_BYTES];
    struct kolo_secret derived;
    (void)state;
    setenv("KOLO_SECRET", WORDS, 1);
    const struct kolo_secret secret = read_good();
    assert_memory_equal(secret.key, key, sizeof key);
    kolo_secret_prove(&secret, "what is said", 12, made);
    assert_memory_equal(made, proof, sizeof proof);
    kolo_secret_derive(&secret, "session", 7, &derived);
    assert_true(derived.used);
    assert_memory_equal(derived.key, derived_key, sizeof derived_key);
}

static void test_check(void **state) {
    uint8_t proof[KOLO_KEY_BYTES];
    (void)state;
    setenv("KOLO_SECRET", WORDS, 1);
    const struct kolo_secret secret = read_good();
    kolo_secret_prove(&secret, "what is said", 12, proof);
    assert_true(kolo_secret_check(&secret, "what is said", 12, proof));
    assert_false(kolo_secret_check(&secret, "what is said", 11, proof));
    assert_false(kolo_secret_check(&secret, "What is said", 12, proof));
    for (size_t bit = 0; bit < 8 * sizeof proof; bit++) {
        proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(kolo_secret_check(&secret, "what is said", 12, proof));
        proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void test_forget(void **state) {
    struct kolo_secret secret, zeros;
    (void)state;
    memset(&secret, 0xff, sizeof secret);
    memset(&zeros, 0, sizeof zeros);
    kolo_secret_forget(&secret);
    assert_memory_equal(&secret, &zeros, sizeof secret);
}

static void test_random(void **state) {
    uint8_t first[1000] = {0}, second[1000] = {0};
    (void)state;
    assert_int_equal(kolo_random_bytes(first, sizeof first), 0);
    assert_int_equal(kolo_random_bytes(second, sizeof second), 0);
    assert_memory_not_equal(first, second, sizeof first);
    assert_memory_not_equal(first + 968, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
}

static void test_hidden(void **state) {
    kolo_variable variable = {.variable_bytes = sizeof variable};
    (void)state;
    setenv("KOLO_SECRET", WORDS, 1);
    for (size_t i = 0; kolo_variable_get(i, &variable) == 0; i++)
        assert_true(!variable.value || !strstr(variable.value, "horse"));
}

/* A build without libsodium has no secrets. */
static void test_no_libsodium(void **state) {
    struct kolo_secret secret;
    (void)state;
    setenv("KOLO_SECRET", WORDS, 1);
    assert_int_equal(kolo_secret_read(&secret), KOLO_ERR_UNSUPPORTED);
    assert_message("libsodium");
    assert_message("KOLO_SECRET=none");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
    const struct CMUnitTest always[] = {TEST(test_none), TEST(test_file_beside_none), TEST(test_forget),
                                        TEST(test_random), TEST(test_hidden)};
    const struct CMUnitTest with_libsodium[] = {
        TEST(test_not_set),         TEST(test_file_and_variable_agree), TEST(test_file_goes_first),
        TEST(test_lengths),         TEST(test_open_to_others),          TEST(test_of_another_user),
        TEST(test_no_regular_file), TEST(test_known_answers),           TEST(test_check),
    };
    const struct CMUnitTest without_libsodium[] = {TEST(test_no_libsodium)};
    int failed = cmocka_run_group_tests(always, NULL, NULL);
    if (KOLO_HAVE_SODIUM)
        failed += cmocka_run_group_tests(with_libsodium, NULL, NULL);
    else
        failed += cmocka_run_group_tests(without_libsodium, NULL, NULL);
    return failed;
}
