/* Converts addresses between text, bytes for the wire, and what sockets take. */
#include "net/connect/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wire.h"

enum { FAMILY_IPV4 = 4, FAMILY_IPV6 = 6 };
enum { PORT_AT = 2, SCOPE_AT = 4, HOST_AT = 8 }; /* in an address's bytes */
enum { HOST_BYTES = 256, PORT_DIGITS_MAX = 5, PORT_MAX = 65535, LIST_BYTES = 640 };

static void copy_address(struct kolo_address *address, const struct sockaddr *from) {
    memset(address, 0, sizeof *address);
    address->bytes = from->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    memcpy(&address->storage, from, address->bytes);
}

static const struct sockaddr_in *as_ipv4(const struct kolo_address *address) {
    return (const struct sockaddr_in *)&address->storage;
}

static const struct sockaddr_in6 *as_ipv6(const struct kolo_address *address) {
    return (const struct sockaddr_in6 *)&address->storage;
}

static bool is_loopback(const struct kolo_address *address) {
    return address->storage.ss_family == AF_INET ? ntohl(as_ipv4(address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
                                                 : IN6_IS_ADDR_LOOPBACK(&as_ipv6(address)->sin6_addr);
}

uint16_t kolo_address_port(const struct kolo_address *address) {
    return ntohs(address->storage.ss_family == AF_INET ? as_ipv4(address)->sin_port : as_ipv6(address)->sin6_port);
}

void kolo_address_set_port(struct kolo_address *address, uint16_t port) {
    if (address->storage.ss_family == AF_INET)
        ((struct sockaddr_in *)&address->storage)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)&address->storage)->sin6_port = htons(port);
}

bool kolo_address_is_any(const struct kolo_address *address) {
    return address->storage.ss_family == AF_INET ? as_ipv4(address)->sin_addr.s_addr == htonl(INADDR_ANY)
                                                 : IN6_IS_ADDR_UNSPECIFIED(&as_ipv6(address)->sin6_addr);
}

/* Writes the host without the port: "10.0.0.1", "fe80::1%2". */
static void write_host(const struct kolo_address *address, char *text, size_t room) {
    char number[INET6_ADDRSTRLEN] = "?";
    if (address->storage.ss_family == AF_INET) {
        inet_ntop(AF_INET, &as_ipv4(address)->sin_addr, number, sizeof number);
        snprintf(text, room, "%s", number);
        return;
    }
    const uint32_t zone = as_ipv6(address)->sin6_scope_id;
    inet_ntop(AF_INET6, &as_ipv6(address)->sin6_addr, number, sizeof number);
    if (zone)
        snprintf(text, room, "%s%%%u", number, zone);
    else
        snprintf(text, room, "%s", number);
}

const char *kolo_address_text(const struct kolo_address *address, char *text) {
    char host[KOLO_ADDRESS_TEXT_BYTES - 8]; /* less brackets, colon and port */
    write_host(address, host, sizeof host);
    const char *format = address->storage.ss_family == AF_INET ? "%s:%u" : "[%s]:%u";
    snprintf(text, KOLO_ADDRESS_TEXT_BYTES, format, host, (unsigned)kolo_address_port(address));
    return text;
}

/* Splits the text at the colon before the port. An IPv6 address, which has colons of its own, stands in brackets. */
static bool split(const char *text, char *host, uint16_t *port) {
    const bool bracketed = *text == '[';
    const char *begin = text + bracketed, *end = strchr(begin, bracketed ? ']' : ':');
    if (!end || end == begin || end - begin >= HOST_BYTES)
        return false;
    const char *colon = end + bracketed, *digits = colon + 1;
    if (*colon != ':' || (bracketed && !memchr(begin, ':', (size_t)(end - begin))))
        return false;
    const size_t count = strspn(digits, "0123456789");
    uint32_t number = 0;
    if (count < 1 || count > PORT_DIGITS_MAX || digits[count])
        return false;
    for (size_t i = 0; i < count; i++)
        number = 10 * number + (uint32_t)(digits[i] - '0');
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = (uint16_t)number;
    return number >= 1 && number <= PORT_MAX;
}

/* All machines of a job must choose the same one of a host's addresses, in whatever order their resolvers give them:
 * IPv4 before IPv6, and loopback addresses last. */
static int rank_of(const struct kolo_address *address) {
    return 2 * is_loopback(address) + (address->storage.ss_family == AF_INET6);
}

static bool choose(const struct addrinfo *found, struct kolo_address *address) {
    bool any = false;
    for (const struct addrinfo *one = found; one; one = one->ai_next) {
        struct kolo_address candidate;
        if (one->ai_family != AF_INET && one->ai_family != AF_INET6)
            continue;
        copy_address(&candidate, one->ai_addr);
        if (!any || rank_of(&candidate) < rank_of(address))
            *address = candidate;
        any = true;
    }
    return any;
}

int kolo_address_parse(const char *name, const char *text, struct kolo_address *address) {
    char host[HOST_BYTES];
    uint16_t port;
    if (!split(text, host, &port))
        return kolo_fail(KOLO_ERR_ARG,
                         "%s=%.256s: must be HOST:PORT, ADDRESS:PORT or [IPV6-ADDRESS]:PORT, PORT from 1 to 65535",
                         name, text);
    const bool numeric = *text == '[';
    const struct addrinfo hints = {.ai_family = numeric ? AF_INET6 : AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = numeric ? AI_NUMERICHOST : AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    const int rc = getaddrinfo(host, NULL, &hints, &found);
    if (rc == EAI_SYSTEM)
        return kolo_fail_system(errno, "%s=%.256s: looking up the host", name, text);
    if (rc != 0 && numeric)
        return kolo_fail(KOLO_ERR_ARG, "%s=%.256s: '%s' is no address of IPv6", name, text, host);
    if (rc != 0)
        return kolo_fail(KOLO_ERR_SYSTEM, "%s=%.256s: no such host: %s", name, text, gai_strerror(rc));
    const bool any = choose(found, address);
    freeaddrinfo(found);
    if (!any)
        return kolo_fail(KOLO_ERR_SYSTEM, "%s=%.256s: the host has no address of IPv4 or IPv6", name, text);
    kolo_address_set_port(address, port);
    return 0;
}

/* Interfaces. */

static bool has_address(const struct ifaddrs *one, int family) {
    const int found = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
    return (found == AF_INET || found == AF_INET6) && (family == AF_UNSPEC || found == family);
}

/* A link-local address is of no use to other machines. */
static bool is_global(const struct ifaddrs *one) {
    return one->ifa_addr->sa_family == AF_INET ||
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)one->ifa_addr)->sin6_addr);
}

/* Finds the interface of that name; false: there is none. *found is its address, IPv4 before IPv6, or has no bytes. */
static bool find_interface(const struct ifaddrs *all, const char *name, int family, struct kolo_address *found) {
    bool exists = false;
    found->bytes = 0;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        if (strcmp(one->ifa_name, name) != 0)
            continue;
        exists = true;
        if (!has_address(one, family) || !is_global(one))
            continue;
        if (found->bytes == 0 || (found->storage.ss_family == AF_INET6 && one->ifa_addr->sa_family == AF_INET))
            copy_address(found, one->ifa_addr);
    }
    return exists;
}

/* "lo 127.0.0.1, eth0 10.0.0.2" */
static const char *list_interfaces(const struct ifaddrs *all, int family, char *list) {
    *list = '\0';
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        struct kolo_address address;
        char host[KOLO_ADDRESS_TEXT_BYTES];
        if (!has_address(one, family) || !is_global(one))
            continue;
        copy_address(&address, one->ifa_addr);
        write_host(&address, host, sizeof host);
        kolo_text_add(list, LIST_BYTES, "%s%s %s", *list ? ", " : "", one->ifa_name, host);
    }
    return *list ? list : "none";
}

static bool parse_number(const char *text, struct kolo_address *address) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    if (getaddrinfo(text, NULL, &hints, &found) != 0)
        return false;
    copy_address(address, found->ai_addr);
    freeaddrinfo(found);
    return true;
}

/* Whether a socket can be bound to the address. That includes all of 127.0.0.0/8, which no list of addresses holds. */
static bool is_of_this_machine(const struct kolo_address *address) {
    const int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    const bool bound = bind(fd, (const struct sockaddr *)&address->storage, address->bytes) == 0;
    close(fd);
    return bound;
}

static const char *family_name(int family) {
    return family == AF_INET ? "IPv4" : family == AF_INET6 ? "IPv6" : "IPv4 or IPv6";
}

static int find_in(const struct ifaddrs *all, const char *name, const char *text, int family,
                   struct kolo_address *address) {
    char list[LIST_BYTES];
    if (find_interface(all, text, family, address)) {
        if (address->bytes)
            return 0;
        return kolo_fail(KOLO_ERR_ARG, "%s=%.64s: the interface has no global address of %s; there are: %s", name, text,
                         family_name(family), list_interfaces(all, AF_UNSPEC, list));
    }
    if (!parse_number(text, address) || !is_of_this_machine(address))
        return kolo_fail(KOLO_ERR_ARG, "%s=%.64s: neither an interface nor an address of this machine; there are: %s",
                         name, text, list_interfaces(all, family, list));
    if (family != AF_UNSPEC && address->storage.ss_family != family)
        return kolo_fail(KOLO_ERR_ARG, "%s=%.64s: must be an address of %s; there are: %s", name, text,
                         family_name(family), list_interfaces(all, family, list));
    return 0;
}

int kolo_address_of_interface(const char *name, const char *text, int family, struct kolo_address *address) {
    struct ifaddrs *all = NULL;
    struct kolo_address found;
    if (getifaddrs(&all) < 0)
        return kolo_fail_system(errno, "%s=%.64s: listing the network interfaces", name, text);
    const int rc = find_in(all, name, text, family, &found);
    freeifaddrs(all);
    if (rc == 0)
        *address = found;
    return rc;
}

int kolo_address_of_socket(int fd, struct kolo_address *address) {
    *address = (struct kolo_address){.bytes = sizeof address->storage};
    return getsockname(fd, (struct sockaddr *)&address->storage, &address->bytes) < 0 ? -errno : 0;
}

int kolo_address_of_peer(int fd, struct kolo_address *address) {
    *address = (struct kolo_address){.bytes = sizeof address->storage};
    return getpeername(fd, (struct sockaddr *)&address->storage, &address->bytes) < 0 ? -errno : 0;
}

int kolo_address_localize(struct kolo_address *address, int fd) {
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->storage;
    const bool is_any = kolo_address_is_any(address);
    struct kolo_address peer;
    if (!is_any && (address->storage.ss_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)))
        return 0;
    const int rc = kolo_address_of_peer(fd, &peer);
    if (rc < 0)
        return rc;
    if (is_any) {
        const uint16_t port = kolo_address_port(address);
        *address = peer;
        kolo_address_set_port(address, port);
    } else if (peer.storage.ss_family == AF_INET6) {
        in6->sin6_scope_id = as_ipv6(&peer)->sin6_scope_id;
    }
    return 0;
}

void kolo_address_pack(const struct kolo_address *address, uint8_t *bytes) {
    const bool ipv6 = address->storage.ss_family == AF_INET6;
    memset(bytes, 0, KOLO_ADDRESS_WIRE_BYTES);
    kolo_wire_put(bytes, ipv6 ? FAMILY_IPV6 : FAMILY_IPV4, 2);
    kolo_wire_put(bytes + PORT_AT, kolo_address_port(address), 2);
    kolo_wire_put(bytes + SCOPE_AT, ipv6 ? as_ipv6(address)->sin6_scope_id : 0, 4);
    if (ipv6)
        memcpy(bytes + HOST_AT, &as_ipv6(address)->sin6_addr, sizeof(struct in6_addr));
    else
        memcpy(bytes + HOST_AT, &as_ipv4(address)->sin_addr, sizeof(struct in_addr));
}

bool kolo_address_unpack(const uint8_t *bytes, struct kolo_address *address) {
    const uint64_t port = kolo_wire_get(bytes + PORT_AT, 2);
    memset(address, 0, sizeof *address);
    if (kolo_wire_get(bytes, 2) == FAMILY_IPV6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->storage;
        in6->sin6_family = AF_INET6;
        in6->sin6_scope_id = (uint32_t)kolo_wire_get(bytes + SCOPE_AT, 4);
        memcpy(&in6->sin6_addr, bytes + HOST_AT, sizeof in6->sin6_addr);
        address->bytes = sizeof *in6;
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)&address->storage;
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, bytes + HOST_AT, sizeof in->sin_addr);
        address->bytes = sizeof *in;
    }
    kolo_address_set_port(address, (uint16_t)port);
    return port != 0;
}
