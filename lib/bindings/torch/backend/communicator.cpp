/* How the ranks of a group meet. A store may outlive a group, and see others of the same name with other members: a
 * program may destroy its groups and make them again, and torchrun may start all ranks again. So nobody counts
 * meetings. Rank 0 gives each a random name, and every other rank takes part in none but that which has taken note of a
 * random number of its own. Behind kolo/ are call      written by rank 0: "NAME", then "NAME RENDEZVOUS NUMBER...",
 * with the number of each rank but 0. Read by all others, again and again, as it may be of an earlier meeting. NAME is
 * the job's; RENDEZVOUS is "-" where all are on one machine, else HOST:PORT, where kolo finds out which ranks share a
 * machine. NAME/RANK written by each rank but 0 when it reads a name: "NUMBER MACHINE". Read by rank 0, when it has
 * them all. What an earlier meeting has left, complete or not, is thus never taken: a call that is over lacks the
 * numbers of those who come later, and nobody who has ended writes behind a new name. A rank that ends before it has
 * written its key lets the others wait for the timeout, and one that ends later is noticed by kolo. The job's name is
 * gone as soon as all have come (kolo_job_name in kolo_tools.h).
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

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

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

std::string random_digits() {
    unsigned char bytes[16];
    TORCH_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "kolo: the kernel gives no random numbers");
    std::string digits;
    for (const unsigned char byte : bytes)
        digits += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    return digits;
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

std::vector<std::string> words(const std::string &text) {
    std::istringstream stream(text);
    return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

/* Looks again and again whether `has_come`, ever more rarely. Signals are handled meanwhile. False: not in time. */
template <class Condition> bool await(std::chrono::milliseconds timeout, Condition has_come) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const std::chrono::microseconds longest(10000);
    std::chrono::microseconds pause(50);
    while (!has_come()) {
        if (limit_ms(timeout) && Clock::now() - begin > limited(timeout))
            return false;
        if (pause == longest && handle_signals(nullptr))
            raise_interruption();
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, longest);
    }
    return true;
}

/* Rank 0's part: what it has written as the call in the end, in words. */
std::vector<std::string> call_others(c10d::Store &store, int size, std::chrono::milliseconds timeout) {
    const std::string own = machine(), name = "torch-" + random_digits();
    std::vector<std::string> keys;
    for (int r = 1; r < size; r++)
        keys.push_back(name + "/" + std::to_string(r));
    if (size > 1)
        write(store, "call", name);
    if (!await(timeout, [&] { return size == 1 || store.check(keys); })) {
        std::string late;
        for (int r = 1; r < size; r++)
            if (!store.check({keys[static_cast<size_t>(r) - 1]}))
                late += (late.empty() ? "" : ", ") + std::to_string(r);
        throw_error("kolo: Timed out waiting: ranks " + late + " of the group have not come to meet the others");
    }
    bool is_one = true;
    std::string numbers;
    for (const std::string &key : keys) {
        const auto answer = words(read(store, key));
        is_one = answer.at(1) == own && is_one;
        numbers += " " + answer.at(0);
    }
    const std::string call = name + " " + (is_one ? "-" : own_address()) + numbers;
    if (size > 1)
        write(store, "call", call);
    return words(call);
}

/* The others': the same. */
std::vector<std::string> answer_call(c10d::Store &store, int rank, std::chrono::milliseconds timeout) {
    const std::string number = random_digits(), answer = number + " " + machine();
    std::vector<std::string> call;
    std::string answered;
    const auto is_ours = [&] {
        if (!store.check({"call"}))
            return false;
        call = words(read(store, "call"));
        if (call.at(0) != answered)
            write(store, (answered = call[0]) + "/" + std::to_string(rank), answer);
        const auto own = static_cast<size_t>(rank) + 1;
        return call.size() > own && call[own] == number;
    };
    if (!await(timeout, is_ours))
        throw_error("kolo: Timed out waiting: rank 0 of the group, or another one for which it waits, has not come");
    return call;
}

} // namespace

Meeting meet(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, std::chrono::milliseconds timeout) {
    c10d::PrefixStore prefixed("kolo/", store);
    const auto call = rank > 0 ? answer_call(prefixed, rank, timeout) : call_others(prefixed, size, timeout);
    const std::string &name = call.at(0), &address = call.at(1);
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.job = name.c_str();
    options.rendezvous = address == "-" ? "" : address.c_str();
    options.timeout_ms = options.create_timeout_ms = limit_ms(timeout);
    options.progress = 1;
    kolo_comm *comm = nullptr;
    check(kolo_comm_create(&comm, &options));
    return {std::make_shared<Communicator>(comm), c10::make_intrusive<c10d::PrefixStore>("kolo/" + name, store)};
}

} // namespace kolo_torch
