/* IPv4 and IPv6 addresses. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define KOLO_ADDRESS_TEXT_BYTES 72 /* "[address%zone]:port" */
#define KOLO_ADDRESS_WIRE_BYTES 24

struct kolo_address {
    struct sockaddr_storage storage;
    socklen_t bytes;
};

/* Reads "HOST:PORT", "ADDRESS:PORT" or "[IPV6]:PORT" and looks the host up. `name` is the setting that has this value,
 * for messages. KOLO_ERR_ARG: not that form, or a port outside 1 to 65535. KOLO_ERR_SYSTEM: there is no such host. */
int kolo_address_parse(const char *name, const char *text, struct kolo_address *address);

/* Reads the name of a network interface ("eth1": its first global address of `family`; AF_UNSPEC: any family) or a
 * numeric address of this machine; port 0. KOLO_ERR_ARG: the message lists the interfaces. */
int kolo_address_of_interface(const char *name, const char *text, int family, struct kolo_address *address);

/* The address of a socket, or of the other side of a connected one. Returns 0 or a negative errno. */
int kolo_address_of_socket(int fd, struct kolo_address *address);
int kolo_address_of_peer(int fd, struct kolo_address *address);

uint16_t kolo_address_port(const struct kolo_address *address);
void kolo_address_set_port(struct kolo_address *address, uint16_t port);

/* True for an address that stands for all of a machine's (0.0.0.0, ::). */
bool kolo_address_is_any(const struct kolo_address *address);

/* Makes an address that came through the connection fd usable here: an address that stands for all of a machine's
 * becomes the other side's, and a link-local one gets the interface of that connection. 0 or a negative errno. */
int kolo_address_localize(struct kolo_address *address, int fd);

/* Packs and reads an address in the form that machines send each other: family, port, scope, and 16 bytes, of which
 * IPv4 uses the first four. The second returns false where those KOLO_ADDRESS_WIRE_BYTES are no address with a port. */
void kolo_address_pack(const struct kolo_address *address, uint8_t *bytes);
bool kolo_address_unpack(const uint8_t *bytes, struct kolo_address *address);

/* Writes "10.0.0.1:29500" or "[fe80::1%2]:29500" into text of KOLO_ADDRESS_TEXT_BYTES, and returns it. */
const char *kolo_address_text(const struct kolo_address *address, char *text);
