/* The secret that the processes of a job share, and the keys and proofs that are computed with it. It uses libsodium; a
 * build without libsodium (KOLO_HAVE_SODIUM 0) has no secrets, and connects only with KOLO_SECRET=none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KOLO_KEY_BYTES 32 /* of a key, a nonce and a proof */

struct kolo_secret {
    bool used; /* false: KOLO_SECRET=none; proofs are zeros and are not compared */
    uint8_t key[KOLO_KEY_BYTES];
};

/* Reads KOLO_SECRET_FILE (a regular file of this user's, mode 0600 or stricter, not a link, 16 to 4096 bytes), else
 * KOLO_SECRET (16 characters at least), and makes a key of it; KOLO_SECRET=none and no file: none. KOLO_ERR_ARG where
 * neither is set, the file is open to others, too short ...; KOLO_ERR_UNSUPPORTED in a build without libsodium. */
int kolo_secret_read(struct kolo_secret *secret);

/* Derives a key for one purpose from a key and the purpose. */
void kolo_secret_derive(const struct kolo_secret *secret, const void *purpose, size_t bytes,
                        struct kolo_secret *derived);

/* proof = HMAC-SHA-256(key, text). */
void kolo_secret_prove(const struct kolo_secret *secret, const void *text, size_t bytes, uint8_t proof[KOLO_KEY_BYTES]);

/* Compares in constant time. */
bool kolo_secret_check(const struct kolo_secret *secret, const void *text, size_t bytes,
                       const uint8_t proof[KOLO_KEY_BYTES]);

/* Random bytes from the kernel. KOLO_ERR_SYSTEM. */
int kolo_random_bytes(void *bytes, size_t count);

/* Overwrites the secret. */
void kolo_secret_forget(struct kolo_secret *secret);
