/* A training as one piece of memory: all that steps change, which is the parameters, the optimizer's state, how far the
 * training has come, and its losses. The rows of each batch follow from the seed and the step. --save and --resume
 * write and read it as a file, and ranks that are left or have joined get it from one that has got furthest. It does
 * not depend on the number of ranks, nor on --fused. */
#include "trainer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/new_file.h"
#include "complain.h"
#include "kolo_trace.h"
#include "messages.h"

enum { VERSION = 1 };
static const char magic[8] = "koloTRN";

/* How it begins, in the byte order of the machine. Then, without gaps: results of the epochs, losses of the steps,
 * parameters, first and, with adamw, second moments. */
typedef struct header {
    char magic[8];
    uint64_t version;
    uint64_t file_bytes;
    uint64_t fingerprint; /* of all that follows the header */
    uint64_t data_fingerprint;
    uint64_t optimizer;
    uint64_t hidden;
    uint64_t batch_rows; /* of a step */
    uint64_t seed;
    uint64_t parameters;
    uint64_t steps;
    uint64_t epochs; /* the last one may not be whole */
} header;

static_assert(sizeof(epoch_result) == 7 * 8, "the same on every machine; else raise VERSION");
static_assert(sizeof(header) % sizeof(uint32_t) == 0, "what follows is read as words and floats");

static size_t epochs_begun(const trainer *t, size_t steps) {
    return (steps + t->steps_of_epoch - 1) / t->steps_of_epoch;
}

/* The parts behind the header. The last ones are states of the optimizer. */
enum { RESULTS, LOSSES, PARAMETERS, STATES, PARTS = STATES + 2 };
static const kolo_optimizer_state states[PARTS] = {[STATES] = KOLO_OPTIMIZER_MOMENTUM, KOLO_OPTIMIZER_VARIANCE};

typedef struct part {
    void *data; /* in the trainer; NULL: of the optimizer */
    size_t bytes, at;
} part;

static size_t lay_out(const trainer *t, const header *h, part parts[PARTS]) {
    const size_t floats = h->parameters * sizeof(float);
    size_t end = sizeof *h;
    parts[RESULTS] = (part){t->results, h->epochs * sizeof *t->results, 0};
    parts[LOSSES] = (part){t->losses, h->steps * sizeof *t->losses, 0};
    parts[PARAMETERS] = (part){t->model.parameters, floats, 0};
    parts[STATES] = (part){NULL, floats, 0};
    parts[STATES + 1] = (part){NULL, h->optimizer == TRAIN_ADAMW ? floats : 0, 0};
    for (part *its = parts; its < parts + PARTS; end += its++->bytes)
        its->at = end;
    return end;
}

static header describe(const trainer *t) {
    const train_settings *settings = t->settings;
    part parts[PARTS];
    header h = {.version = VERSION,
                .data_fingerprint = settings->data_fingerprint,
                .optimizer = settings->optimizer,
                .hidden = settings->hidden,
                .batch_rows = train_settings_step_rows(settings),
                .seed = settings->seed,
                .parameters = t->model.parameters_count,
                .steps = t->steps,
                .epochs = epochs_begun(t, t->steps)};
    memcpy(h.magic, magic, sizeof magic);
    h.file_bytes = lay_out(t, &h, parts);
    return h;
}

static uint64_t fingerprint_of(const header *image) {
    return fingerprint_add(FINGERPRINT_BEGIN, image + 1, (image->file_bytes - sizeof *image) / sizeof(uint32_t));
}

/* What the training has come to, on ranks that need it; elsewhere NULL. With --fused each rank has a part of the
 * states, and rank 0 gets the whole. */
static int make_image(const trainer *t, int is_needed, header **image) {
    const header h = describe(t);
    part parts[PARTS];
    int rc = 0;
    lay_out(t, &h, parts);
    *image = is_needed ? allocate(h.file_bytes, 1) : NULL;
    for (int i = 0; rc == 0 && i < PARTS; i++) {
        char *to = is_needed ? (char *)*image + parts[i].at : NULL;
        if (i < STATES && is_needed)
            memcpy(to, parts[i].data, parts[i].bytes);
        else if (i >= STATES && parts[i].bytes > 0 && (is_needed || t->settings->way.fused))
            rc = check(t->comm, kolo_optimizer_read_state(t->optimizer, states[i], to, 0),
                       "cannot collect the optimizer's state");
    }
    if (is_needed) {
        **image = h;
        (*image)->fingerprint = fingerprint_of(*image);
    }
    return rc;
}

static int take_image(trainer *t, const header *image) {
    part parts[PARTS];
    int status = 0;
    lay_out(t, image, parts);
    t->steps = image->steps;
    for (int i = 0; i < PARTS && status == 0; i++) {
        const char *from = (const char *)image + parts[i].at;
        if (i < STATES)
            memcpy(parts[i].data, from, parts[i].bytes);
        else if (parts[i].bytes > 0)
            status = kolo_optimizer_write_state(t->optimizer, states[i], from);
    }
    if (status == 0)
        status = kolo_optimizer_write_state(t->optimizer, KOLO_OPTIMIZER_STEPS, &image->steps);
    return check(t->comm, status, "cannot load the optimizer's state");
}

/* How far a training is, beside its image. */
typedef struct position {
    uint64_t image_bytes;
    size_t epochs;
    headcount ranks;
} position;

/* All ranks take over the image that `root` has, and its position. They do so by way of a copy, so that no rank is left
 * with half of another's state when one more is lost meanwhile. Frees the image. */
static int share_image(trainer *t, int root, header *image, position at) {
    static const char cannot[] = "cannot share the state to go on from";
    int rc = check(t->comm, kolo_broadcast(t->comm, &at, sizeof at, KOLO_U8, root), cannot);
    if (rc == 0 && image == NULL)
        image = allocate(at.image_bytes, 1);
    if (rc == 0)
        rc = check(t->comm, kolo_broadcast(t->comm, image, at.image_bytes, KOLO_U8, root), cannot);
    if (rc == 0) {
        t->epochs = at.epochs;
        t->ranks = at.ranks;
        rc = take_image(t, image);
    }
    free(image);
    return rc;
}

void checkpoint_try(const char *path) {
    struct kolo_new_file file;
    if (kolo_new_file_write(&file, path, 0666, NULL, 0) < 0)
        give_up("%s", file.message);
    kolo_new_file_drop(&file);
}

static volatile sig_atomic_t ended_by; /* a signal meanwhile; 0: none */

static void note_end(int number) {
    ended_by = number;
}

/* Threads of BLAS take signals that this thread blocks. So those that end the process are noted, and raised later. */
static bool write_file(struct kolo_new_file *file, const char *path, const header *image) {
    static const int ending[] = {SIGHUP, SIGINT, SIGTERM};
    enum { ENDING = sizeof ending / sizeof *ending };
    void (*before[ENDING])(int);
    for (int i = 0; i < ENDING; i++)
        if ((before[i] = signal(ending[i], note_end)) == SIG_IGN)
            signal(ending[i], SIG_IGN);
    const bool good =
        kolo_new_file_write(file, path, 0666, image, image->file_bytes) == 0 && kolo_new_file_name(file) == 0;
    for (int i = 0; i < ENDING; i++)
        signal(ending[i], before[i]);
    if (ended_by)
        raise(ended_by);
    return good;
}

int checkpoint_save(const trainer *t, const char *path) {
    const int first = kolo_comm_rank(t->comm) == 0;
    struct kolo_new_file file;
    header *image;
    kolo_trace_begin("checkpoint");
    const int rc = make_image(t, first, &image);
    if (first && rc == 0 && path == NULL)
        message_print("step %zu is not saved: the rank that knew where is lost", t->steps);
    else if (first && rc == 0 && !write_file(&file, path, image))
        give_up("%s", file.message);
    kolo_trace_end();
    free(image);
    return rc;
}

/* Refuses a file that is not of this training. */
static void check_file(const trainer *t, const char *path, const header *h, uint64_t bytes) {
    const header own = describe(t);
    part parts[PARTS];
    if (bytes < sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0)
        give_up("cannot resume: '%s' is no file of kolo-train --save", path);
    if (h->version != VERSION)
        give_up("cannot resume: '%s' has version %" PRIu64 "; this kolo-train reads version %d", path, h->version,
                VERSION);
    if (h->data_fingerprint != own.data_fingerprint)
        give_up("cannot resume '%s': --data: the rows are not those it was saved with", path);
    const struct {
        const char *option;
        uint64_t saved, own;
    } same[] = {{"--hidden", h->hidden, own.hidden},
                {t->settings->accumulate > 1 ? "--batch times --accumulate" : "--batch", h->batch_rows, own.batch_rows},
                {"--seed", h->seed, own.seed}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (same[i].saved != same[i].own)
            give_up("cannot resume '%s': it was saved with %s %" PRIu64 ", not %" PRIu64, path, same[i].option,
                    same[i].saved, same[i].own);
    if (h->optimizer != own.optimizer)
        give_up("cannot resume '%s': it was saved with another --optimizer", path);
    if (h->steps >= t->steps_planned)
        give_up("'%s' is of step %" PRIu64 ", and the training ends at step %zu: give more %s", path, h->steps,
                t->steps_planned, t->settings->steps_max == t->steps_planned ? "--steps" : "--epochs");
    const size_t wanted = lay_out(t, h, parts);
    if (h->parameters != own.parameters || h->epochs != epochs_begun(t, h->steps) || h->file_bytes != wanted ||
        bytes != wanted)
        give_up("cannot resume: '%s' is damaged: it has %" PRIu64 " bytes, and its header wants %zu", path, bytes,
                wanted);
    if (fingerprint_of(h) != h->fingerprint)
        give_up("cannot resume: '%s' is damaged: what it holds is not what was saved", path);
}

/* The whole file, checked. */
static header *read_file(const trainer *t, const char *path, uint64_t *bytes) {
    FILE *stream = fopen(path, "re");
    struct stat status;
    if (stream == NULL)
        give_up("cannot open '%s': %s", path, strerror(errno));
    if (fstat(fileno(stream), &status) < 0 || !S_ISREG(status.st_mode))
        give_up("cannot resume: '%s' is no file of kolo-train --save", path);
    *bytes = (uint64_t)status.st_size;
    header *image = allocate(*bytes, 1);
    if (fread(image, 1, *bytes, stream) != *bytes)
        give_up("cannot read '%s': %s", path, ferror(stream) ? strerror(errno) : "it is cut off");
    fclose(stream);
    check_file(t, path, image, *bytes);
    return image;
}

int checkpoint_resume(trainer *t, const char *path) {
    position at = {.ranks = t->ranks};
    header *image = kolo_comm_rank(t->comm) == 0 ? read_file(t, path, &at.image_bytes) : NULL;
    if (share_image(t, 0, image, at) < 0)
        return LOST;
    t->epochs = t->steps / t->steps_of_epoch;
    if (t->epochs < epochs_begun(t, t->steps)) /* its mean becomes a sum again */
        t->results[t->epochs].loss *= (double)t->results[t->epochs].samples;
    return 0;
}

int checkpoint_continue(trainer *t, kolo_comm *comm) {
    enum { RANK_BITS = 16 };
    const uint64_t rank_mask = (UINT64_C(1) << RANK_BITS) - 1;
    trainer_move(t, comm);
    /* The lowest of the ranks that have got furthest. */
    uint64_t furthest = (uint64_t)(t->steps + t->epochs) << RANK_BITS | (rank_mask - (uint64_t)kolo_comm_rank(comm));
    if (check(comm, kolo_allreduce(comm, &furthest, &furthest, 1, KOLO_U64, KOLO_MAX),
              "cannot agree on where to go on") < 0)
        return LOST;
    const int root = (int)(rank_mask - (furthest & rank_mask));
    header *image;
    if (make_image(t, kolo_comm_rank(comm) == root, &image) < 0)
        return LOST;
    return share_image(t, root, image, (position){describe(t).file_bytes, t->epochs, t->ranks});
}
