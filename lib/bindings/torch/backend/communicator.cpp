/* How the ranks of a group meet. A store may outlive a group, and see another one of the same name: a program may
 * destroy its groups and make them again, and torchrun may start all ranks again. So each meeting has keys of its own,
 * behind kolo/START/ROUND/: START counts torchrun's starts, and ROUND the meetings that this rank has begun since.
 *     RANK   written by each rank but 0: on which machine it is. Read by rank 0.
 *     meet   written by rank 0, when it has them all: "JOB RENDEZVOUS". Read by all others. RENDEZVOUS is "-" where
 *            all are on one machine, else HOST:PORT, where kolo finds out which ranks share a machine.
 * A rank that ends before it has written its key lets the others wait for the store's timeout, and one that ends later
 * for kolo's, which then names it. The job's name is gone as soon as all have come (kolo_job_name in kolo_tools.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "communicator.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace kolo_torch {

void fail(int status) {
    const std::string message = kolo_error_message();
    raise_interruption();
    throw_error(error_text(status, message));
}

void throw_error(const std::string &text) {
    throw c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text);
}

std::string error_text(int status, const std::string &message) {
    /* Programs look for these words. */
    return (status == KOLO_ERR_TIMEOUT ? "kolo: Timed out waiting: " : "kolo: ") +
           (message.empty() ? kolo_strerror(status) : message);
}

namespace {

using Address = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/* Equal for ranks that can share memory by a name: one kernel, one /dev/shm, one user. */
std::string machine() {
    std::string boot = "unknown";
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    struct stat shm = {};
    stat("/dev/shm", &shm);
    return boot + "/" + std::to_string(shm.st_dev) + "/" + std::to_string(geteuid());
}

std::string random_name() {
    unsigned char bytes[16];
    TORCH_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "kolo: the kernel gives no random numbers");
    std::string name = "torch-";
    for (const unsigned char byte : bytes)
        name += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    return name;
}

Address look_up(const std::string &host) {
    addrinfo hints = {}, *found = nullptr;
    hints.ai_socktype = SOCK_DGRAM;
    const int rc = getaddrinfo(host.c_str(), "1", &hints, &found);
    TORCH_CHECK(rc == 0, "kolo: looking up MASTER_ADDR, ", host, ": ", gai_strerror(rc));
    return Address(found, freeaddrinfo);
}

/* What `ask` learns of a socket of that kind. */
template <class Ask> sockaddr_storage ask_socket(int family, int kind, const char *failure, Ask ask) {
    sockaddr_storage own = {};
    socklen_t length = sizeof own;
    const int fd = socket(family, kind | SOCK_CLOEXEC, 0);
    const bool known = fd >= 0 && ask(fd) == 0 && getsockname(fd, reinterpret_cast<sockaddr *>(&own), &length) == 0;
    if (fd >= 0)
        close(fd);
    TORCH_CHECK(known, "kolo: the ranks are on several machines, but ", failure);
    return own;
}

/* "HOST:PORT" of this machine: the address with which it reaches MASTER_ADDR, and a port that is free now. A datagram
 * socket that is connected has sent nothing. */
std::string own_address() {
    const char *const master = getenv("MASTER_ADDR");
    TORCH_CHECK(master && *master, "kolo: the ranks are on several machines: set MASTER_ADDR to the name or address of "
                                   "the first one, as torchrun does");
    const Address address = look_up(master);
    const int family = address->ai_family;
    const sockaddr_storage own = ask_socket(family, SOCK_DGRAM, "there is no way to MASTER_ADDR",
                                            [&](int fd) { return connect(fd, address->ai_addr, address->ai_addrlen); });
    const sockaddr_storage free = ask_socket(family, SOCK_STREAM, "no port is free to meet at", [&](int fd) {
        sockaddr_storage any = {};
        any.ss_family = static_cast<sa_family_t>(family);
        return bind(fd, reinterpret_cast<sockaddr *>(&any), address->ai_addrlen);
    });
    char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
    getnameinfo(reinterpret_cast<const sockaddr *>(&own), address->ai_addrlen, host, sizeof host, nullptr, 0,
                NI_NUMERICHOST);
    getnameinfo(reinterpret_cast<const sockaddr *>(&free), address->ai_addrlen, nullptr, 0, port, sizeof port,
                NI_NUMERICSERV);
    return (family == AF_INET6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + port;
}

std::string read(c10d::Store &store, const std::string &key) {
    const std::vector<uint8_t> value = store.get(key);
    return {value.begin(), value.end()};
}

void write(c10d::Store &store, const std::string &key, const std::string &value) {
    store.set(key, std::vector<uint8_t>(value.begin(), value.end()));
}

/* "JOB RENDEZVOUS". */
std::string agree(c10d::Store &store, int rank, int size) {
    const std::string own = machine();
    if (rank > 0) {
        write(store, std::to_string(rank), own);
        return read(store, "meet");
    }
    bool is_one = true;
    for (int r = 1; r < size; r++)
        is_one = read(store, std::to_string(r)) == own && is_one;
    const std::string meeting = random_name() + " " + (is_one ? "-" : own_address());
    if (size > 1)
        write(store, "meet", meeting);
    return meeting;
}

} // namespace

c10::intrusive_ptr<c10d::Store> begin_round(const c10::intrusive_ptr<c10d::Store> &store, int rank) {
    const char *const start = getenv("TORCHELASTIC_RESTART_COUNT");
    const std::string prefix = std::string("kolo/") + (start ? start : "0") + "/";
    const int64_t round = store->add(prefix + "rounds/" + std::to_string(rank), 1);
    return c10::make_intrusive<c10d::PrefixStore>(prefix + std::to_string(round), store);
}

std::shared_ptr<Communicator> meet(c10d::Store &store, int rank, int size, std::chrono::milliseconds timeout) {
    const std::string meeting = agree(store, rank, size);
    const size_t space = meeting.find(' ');
    const std::string job = meeting.substr(0, space), address = meeting.substr(space + 1);
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.job = job.c_str();
    options.rendezvous = address == "-" ? "" : address.c_str();
    options.timeout_ms = options.create_timeout_ms = limit_ms(timeout);
    options.progress = 1;
    kolo_comm *comm = nullptr;
    check(kolo_comm_create(&comm, &options));
    return std::make_shared<Communicator>(comm);
}

} // namespace kolo_torch
