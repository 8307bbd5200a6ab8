/* Addresses: what is read, what is refused with a message that quotes it, and how they are written. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kolo.h"
#include "net/connect/address.h"

static void assert_message(const char *words) {
    if (!strstr(kolo_error_message(), words))
        fail_msg("'%s' is not in '%s'", words, kolo_error_message());
}

static void test_good(void **state) {
    static const struct {
        const char *text, *written;
        bool any;
    } good[] = {
        {"10.0.0.1:29500", "10.0.0.1:29500", false},
        {"127.0.0.1:1", "127.0.0.1:1", false},
        {"0.0.0.0:65535", "0.0.0.0:65535", true},
        {"192.168.100.200:00080", "192.168.100.200:80", false},
        {"[::1]:29500", "[::1]:29500", false},
        {"[::]:29500", "[::]:29500", true},
        {"[fd00:0:0::12]:29500", "[fd00::12]:29500", false},
        {"[fe80::1%1]:29500", "[fe80::1%1]:29500", false},
        {"[fe80::1%lo]:29500", "[fe80::1%1]:29500", false},
        {"[1111:2222:3333:4444:5555:6666:7777:8888]:65535", "[1111:2222:3333:4444:5555:6666:7777:8888]:65535", false},
        {"localhost:29500", "127.0.0.1:29500", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct kolo_address address;
        char text[KOLO_ADDRESS_TEXT_BYTES];
        assert_int_equal(kolo_address_parse("NAME", good[i].text, &address), 0);
        assert_string_equal(kolo_address_text(&address, text), good[i].written);
        assert_int_equal(kolo_address_is_any(&address), good[i].any);
    }
}

static void test_refused(void **state) {
    static const char *const refused[] = {
        "",
        ":",
        ":29500",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:99999999999999999999",
        "host:-1",
        "host:+1",
        "host: 80",
        "host:80 ",
        "host:http",
        "10.0.0.1:29500:29500",
        "::1:29500",
        "fe80::1:29500",
        "[::1]",
        "[::1]29500",
        "[::1]:",
        "[::1]:0",
        "[::1:29500",
        "[]:29500",
        "[10.0.0.1]:29500",
        "[localhost]:29500",
        "[::1::2]:29500",
        "[fe80::1%nosuch0]:29500",
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct kolo_address address;
        char quoted[64];
        if (kolo_address_parse("NAME", refused[i], &address) != KOLO_ERR_ARG)
            fail_msg("'%s' is not refused", refused[i]);
        snprintf(quoted, sizeof quoted, "NAME=%s: ", refused[i]);
        assert_message(quoted);
    }
}

static void test_long_host(void **state) {
    struct kolo_address address;
    char text[400];
    (void)state;
    memset(text, 'h', sizeof text);
    memcpy(text + sizeof text - 7, ":29500", 7);
    assert_int_equal(kolo_address_parse("NAME", text, &address), KOLO_ERR_ARG);
    assert_int_equal(kolo_address_parse("NAME", text + 140, &address), KOLO_ERR_SYSTEM);
}

static void test_no_such_host(void **state) {
    struct kolo_address address;
    (void)state;
    assert_int_equal(kolo_address_parse("NAME", "no-such-host.invalid:29500", &address), KOLO_ERR_SYSTEM);
    assert_message("NAME=no-such-host.invalid:29500: no such host");
}

static void test_port(void **state) {
    struct kolo_address address;
    (void)state;
    for (int v6 = 0; v6 < 2; v6++) {
        assert_int_equal(kolo_address_parse("NAME", v6 ? "[::1]:29500" : "127.0.0.1:29500", &address), 0);
        assert_int_equal(kolo_address_port(&address), 29500);
        kolo_address_set_port(&address, 7);
        assert_int_equal(kolo_address_port(&address), 7);
    }
}

static void test_interface(void **state) {
    struct kolo_address address;
    char text[KOLO_ADDRESS_TEXT_BYTES];
    (void)state;
    assert_int_equal(kolo_address_of_interface("NAME", "lo", AF_UNSPEC, &address), 0);
    assert_string_equal(kolo_address_text(&address, text), "127.0.0.1:0");
    assert_int_equal(kolo_address_of_interface("NAME", "lo", AF_INET, &address), 0);
    assert_string_equal(kolo_address_text(&address, text), "127.0.0.1:0");
    assert_int_equal(kolo_address_of_interface("NAME", "127.0.0.9", AF_INET, &address), 0);
    assert_string_equal(kolo_address_text(&address, text), "127.0.0.9:0");
    assert_int_equal(kolo_address_of_interface("NAME", "0.0.0.0", AF_UNSPEC, &address), 0);
    assert_true(kolo_address_is_any(&address));
}

static void test_no_interface(void **state) {
    /* 192.0.2.0/24 is for documentation: nobody has it. */
    static const char *const wrong[] = {"nosuch0", "192.0.2.1", "2001:db8::1", "", "lo ", "127.0.0.1:29500"};
    struct kolo_address address;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char quoted[64];
        assert_int_equal(kolo_address_of_interface("NAME", wrong[i], AF_UNSPEC, &address), KOLO_ERR_ARG);
        snprintf(quoted, sizeof quoted, "NAME=%s: neither", wrong[i]);
        assert_message(quoted);
        assert_message("lo 127.0.0.1");
    }
    assert_int_equal(kolo_address_of_interface("NAME", "127.0.0.1", AF_INET6, &address), KOLO_ERR_ARG);
    assert_message("NAME=127.0.0.1: must be an address of IPv6");
}

static void test_socket(void **state) {
    struct kolo_address address;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[KOLO_ADDRESS_TEXT_BYTES];
    (void)state;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(kolo_address_of_socket(fd, &address), 0);
    assert_true(kolo_address_port(&address) != 0);
    kolo_address_set_port(&address, 0);
    assert_string_equal(kolo_address_text(&address, text), "127.0.0.1:0");
    close(fd);
    assert_int_equal(kolo_address_of_socket(fd, &address), -EBADF);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),         cmocka_unit_test(test_refused), cmocka_unit_test(test_long_host),
        cmocka_unit_test(test_no_such_host), cmocka_unit_test(test_port),    cmocka_unit_test(test_interface),
        cmocka_unit_test(test_no_interface), cmocka_unit_test(test_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
