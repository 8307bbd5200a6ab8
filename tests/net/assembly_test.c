/* Ranks find each other by way of the network: as processes of this machine, which are on the same node where they have
 * inherited the same file. What they learn, the sockets between their nodes, and every way in which it can fail. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "internode/assembly/assembly.h"
#include "net/connect/handshake.h"
#include "harness.h"
#include "node_files.h"

enum { SOON_MS = 1000 };
enum { ESTABLISHED = 1 }; /* in /proc/net/tcp */

/* Where each rank of a team is, and what it does wrong. */
struct layout {
    int node_of[HARNESS_RANKS_MAX]; /* which of the inherited files */
    int nodes;
    void (*fault)(struct rank *rank, struct kolo_settings *settings); /* before it comes; NULL: none */
    int status;                                                       /* that all get; 0: a good end */
    const char *words[3];                                             /* of the message, on all */
    int odd;                                                          /* 1 + the rank that gets another end; 0: none */
    int64_t create_ms;                                                /* 0: long */
    const char *address;                                              /* NULL: IPv4's */
};

static const struct layout *layout_of(const struct rank *rank) {
    return rank->team->argument;
}

static bool has_ipv6(void) {
    const struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM, 0);
    const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

static bool resolve(const struct rank *rank, struct kolo_settings *settings) {
    const struct layout *layout = layout_of(rank);
    kolo_options options = rank->options;
    nodes_place(&options, layout->node_of[rank->rank]);
    if (layout->create_ms)
        options.create_timeout_ms = layout->create_ms;
    return expect_status(rank, kolo_settings_resolve(settings, &options), 0, "kolo_settings_resolve");
}

/* What a rank must have learnt: nodes numbered by their lowest ranks, the same settings on all. */
static void check_membership(struct rank *rank, const struct kolo_membership *membership) {
    const struct layout *layout = layout_of(rank);
    const struct kolo_nodes *nodes = &membership->nodes;
    uint64_t session;
    expect(rank, (int)nodes->nodes == layout->nodes && (int)nodes->size == rank->ranks, "%u nodes of %u ranks",
           nodes->nodes, nodes->size);
    for (int a = 0; a < rank->ranks; a++)
        for (int b = 0; b < a; b++)
            expect(rank, (nodes->node_of[a] == nodes->node_of[b]) == (layout->node_of[a] == layout->node_of[b]),
                   "ranks %d and %d: nodes %u and %u", a, b, nodes->node_of[a], nodes->node_of[b]);
    for (uint32_t node = 1; node < nodes->nodes; node++)
        expect(rank, kolo_nodes_rank(nodes, node - 1, 0) < kolo_nodes_rank(nodes, node, 0), "node %u is out of order",
               node);
    expect(rank, membership->node == nodes->node_of[rank->rank], "node %u", membership->node);
    const struct kolo_terms *terms = &membership->terms;
    expect(rank,
           terms->slot_bytes == 3 * KOLO_PAGE_BYTES && terms->net.lanes == 2 && terms->net.streams == 3 &&
               terms->algorithm == KOLO_ALGORITHM_MESH && terms->net.exchange == KOLO_EXCHANGE_RING &&
               terms->net.servers == 2 && terms->net.half_on_wire && terms->net.rank_order &&
               terms->net.silence_ns == 7777 * KOLO_NS_PER_MS,
           "the terms are not rank 0's");
    memcpy(&session, membership->session, sizeof session);
    record_result(rank, 0, session);
    memcpy(&session, membership->job + strlen(membership->job) - sizeof session, sizeof session);
    record_result(rank, 1, session);
}

/* Rank 0's settings count; the others have theirs. */
static void choose_terms(const struct rank *rank, struct kolo_settings *settings) {
    const bool zero = rank->rank == 0;
    settings->slot_bytes = zero ? 3 * KOLO_PAGE_BYTES : KOLO_PAGE_BYTES;
    settings->algorithm = zero ? KOLO_ALGORITHM_MESH : KOLO_ALGORITHM_RING;
    settings->net.lanes = zero ? 2 : 1;
    settings->net.streams = zero ? 3 : 1;
    settings->net.exchange = zero ? KOLO_EXCHANGE_RING : KOLO_EXCHANGE_AUTO;
    settings->net.servers = zero ? 2 : 1;
    settings->net.half_on_wire = zero;
    settings->net.rank_order = zero; /* which nobody gets together with the two before, but here they only travel */
    settings->net.silence_ns = zero ? 7777 * KOLO_NS_PER_MS : KOLO_NS_PER_MS;
}

/* A word goes over each socket, that says whose it is and which. */
static uint64_t word_of(const struct rank *rank, uint32_t from, uint32_t to, uint32_t stream) {
    return (uint64_t)rank->ranks << 48 | (uint64_t)from << 32 | to << 16 | stream;
}

/* Where KOLO_NET_ADDR is an address, all that goes between the machines goes by it. */
static void check_address(const struct rank *rank, int fd) {
    struct kolo_address own;
    char text[KOLO_ADDRESS_TEXT_BYTES];
    const char *wanted = getenv("KOLO_NET_ADDR");
    if (!wanted || strchr(wanted, '.') == NULL || strcmp(wanted, "0.0.0.0") == 0)
        return;
    expect_status(rank, kolo_address_of_socket(fd, &own), 0, "kolo_address_of_socket");
    expect(rank, strncmp(kolo_address_text(&own, text), wanted, strlen(wanted)) == 0, "a socket of %s, not %s", text,
           wanted);
}

static void check_sockets(struct rank *rank, const struct kolo_membership *membership, const int *fds) {
    const uint32_t sockets = kolo_assembly_sockets(&membership->terms), own = membership->node;
    for (uint32_t i = 0; i < membership->nodes.nodes * sockets; i++) {
        const uint64_t word = word_of(rank, own, i / sockets, i % sockets);
        if (expect(rank, (fds[i] < 0) == (i / sockets == own), "socket %u is %d", i, fds[i]) && fds[i] >= 0)
            expect(rank, send(fds[i], &word, sizeof word, MSG_NOSIGNAL) == sizeof word, "sending: %s", strerror(errno));
    }
    for (uint32_t i = 0; i < membership->nodes.nodes * sockets; i++) {
        uint64_t word = 0;
        struct pollfd polled = {.fd = fds[i], .events = POLLIN};
        if (fds[i] < 0)
            continue;
        check_address(rank, fds[i]);
        expect(rank,
               poll(&polled, 1, (int)patience_ms(10000)) == 1 && recv(fds[i], &word, sizeof word, 0) == sizeof word,
               "receiving: %s", strerror(errno));
        expect(rank, word == word_of(rank, i / sockets, own, i % sockets), "socket %u has word %" PRIx64, i, word);
        close(fds[i]);
    }
}

static bool leads(const struct kolo_membership *membership, const struct rank *rank) {
    return kolo_nodes_local_rank(&membership->nodes, (uint32_t)rank->rank) == 0;
}

/* Gathers and, on leaders, links. `between` runs where the ranks of a node would meet. */
static int assemble(struct rank *rank, const struct kolo_settings *settings,
                    int (*between)(struct rank *rank, struct kolo_assembly *assembly)) {
    struct kolo_assembly *assembly;
    struct kolo_membership membership;
    int rc = kolo_assembly_gather(&assembly, settings, NULL, &membership);
    if (rc < 0) {
        expect(rank, assembly == NULL, "the assembly was set");
        return rc;
    }
    if (layout_of(rank)->status == 0)
        check_membership(rank, &membership);
    if (leads(&membership, rank) && membership.nodes.nodes > 1) {
        int fds[NODES_MAX * KOLO_LANES_MAX * (1 + KOLO_STREAMS_MAX)];
        rc = between ? between(rank, assembly) : 0;
        rc = rc < 0 ? kolo_assembly_fail(assembly, rc) : kolo_assembly_link(assembly, &membership, fds, NULL, NULL);
        rc = rc < 0 ? rc : kolo_assembly_agree(assembly, &membership);
        if (rc == 0 && layout_of(rank)->status == 0)
            check_sockets(rank, &membership, fds);
    } else {
        kolo_assembly_depart(assembly);
        rc = layout_of(rank)->status; /* it would learn of it through its node's job file */
    }
    kolo_assembly_close(assembly);
    kolo_nodes_free(&membership.nodes);
    return rc;
}

static void assemble_well(struct rank *rank) {
    struct kolo_settings settings;
    if (!resolve(rank, &settings))
        return;
    choose_terms(rank, &settings);
    if (layout_of(rank)->fault)
        layout_of(rank)->fault(rank, &settings);
    expect_status(rank, assemble(rank, &settings, NULL), 0, "assembling");
}

/* Runs a team whose ranks are dealt to the nodes as counts say: by blocks, or in turn. */
static void run_layout(struct layout *layout, const int *counts, bool in_turn, void (*run)(struct rank *rank),
                       uint64_t victims) {
    int left[NODES_MAX] = {0}, ranks = 0;
    layout->nodes = 0;
    for (int node = 0; node < NODES_MAX && counts[node]; node++) {
        left[node] = counts[node];
        ranks += counts[node];
        layout->nodes++;
    }
    for (int rank = 0, node = 0; rank < ranks; rank++) {
        while (left[node] == 0)
            node = (node + 1) % layout->nodes;
        layout->node_of[rank] = node;
        left[node]--;
        node = in_turn ? (node + 1) % layout->nodes : node;
    }
    nodes_meet_at(layout->address ? layout->address : "127.0.0.1");
    const struct team team = {
        .ranks = ranks, .creates_itself = true, .victims = victims, .run = run, .argument = layout};
    harness_run(&team);
}

static void all_go_well(void) {
    static const int counts[][NODES_MAX] = {{1, 1},          {2, 2}, {3, 1, 2},  {1, 5, 1, 3},
                                            {1, 1, 1, 1, 1}, {4},    {13, 7, 1}, {30, 20, 9, 1, 4}};
    struct layout layout = {0};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int in_turn = 0; in_turn < 2; in_turn++)
            run_layout(&layout, counts[i], in_turn, assemble_well, 0);
    if (has_ipv6()) {
        layout.address = "[::1]";
        run_layout(&layout, counts[2], true, assemble_well, 0);
    } else {
        printf("no IPv6 here: not tested\n");
    }
    layout.address = "0.0.0.0"; /* told to; the others reach it, as every machine reaches itself by that */
    run_layout(&layout, counts[2], false, assemble_well, 0);
}

/* Rank 0 comes last; the others have been connecting. */
static void come_late(struct rank *rank, struct kolo_settings *settings) {
    (void)settings;
    sleep_ms(rank->rank == 0 ? 300 : 0);
}

/* Whoever comes upon the rendezvous by chance keeps nobody out. */
static void bring_strangers(struct rank *rank, struct kolo_settings *settings) {
    static const char garbage[1000] = "GET / HTTP/1.1\r\n";
    struct kolo_address address;
    if (rank->rank != 1)
        return;
    expect_status(rank, kolo_address_parse("rendezvous", settings->net.rendezvous, &address), 0, "kolo_address_parse");
    for (int i = 0, came = 0; i < 2000 && came < 3; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (const struct sockaddr *)&address.storage, address.bytes) < 0) {
            close(fd);
            sleep_ms(1);
        } else if (came++ > 0) { /* the first one says nothing, and stays */
            (void)!send(fd, garbage, sizeof garbage, MSG_NOSIGNAL);
        }
    }
}

/* Half of the machines have another address than the one by which rank 0 is reached. */
static void choose_address(struct rank *rank, struct kolo_settings *settings) {
    (void)settings;
    setenv("KOLO_NET_ADDR", layout_of(rank)->node_of[rank->rank] % 2 ? "127.0.0.2" : "lo", 1);
}

static void choose_all_addresses(struct rank *rank, struct kolo_settings *settings) {
    (void)rank;
    (void)settings;
    setenv("KOLO_NET_ADDR", "0.0.0.0", 1);
}

static void assemble_again_and_again(struct rank *rank) {
    struct kolo_settings settings;
    if (!resolve(rank, &settings))
        return;
    choose_terms(rank, &settings);
    for (int i = 0; i < 10; i++)
        expect_status(rank, assemble(rank, &settings, NULL), 0, "assembling again");
}

static void oddities_do_no_harm(void) {
    static const int counts[NODES_MAX] = {2, 1, 2};
    struct layout layout = {.fault = come_late};
    run_layout(&layout, counts, false, assemble_well, 0);
    layout.fault = bring_strangers;
    run_layout(&layout, counts, false, assemble_well, 0);
    layout.fault = choose_address;
    run_layout(&layout, counts, false, assemble_well, 0);
    layout.fault = choose_all_addresses;
    run_layout(&layout, counts, false, assemble_well, 0);
    layout.fault = NULL;
    run_layout(&layout, counts, true, assemble_again_and_again, 0);
}

/* Failures. */

/* All but the odd one get the same status and words, soon after the event. */
static void check_end(struct rank *rank, int rc) {
    const struct layout *layout = layout_of(rank);
    const int64_t end_ns = now_ns();
    if (rank->rank == layout->odd - 1)
        return;
    expect_status(rank, rc, layout->status, "assembling");
    for (size_t i = 0; i < sizeof layout->words / sizeof *layout->words && layout->words[i]; i++)
        expect_message(rank, "assembling", layout->words[i], NULL);
    if (event_ns())
        expect_prompt(rank, end_ns - event_ns() - layout->create_ms * 1000000, SOON_MS, "ended, past the deadline");
}

static void fail_membership(struct rank *rank) {
    struct kolo_settings settings;
    struct kolo_assembly *assembly;
    struct kolo_membership membership;
    if (!resolve(rank, &settings))
        return;
    layout_of(rank)->fault(rank, &settings);
    const int rc = kolo_assembly_gather(&assembly, &settings, NULL, &membership);
    check_end(rank, rc);
    if (rc == 0)
        kolo_nodes_free(&membership.nodes);
    kolo_assembly_close(rc == 0 ? assembly : NULL);
}

/* Comes in as a rank does, and then goes on otherwise. */
static int come_in(const struct rank *rank, const struct kolo_settings *settings) {
    struct kolo_address address;
    struct kolo_secret secret;
    int fd = -1;
    expect_status(rank, kolo_address_parse("rendezvous", settings->net.rendezvous, &address), 0, "kolo_address_parse");
    expect_status(rank, kolo_secret_read(&secret), 0, "kolo_secret_read");
    struct kolo_awake awake;
    const int64_t limit_ns = INT64_C(10000000000), deadline_ns = kolo_awake_begin(&awake, limit_ns) + limit_ns;
    const struct kolo_connecting wanted = {
        .to = &address,
        .secret = &secret,
        .self = {.role = KOLO_ROLE_JOIN, .rank = (uint32_t)rank->rank, .size = (uint32_t)rank->ranks},
        .awake = &awake,
        .deadline_ns = deadline_ns,
        .alert_fd = -1};
    expect_status(rank, kolo_connect(&wanted, &fd), 0, "kolo_connect");
    return fd;
}

/* Waits until so many have connected to rank 0, and then until they have had time to say who they are. */
static void await_connected(const struct rank *rank, const struct kolo_settings *settings, int count) {
    const unsigned port = (unsigned)atoi(strrchr(settings->net.rendezvous, ':') + 1);
    const int64_t until_ns = now_ns() + INT64_C(30000000000);
    int found = 0;
    while (found < count && now_ns() < until_ns) {
        char line[512];
        unsigned own_port, state;
        FILE *table = fopen("/proc/net/tcp", "re");
        for (found = 0; table && fgets(line, sizeof line, table);)
            found += sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &own_port, &state) == 2 &&
                     own_port == port && state == ESTABLISHED;
        if (table)
            fclose(table);
        sleep_ms(1);
    }
    expect(rank, found >= count, "%d instead of %d have connected to rank 0", found, count);
    sleep_ms(200);
}

static void die_waiting(struct rank *rank, struct kolo_settings *settings) {
    if (rank->rank == 3) /* and so the others wait */
        exit(0);
    if (rank->rank != 2)
        return;
    come_in(rank, settings);
    await_connected(rank, settings, 2);
    event_set();
    raise(SIGKILL);
}

static void talk_nonsense(struct rank *rank, struct kolo_settings *settings) {
    static const char garbage[KOLO_MESSAGE_BYTES] = "kola";
    if (rank->rank != 2)
        return;
    const int fd = come_in(rank, settings);
    await_connected(rank, settings, 3);
    event_set();
    expect(rank, send(fd, garbage, sizeof garbage, MSG_NOSIGNAL) == sizeof garbage, "sending: %s", strerror(errno));
    sleep_ms(100);
    exit(0);
}

/* As a rank of another version does, which is told so, and says who it is all the same. */
static void come_of_another_version(struct rank *rank, struct kolo_settings *settings) {
    const struct kolo_introduction self = {.role = KOLO_ROLE_JOIN, .rank = 2, .size = (uint32_t)rank->ranks};
    struct kolo_dialogue dialogue;
    struct kolo_handshake hello;
    struct kolo_address address;
    struct kolo_secret secret;
    if (rank->rank != 2)
        return;
    await_connected(rank, settings, 2);
    expect_status(rank, kolo_address_parse("rendezvous", settings->net.rendezvous, &address), 0, "kolo_address_parse");
    expect_status(rank, kolo_secret_read(&secret), 0, "kolo_secret_read");
    const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    expect(rank, connect(fd, (const struct sockaddr *)&address.storage, address.bytes) == 0, "%s", strerror(errno));
    event_set();
    kolo_handshake_make(&hello, &secret);
    hello.version = 9 << 16 | 8 << 8 | 7;
    hello.layout = 65;
    kolo_handshake_pack(&hello, KOLO_HELLO, dialogue.hello);
    expect(rank, kolo_socket_send(fd, dialogue.hello, sizeof dialogue.hello) == 0, "sending a hello");
    expect(rank, recv(fd, dialogue.welcome, sizeof dialogue.welcome, MSG_WAITALL) == sizeof dialogue.welcome,
           "welcome");
    kolo_introduction_pack(&self, dialogue.introduction);
    kolo_dialogue_prove(&dialogue, KOLO_PROOF_OF_CONNECTOR, &secret);
    expect(rank, kolo_socket_send(fd, dialogue.introduction, sizeof dialogue.introduction) == 0, "introducing");
    exit(0);
}

static void come_as_rank_1(struct rank *rank, struct kolo_settings *settings) {
    if (rank->rank != 2)
        return;
    await_connected(rank, settings, 2);
    settings->place.rank = 1;
    event_set();
}

static void come_with_size_9(struct rank *rank, struct kolo_settings *settings) {
    if (rank->rank != 2)
        return;
    await_connected(rank, settings, 2);
    settings->place.size = 9;
    event_set();
}

static void come_of_another_job(struct rank *rank, struct kolo_settings *settings) {
    strcpy(settings->place.job_everywhere, "this");
    if (rank->rank != 2)
        return;
    await_connected(rank, settings, 2);
    strcpy(settings->place.job_everywhere, "that");
    event_set();
}

static void stay_away(struct rank *rank, struct kolo_settings *settings) {
    if (rank->rank == 1) /* its time is up first: it is told all the same */
        settings->create_timeout_ns /= 2;
    if (rank->rank == 0)
        event_set();
    if (rank->rank >= 2)
        exit(0);
}

static void stay_away_as_rank_0(struct rank *rank, struct kolo_settings *settings) {
    (void)settings;
    if (rank->rank == 0) {
        event_set();
        exit(0);
    }
}

/* Rank 0 has descriptors for a listener and the spare one. */
static void lack_descriptors(struct rank *rank, struct kolo_settings *settings) {
    const struct rlimit few = {100, 100};
    int last = -1;
    (void)settings;
    event_set();
    if (rank->rank != 0)
        return;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd; (fd = dup(0)) >= 0;)
        last = fd;
    close(last);
    close(last - 1);
}

static void have_another_secret(struct rank *rank, struct kolo_settings *settings) {
    (void)settings;
    if (rank->rank == 2)
        setenv("KOLO_SECRET", "another one of 16 characters", 1);
}

/* A team of {2, 2}, or of {1, 1, 1, 1} where leaders are meant. */
static void expect_failure(const struct layout *failing, const int *counts, void (*run)(struct rank *rank),
                           uint64_t victims) {
    struct layout layout = *failing;
    run_layout(&layout, counts, false, run, victims);
}

static void membership_fails(void) {
    static const int counts[NODES_MAX] = {2, 2};
    const struct layout failures[] = {
        {.fault = die_waiting, .status = KOLO_ERR_PEER_DEAD, .words = {"rank 2 closed its connection"}},
        {.fault = talk_nonsense, .status = KOLO_ERR_VERSION, .words = {"rank 2 sent"}},
        {.fault = come_of_another_version,
         .status = KOLO_ERR_VERSION,
         .words = {"rank 2 (127", "has kolo 9.8.7 (wire layout 65), rank 0 has kolo 0"}},
        {.fault = come_as_rank_1, .status = KOLO_ERR_MISMATCH, .words = {"rank 1 came twice, from 127.0.0.1:"}},
        {.fault = come_with_size_9,
         .status = KOLO_ERR_MISMATCH,
         .words = {"rank 2 (127", "size 9, rank 0 with size 4"}},
        {.fault = come_of_another_job, .status = KOLO_ERR_MISMATCH, .words = {"rank 2 (127", "'that'", "'this'"}},
        {.fault = stay_away, .status = KOLO_ERR_TIMEOUT, .words = {"rank 2-3 never came to 127.0"}, .create_ms = 2000},
        {.fault = stay_away_as_rank_0, .status = KOLO_ERR_TIMEOUT, .words = {"rank 0 was not"}, .create_ms = 300},
    };
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        expect_failure(&failures[i], counts, fail_membership, 1 << 2);
    const struct layout lacking = {
        .fault = lack_descriptors, .status = KOLO_ERR_SYSTEM, .words = {"accepting a connection", "may open 100"}};
    expect_failure(&lacking, (const int[NODES_MAX]){1, 1}, fail_membership, 0);
    const struct layout secret = {.fault = have_another_secret,
                                  .status = KOLO_ERR_TIMEOUT,
                                  .words = {"rank 2 never came", "wrong secret"},
                                  .odd = 1 + 2,
                                  .create_ms = 1500};
    if (KOLO_HAVE_SODIUM)
        expect_failure(&secret, counts, fail_membership, 0);
}

/* Rank 0 alone, which gets no further. */
static void open_wrongly(struct rank *rank) {
    static const struct {
        const char *rendezvous;
        int status;
        const char *words;
    } wrong[] = {{"192.0.2.1:4000", KOLO_ERR_SYSTEM, "192.0.2.1:4000, which is no address of this machine"},
                 {"127.0.0.1", KOLO_ERR_ARG, "KOLO_RENDEZVOUS=127.0.0.1: must be HOST:PORT"},
                 {"127.0.0.1:0", KOLO_ERR_ARG, "KOLO_RENDEZVOUS=127.0.0.1:0"},
                 {"no-such-host.invalid:4000", KOLO_ERR_SYSTEM, "no-such-host.invalid"}};
    struct kolo_settings settings;
    struct kolo_assembly *assembly;
    struct kolo_membership membership;
    if (rank->rank != 0 || !resolve(rank, &settings))
        return;
    settings.create_timeout_ns = 300 * KOLO_NS_PER_MS; /* for as long a name is looked up */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct kolo_settings other = settings;
        strcpy(other.net.rendezvous, wrong[i].rendezvous);
        expect_status(rank, kolo_assembly_gather(&assembly, &other, NULL, &membership), wrong[i].status, "membership");
        expect_message(rank, "membership", "rank 0: ", wrong[i].words, NULL);
    }
    const struct rlimit few = {50, 50};
    setrlimit(RLIMIT_NOFILE, &few);
    expect_status(rank, kolo_assembly_gather(&assembly, &settings, NULL, &membership), KOLO_ERR_SYSTEM, "membership");
    expect_message(rank, "membership", "may open 50", "ulimit -n", NULL);
}

/* Leaders, each of which is a node; `misbehave` of rank 1 comes where its node's ranks would meet. */

static int die_meeting(struct rank *rank, struct kolo_assembly *assembly) {
    (void)assembly;
    if (rank->rank == 1) {
        sleep_ms(100);
        event_set();
        raise(SIGKILL);
    }
    return 0;
}

static int die_meeting_as_rank_0(struct rank *rank, struct kolo_assembly *assembly) {
    (void)assembly;
    if (rank->rank == 0) {
        sleep_ms(100);
        event_set();
        raise(SIGKILL);
    }
    return 0;
}

static int fail_meeting(struct rank *rank, struct kolo_assembly *assembly) {
    (void)assembly;
    if (rank->rank != 1)
        return 0;
    sleep_ms(100);
    event_set();
    return kolo_fail(KOLO_ERR_NO_SPACE, "rank 1: no room for\x01 the segment");
}

static int stall_meeting(struct rank *rank, struct kolo_assembly *assembly) {
    (void)assembly;
    if (rank->rank == 0)
        event_set();
    sleep_ms(rank->rank == 1 ? layout_of(rank)->create_ms + 1500 : 0);
    return 0;
}

static int choose_no_address(struct rank *rank, struct kolo_assembly *assembly) {
    (void)assembly;
    if (rank->rank == 1)
        setenv("KOLO_NET_ADDR", "eth77", 1);
    return 0;
}

static int have_few_files(struct rank *rank, struct kolo_assembly *assembly) {
    (void)assembly;
    const struct rlimit few = {15, 15};
    if (rank->rank == 1)
        setrlimit(RLIMIT_NOFILE, &few);
    return 0;
}

/* While the others look whether anything has failed, as they do where their nodes meet. */
static int die_while_others_look(struct rank *rank, struct kolo_assembly *assembly) {
    die_meeting(rank, assembly);
    const int64_t until_ns = now_ns() + INT64_C(10000000000);
    int rc = 0;
    while (rc == 0 && now_ns() < until_ns) {
        rc = kolo_assembly_check(assembly);
        sleep_ms(1);
    }
    return rc;
}

/* Says where it listens, and dies while others connect there. */
static int die_linking(struct rank *rank, struct kolo_assembly *assembly) {
    struct kolo_assembly_message message = {.kind = KOLO_MESSAGE_LISTENERS};
    struct sockaddr_in *own = (struct sockaddr_in *)&message.listener[0].storage;
    if (rank->rank != 1)
        return 0;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    *own = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    message.listener[0].bytes = sizeof *own;
    expect(rank,
           bind(listener, (struct sockaddr *)own, sizeof *own) == 0 && listen(listener, 10) == 0 &&
               getsockname(listener, (struct sockaddr *)own, &message.listener[0].bytes) == 0,
           "listening: %s", strerror(errno));
    message.first = message.count = 1;
    expect_status(rank, kolo_assembly_send(assembly, 0, &message), 0, "kolo_assembly_send");
    expect_status(rank, kolo_assembly_await(assembly, KOLO_MESSAGE_LISTENERS, &message), 0, "kolo_assembly_await");
    sleep_ms(200);
    event_set();
    raise(SIGKILL);
    return 0;
}

/* What each case does where the ranks of a node would meet; too much for struct layout, so the rank looks it up. */
static int (*misbehave)(struct rank *rank, struct kolo_assembly *assembly);

static void fail_linking(struct rank *rank) {
    struct kolo_settings settings;
    if (resolve(rank, &settings)) {
        settings.net.streams = 4;
        check_end(rank, assemble(rank, &settings, misbehave));
    }
}

static void linking_fails(void) {
    static const int counts[NODES_MAX] = {1, 1, 1, 1};
    const struct {
        int (*misbehave)(struct rank *rank, struct kolo_assembly *assembly);
        struct layout layout;
    } failures[] = {
        {die_meeting, {.status = KOLO_ERR_PEER_DEAD, .words = {"rank 1 closed its connection"}}},
        {die_while_others_look, {.status = KOLO_ERR_PEER_DEAD, .words = {"rank 1 closed its connection"}}},
        {die_meeting_as_rank_0, {.status = KOLO_ERR_PEER_DEAD, .words = {"rank 0 closed its connection"}}},
        {die_linking, {.status = KOLO_ERR_PEER_DEAD, .words = {"rank 1 closed its connection"}}},
        {fail_meeting, {.status = KOLO_ERR_NO_SPACE, .words = {"rank 1: no room for"}}},
        {stall_meeting, {.status = KOLO_ERR_TIMEOUT, .words = {"rank 1 came, but"}, .odd = 1 + 1, .create_ms = 1500}},
        {choose_no_address, {.status = KOLO_ERR_ARG, .words = {"rank 1: KOLO_NET_ADDR=eth77", "lo 127.0.0.1"}}},
        {have_few_files, {.status = KOLO_ERR_SYSTEM, .words = {"rank 1: 16 sockets", "to 3", "ulimit -n"}}},
    };
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        misbehave = failures[i].misbehave;
        expect_failure(&failures[i].layout, counts, fail_linking, 1 << 0 | 1 << 1);
    }
}

/* As many ranks as there can be: as threads, eight to a node, all of which connect to the same moment. */

enum { THREADED_NODES = 8 };

struct threaded {
    struct kolo_settings settings;
    pthread_t thread;
    int rc;
    char message[256];
};

static void *assemble_thread(void *argument) {
    struct threaded *one = argument;
    struct kolo_assembly *assembly;
    struct kolo_membership membership;
    int fds[THREADED_NODES * (1 + KOLO_STREAMS_MAX)];
    one->rc = kolo_assembly_gather(&assembly, &one->settings, NULL, &membership);
    if (one->rc == 0) {
        const uint32_t rank = (uint32_t)one->settings.place.rank;
        const bool leads = kolo_nodes_local_rank(&membership.nodes, rank) == 0;
        expect(NULL, membership.nodes.nodes == THREADED_NODES && membership.node == rank % THREADED_NODES,
               "rank %u is on node %u of %u", rank, membership.node, membership.nodes.nodes);
        if (!leads)
            kolo_assembly_depart(assembly);
        one->rc = leads ? kolo_assembly_link(assembly, &membership, fds, NULL, NULL) : 0;
        if (one->rc == 0 && leads)
            one->rc = kolo_assembly_agree(assembly, &membership);
        for (uint32_t i = 0; one->rc == 0 && leads && i < THREADED_NODES * kolo_assembly_sockets(&membership.terms);
             i++)
            if (fds[i] >= 0)
                close(fds[i]);
        kolo_nodes_free(&membership.nodes);
        kolo_assembly_close(assembly);
    }
    snprintf(one->message, sizeof one->message, "%s", one->rc < 0 ? kolo_error_message() : "");
    return NULL;
}

static void assemble_threads(int ranks) {
    struct threaded *all = calloc((size_t)ranks, sizeof *all);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    nodes_meet_at("127.0.0.1");
    int started = 0;
    for (; started < ranks; started++) {
        kolo_options options = KOLO_OPTIONS_INIT;
        options.rank = started;
        options.size = ranks;
        nodes_place(&options, started % THREADED_NODES);
        if (!expect_status(NULL, kolo_settings_resolve(&all[started].settings, &options), 0, "kolo_settings_resolve") ||
            !expect(NULL, pthread_create(&all[started].thread, &small, assemble_thread, &all[started]) == 0,
                    "thread %d cannot be started", started))
            break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(all[i].thread, NULL);
        expect(NULL, all[i].rc == 0, "rank %d of %d: %s", i, ranks, all[i].message);
    }
    pthread_attr_destroy(&small);
    free(all);
}

static void many_go_well(void) {
    struct rlimit files_open;
    const int ranks = arguments.quick ? 100 : KOLO_RANKS_MAX;
    const rlim_t needed = (rlim_t)ranks * 3;
    getrlimit(RLIMIT_NOFILE, &files_open);
    const struct rlimit more = {needed > files_open.rlim_cur ? needed : files_open.rlim_cur, files_open.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &more) < 0) {
        printf("%llu open files are not enough for %d ranks in one process: not tested\n",
               (unsigned long long)files_open.rlim_max, ranks);
        return;
    }
    assemble_threads(ranks);
    setrlimit(RLIMIT_NOFILE, &files_open);
}

int main(int argc, char **argv) {
    static const int pair[NODES_MAX] = {1, 1};
    harness_begin(argc, argv, "Puts jobs on several machines together, and sees it fail.");
    setenv("KOLO_SECRET", KOLO_HAVE_SODIUM ? "16 characters, or more" : "none", 1);
    nodes_open();
    all_go_well();
    many_go_well();
    oddities_do_no_harm();
    membership_fails();
    linking_fails();
    struct layout layout = {0};
    run_layout(&layout, pair, false, open_wrongly, 0);
    return harness_end();
}
