/* The job's secret, keys derived from it, and proofs, by libsodium. */
#include "net/connect/secret.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/status.h"

#define RECIPE "make one (head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE) and give all ranks a copy"

enum { SECRET_BYTES_MIN = 16, SECRET_BYTES_MAX = 4096 };

#if KOLO_HAVE_SODIUM

#include <sodium.h>

/* Computes an HMAC over `prefix` and then `text`. */
static void compute(const void *key, size_t key_bytes, const char *prefix, const void *text, size_t bytes,
                    uint8_t result[KOLO_KEY_BYTES]) {
    _Static_assert(KOLO_KEY_BYTES == crypto_auth_hmacsha256_BYTES, "a proof is an HMAC-SHA-256");
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, key, key_bytes);
    crypto_auth_hmacsha256_update(&state, (const uint8_t *)prefix, strlen(prefix));
    crypto_auth_hmacsha256_update(&state, text, bytes);
    crypto_auth_hmacsha256_final(&state, result);
    explicit_bzero(&state, sizeof state);
}

static bool is_equal(const uint8_t *a, const uint8_t *b) {
    return sodium_memcmp(a, b, KOLO_KEY_BYTES) == 0;
}

static int check_file(const char *name, const char *path, int fd) {
    struct stat found;
    if (fstat(fd, &found) < 0)
        return kolo_fail_system(errno, "%s=%.256s", name, path);
    if (!S_ISREG(found.st_mode))
        return kolo_fail(KOLO_ERR_ARG, "%s=%.256s: is no regular file", name, path);
    if (found.st_uid != geteuid())
        return kolo_fail(KOLO_ERR_ARG, "%s=%.256s: belongs to user %u, and this process runs as user %u", name, path,
                         (unsigned)found.st_uid, (unsigned)geteuid());
    if (found.st_mode & (S_IRWXG | S_IRWXO))
        return kolo_fail(KOLO_ERR_ARG, "%s=%.256s: others may open it (mode %04o): chmod 600 it", name, path,
                         (unsigned)(found.st_mode & 07777));
    return 0;
}

/* Reads a file, and returns its length in bytes, at most `room`, or a negative status. */
static int read_file(const char *name, const char *path, uint8_t *text, size_t room) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ELOOP)
        return kolo_fail(KOLO_ERR_ARG, "%s=%.256s: is a link: name the file itself", name, path);
    if (fd < 0) {
        kolo_fail_system(errno, "%s=%.256s", name, path);
        return KOLO_ERR_ARG;
    }
    int rc = check_file(name, path, fd);
    if (rc == 0) {
        const ssize_t bytes = kolo_file_read_at(fd, text, room, KOLO_FILE_ONWARD);
        rc = bytes < 0 ? kolo_fail_system((int)-bytes, "%s=%.256s", name, path) : (int)bytes;
    }
    close(fd);
    return rc;
}

/* Space at the end does not count, so that a file and a variable set from it are the same secret. */
static int make_key(const char *where, const uint8_t *text, size_t bytes, uint8_t *key) {
    while (bytes > 0 && isspace(text[bytes - 1]))
        bytes--;
    if (bytes < SECRET_BYTES_MIN)
        return kolo_fail(KOLO_ERR_ARG, "%s: a secret has %d characters or more: %s", where, SECRET_BYTES_MIN, RECIPE);
    compute(text, bytes, "kolo-key", "", 0, key);
    return 0;
}

static int read_secret(uint8_t *key) {
    const char *path = kolo_environment_text(KOLO_VARIABLE_SECRET_FILE);
    const char *value = kolo_environment_text(KOLO_VARIABLE_SECRET);
    const char *path_name = kolo_environment_name(KOLO_VARIABLE_SECRET_FILE);
    const char *value_name = kolo_environment_name(KOLO_VARIABLE_SECRET);
    if (!path && !value)
        return kolo_fail(KOLO_ERR_ARG,
                         "ranks on several machines need a secret that they share: %s and set %s=FILE, or %s; or, in a"
                         " network without strangers, %s=none",
                         RECIPE, path_name, value_name, value_name);
    if (sodium_init() < 0)
        return kolo_fail(KOLO_ERR_SYSTEM, "libsodium cannot be used on this machine");
    if (!path)
        return make_key(value_name, (const uint8_t *)value, strlen(value), key);
    uint8_t text[SECRET_BYTES_MAX + 1];
    int rc = read_file(path_name, path, text, sizeof text);
    if (rc > SECRET_BYTES_MAX)
        rc = kolo_fail(KOLO_ERR_ARG, "%s=%.256s: has more than %d bytes", path_name, path, SECRET_BYTES_MAX);
    if (rc >= 0)
        rc = make_key(path_name, text, (size_t)rc, key);
    explicit_bzero(text, sizeof text);
    return rc;
}

#else

static void compute(const void *key, size_t key_bytes, const char *prefix, const void *text, size_t bytes,
                    uint8_t result[KOLO_KEY_BYTES]) {
    (void)key, (void)key_bytes, (void)prefix, (void)text, (void)bytes;
    memset(result, 0, KOLO_KEY_BYTES);
}

/* Without an HMAC (no libsodium) no proof is valid. */
static bool is_equal(const uint8_t *a, const uint8_t *b) {
    (void)a, (void)b;
    return false;
}

static int read_secret(uint8_t *key) {
    (void)key;
    return kolo_fail(
        KOLO_ERR_UNSUPPORTED,
        "this build of kolo has no libsodium, so ranks on several machines cannot prove who they are: build"
        " it with libsodium or, in a network without strangers, set %s=none",
        kolo_environment_name(KOLO_VARIABLE_SECRET));
}

#endif

int kolo_secret_read(struct kolo_secret *secret) {
    const char *const value = kolo_environment_text(KOLO_VARIABLE_SECRET);
    const bool is_none = value && strcmp(value, "none") == 0 && !kolo_environment_text(KOLO_VARIABLE_SECRET_FILE);
    struct kolo_secret made = {.used = !is_none};
    const int rc = made.used ? read_secret(made.key) : 0;
    if (rc == 0)
        *secret = made;
    kolo_secret_forget(&made);
    return rc;
}

void kolo_secret_derive(const struct kolo_secret *secret, const void *purpose, size_t bytes,
                        struct kolo_secret *derived) {
    *derived = (struct kolo_secret){.used = secret->used};
    if (secret->used)
        compute(secret->key, sizeof secret->key, "kolo-derive", purpose, bytes, derived->key);
}

void kolo_secret_prove(const struct kolo_secret *secret, const void *text, size_t bytes,
                       uint8_t proof[KOLO_KEY_BYTES]) {
    memset(proof, 0, KOLO_KEY_BYTES);
    if (secret->used)
        compute(secret->key, sizeof secret->key, "", text, bytes, proof);
}

bool kolo_secret_check(const struct kolo_secret *secret, const void *text, size_t bytes,
                       const uint8_t proof[KOLO_KEY_BYTES]) {
    uint8_t expected[KOLO_KEY_BYTES];
    if (!secret->used)
        return true;
    kolo_secret_prove(secret, text, bytes, expected);
    const bool equal = is_equal(expected, proof);
    explicit_bzero(expected, sizeof expected);
    return equal;
}

int kolo_random_bytes(void *bytes, size_t count) {
    for (size_t filled = 0; filled < count;) {
        const ssize_t more = getrandom((char *)bytes + filled, count - filled, 0);
        if (more > 0)
            filled += (size_t)more;
        else if (more < 0 && errno != EINTR)
            return kolo_fail_system(errno, "random bytes of the kernel's");
    }
    return 0;
}

void kolo_secret_forget(struct kolo_secret *secret) {
    explicit_bzero(secret, sizeof *secret);
}
