/* A library that was built for one machine (KOLO_MACHINES=OFF): a communicator that asks for several is refused at
 * once, with words that say why, and the library itself says that it has only one. */
#include <stdlib.h>

#include "kolo_tools.h"
#include "harness.h"

static void expect_refused(const kolo_options *options, const char *what) {
    kolo_comm *const untouched = (kolo_comm *)&expect_refused, *comm = untouched;
    const int64_t begin_ns = now_ns();
    if (expect_status(NULL, kolo_comm_create(&comm, options), KOLO_ERR_UNSUPPORTED, what))
        expect_message(NULL, what, "rank 1", "127.0.0.1:29500", "one machine only", "KOLO_MACHINES=OFF", NULL);
    expect(NULL, comm == untouched, "%s: the handle was set", what);
    expect(NULL, now_ns() - begin_ns < patience_ms(5000) * 1000000, "%s: refused late", what);
}

static void refuse_rendezvous(void) {
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = 1;
    options.size = 2;
    options.job = fresh_job();
    options.rendezvous = "127.0.0.1:29500";
    expect_refused(&options, "options.rendezvous");
    options.rendezvous = NULL;
    setenv("KOLO_RENDEZVOUS", "127.0.0.1:29500", 1);
    expect_refused(&options, "KOLO_RENDEZVOUS");
    unsetenv("KOLO_RENDEZVOUS");
}

/* One rank has nobody to meet, wherever it is. */
static void accept_one_rank(void) {
    kolo_options options = KOLO_OPTIONS_INIT;
    kolo_comm *comm = NULL;
    options.rank = 0;
    options.size = 1;
    options.rendezvous = "127.0.0.1:29500";
    expect_status(NULL, kolo_comm_create(&comm, &options), 0, "one rank");
    kolo_comm_destroy(comm);
}

static void tell_tools(void) {
    kolo_machine machine = {.machine_bytes = sizeof machine};
    expect_status(NULL, kolo_machine_query(&machine), 0, "kolo_machine_query");
    expect(NULL, machine.several_machines == 0, "several_machines is %d", machine.several_machines);
    expect(NULL, machine.io_uring != 0, "io_uring is said to be usable, of which the library has nothing");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Creates communicators of several machines where the library is for one.");
    refuse_rendezvous();
    accept_one_rank();
    tell_tools();
    return harness_end();
}
