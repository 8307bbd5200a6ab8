#include "checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/new_file.h"
#include "complain.h"
#include "messages.h"

enum { VERSION = 1 };
static const char magic[8] = "koloTRN";

/* How the file begins, in the byte order of the machine. Then, without gaps: results of the epochs, losses of the
 * steps, parameters, first and, with adamw, second moments. */
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

static int states_of(uint64_t optimizer) {
    return optimizer == TRAIN_ADAMW ? 2 : 1; /* momentum, variance */
}

/* Where the parts begin in a file of that header. */
typedef struct layout {
    size_t results, losses, parameters, states[2], end;
} layout;

static layout lay_out(const header *h) {
    layout at = {.results = sizeof(header)};
    at.losses = at.results + h->epochs * sizeof(epoch_result);
    at.parameters = at.losses + h->steps * sizeof(float);
    at.states[0] = at.parameters + h->parameters * sizeof(float);
    at.states[1] = at.states[0] + h->parameters * sizeof(float);
    at.end = states_of(h->optimizer) == 2 ? at.states[1] + h->parameters * sizeof(float) : at.states[1];
    return at;
}

static header describe(const trainer *t) {
    const train_settings *settings = &t->options->settings;
    header h = {.version = VERSION,
                .data_fingerprint = settings->data_fingerprint,
                .optimizer = settings->optimizer,
                .hidden = settings->hidden,
                .batch_rows = train_settings_step_rows(settings),
                .seed = settings->seed,
                .parameters = t->model.parameters_count,
                .steps = t->steps,
                .epochs = t->epochs};
    memcpy(h.magic, magic, sizeof magic);
    h.file_bytes = lay_out(&h).end;
    return h;
}

static uint64_t fingerprint_of(const char *file, size_t file_bytes) {
    return fingerprint_add(FINGERPRINT_BEGIN, file + sizeof(header), (file_bytes - sizeof(header)) / sizeof(uint32_t));
}

/* Writing. */

int checkpoint_try(const kolo_comm *comm, const char *path) {
    struct kolo_new_file file;
    if (kolo_new_file_write(&file, path, NULL, 0) < 0)
        return complain(comm, "%s", file.message);
    kolo_new_file_drop(&file);
    return 0;
}

static int replace_file(const kolo_comm *comm, const char *path, const char *bytes, size_t count) {
    struct kolo_new_file file;
    if (kolo_new_file_write(&file, path, bytes, count) < 0 || kolo_new_file_name(&file) < 0)
        return complain(comm, "%s", file.message);
    return 0;
}

/* Rank 0 gets the whole of the states, of which with --fused each rank has a part. Elsewhere `file` is NULL. */
static int collect_states(const trainer *t, const layout *at, char *file) {
    static const kolo_optimizer_state states[] = {KOLO_OPTIMIZER_MOMENTUM, KOLO_OPTIMIZER_VARIANCE};
    if (!t->options->settings.fused && file == NULL)
        return 0;
    for (int i = 0; i < states_of(t->options->settings.optimizer); i++)
        if (kolo_optimizer_read_state(t->update.optimizer, states[i], file != NULL ? file + at->states[i] : NULL, 0) <
            0)
            return complain_kolo(t->comm, "cannot collect the optimizer's state");
    return 0;
}

int checkpoint_save(const trainer *t, const char *path) {
    header h = describe(t);
    const layout at = lay_out(&h);
    int first = kolo_comm_rank(t->comm) == 0;
    char *file = first ? malloc(h.file_bytes) : NULL;
    if (first && file == NULL)
        return complain(t->comm, "not enough memory for a file of %" PRIu64 " bytes", h.file_bytes);
    int rc = collect_states(t, &at, file);
    if (first && rc == 0 && path == NULL)
        message_print("step %zu is not saved: the rank that knew where is lost", t->steps);
    if (first && rc == 0 && path != NULL) {
        memcpy(file + at.results, t->results, h.epochs * sizeof *t->results);
        memcpy(file + at.losses, t->losses, h.steps * sizeof *t->losses);
        memcpy(file + at.parameters, t->model.parameters, h.parameters * sizeof *t->model.parameters);
        h.fingerprint = fingerprint_of(file, h.file_bytes);
        memcpy(file, &h, sizeof h);
        rc = replace_file(t->comm, path, file, h.file_bytes);
    }
    free(file);
    return rc;
}

/* Reading. */

/* Whether the file is of this training, as far as its header says. */
static int check_header(const trainer *t, const char *path, const header *h, uint64_t file_bytes) {
    const header own = describe(t);
    const size_t batch = own.batch_rows, steps_of_epoch = (t->train->rows + batch - 1) / batch;
    const char *batch_option = t->options->settings.accumulate > 1 ? "--batch times --accumulate" : "--batch";
    if (file_bytes < sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0)
        return complain(t->comm, "cannot resume: '%s' is no file of kolo-train --save", path);
    if (h->version != VERSION)
        return complain(t->comm, "cannot resume: '%s' has version %" PRIu64 "; this kolo-train reads version %d", path,
                        h->version, VERSION);
    if (h->data_fingerprint != own.data_fingerprint)
        return complain(t->comm, "cannot resume '%s': --data: the rows are not those it was saved with", path);
    const struct {
        const char *option;
        uint64_t saved, own;
    } same[] = {
        {"--hidden", h->hidden, own.hidden}, {batch_option, h->batch_rows, batch}, {"--seed", h->seed, own.seed}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (same[i].saved != same[i].own)
            return complain(t->comm, "cannot resume '%s': it was saved with %s %" PRIu64 ", not %" PRIu64, path,
                            same[i].option, same[i].saved, same[i].own);
    if (h->optimizer != own.optimizer)
        return complain(t->comm, "cannot resume '%s': it was saved with another --optimizer", path);
    if (h->steps >= t->steps_planned)
        return complain(t->comm, "'%s' is of step %" PRIu64 ", and the training ends at step %zu: give more %s", path,
                        h->steps, t->steps_planned,
                        t->options->settings.steps_max == t->steps_planned ? "--steps" : "--epochs");
    if (h->parameters != own.parameters || h->epochs != (h->steps + steps_of_epoch - 1) / steps_of_epoch ||
        h->file_bytes != lay_out(h).end || h->file_bytes != file_bytes)
        return complain(t->comm, "cannot resume: '%s' is damaged: it has %" PRIu64 " bytes, and its header wants %zu",
                        path, file_bytes, lay_out(h).end);
    return 0;
}

/* Rank 0's part: *file becomes the whole file, checked. */
static int read_file(const trainer *t, const char *path, char **file, uint64_t *file_bytes) {
    header h = {0};
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return complain(t->comm, "cannot open '%s': %s", path, strerror(errno));
    struct stat status;
    int rc = 0;
    if (fstat(fileno(stream), &status) < 0 || !S_ISREG(status.st_mode) || fread(&h, 1, sizeof h, stream) == 0)
        rc = complain(t->comm, "cannot resume: '%s' is no file of kolo-train --save", path);
    *file_bytes = rc == 0 ? (uint64_t)status.st_size : 0;
    if (rc == 0)
        rc = check_header(t, path, &h, *file_bytes);
    if (rc == 0 && (*file = malloc(*file_bytes)) == NULL)
        rc = complain(t->comm, "not enough memory for the %" PRIu64 " bytes of '%s'", *file_bytes, path);
    rewind(stream);
    if (rc == 0 && fread(*file, 1, *file_bytes, stream) != *file_bytes)
        rc = complain(t->comm, "cannot read '%s': %s", path, ferror(stream) ? strerror(errno) : "it is cut off");
    if (rc == 0 && fingerprint_of(*file, *file_bytes) != h.fingerprint)
        rc = complain(t->comm, "cannot resume: '%s' is damaged: what it holds is not what was saved", path);
    fclose(stream);
    return rc;
}

/* Makes the trainer what the file says. */
static int take_over_file(trainer *t, const char *file) {
    header h;
    memcpy(&h, file, sizeof h);
    const layout at = lay_out(&h);
    const size_t batch = h.batch_rows, steps_of_epoch = (t->train->rows + batch - 1) / batch;
    memcpy(t->results, file + at.results, h.epochs * sizeof *t->results);
    memcpy(t->losses, file + at.losses, h.steps * sizeof *t->losses);
    memcpy(t->model.parameters, file + at.parameters, h.parameters * sizeof *t->model.parameters);
    t->steps = h.steps;
    t->epochs = h.steps / steps_of_epoch;
    if (t->epochs < h.epochs) /* its mean becomes a sum again */
        t->results[t->epochs].loss *= (double)t->results[t->epochs].samples;

    kolo_optimizer *optimizer = t->update.optimizer;
    int rc = kolo_optimizer_write_state(optimizer, KOLO_OPTIMIZER_MOMENTUM, file + at.states[0]);
    if (rc == 0 && states_of(h.optimizer) == 2)
        rc = kolo_optimizer_write_state(optimizer, KOLO_OPTIMIZER_VARIANCE, file + at.states[1]);
    if (rc == 0)
        rc = kolo_optimizer_set_steps(optimizer, h.steps);
    return rc == 0 ? 0 : complain_kolo(t->comm, "cannot load the optimizer's state");
}

int checkpoint_resume(trainer *t, const char *path) {
    char *file = NULL;
    uint64_t file_bytes = 0;
    int first = kolo_comm_rank(t->comm) == 0;
    int rc = first ? read_file(t, path, &file, &file_bytes) : 0;
    if (rc == 0 && kolo_broadcast(t->comm, &file_bytes, 1, KOLO_U64, 0) < 0)
        rc = complain_kolo(t->comm, "cannot share what was saved");
    if (rc == 0 && !first && (file = malloc(file_bytes)) == NULL)
        rc = complain(t->comm, "not enough memory for %" PRIu64 " bytes to go on from", file_bytes);
    if (rc == 0 && kolo_broadcast(t->comm, file, file_bytes, KOLO_U8, 0) < 0)
        rc = complain_kolo(t->comm, "cannot share what was saved");
    if (rc == 0)
        rc = take_over_file(t, file);
    free(file);
    return rc;
}
