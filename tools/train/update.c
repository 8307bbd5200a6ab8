#include "update.h"

#include "complain.h"

static const double momentum = 0.9;
static const double adamw_weight_decay = 0.01;

static int open_alone(update *u, kolo_comm *comm) {
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = 0;
    options.size = 1;
    if (kolo_comm_create(&u->alone, &options) < 0)
        return complain(comm, "cannot make the optimizer of one rank: %s", kolo_error_message());
    return 0;
}

int update_create(update *u, kolo_comm *comm, const train_settings *settings, const mlp *model) {
    const size_t count = model->parameters_count;
    size_t ends[MLP_LAYERS];
    for (int l = 0; l < MLP_LAYERS; l++)
        ends[l] = model->layers[l].biases + model->layers[l].outputs;
    *u = (update){.count = count};
    if (!settings->fused && open_alone(u, comm) < 0)
        return -1;
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    options.count = count;
    options.segments = settings->overlap ? ends : NULL;
    options.nsegments = settings->overlap ? MLP_LAYERS : 0;
    options.op = KOLO_SUM; /* the ranks' gradients have been divided by the rows of the whole batch */
    group.end = count;
    group.learning_rate = settings->rate;
    if (settings->optimizer == TRAIN_SGD) {
        options.kind = KOLO_OPTIMIZER_SGD;
        group.momentum = momentum;
    } else {
        options.kind = KOLO_OPTIMIZER_ADAMW;
        group.weight_decay = adamw_weight_decay;
    }
    int rc = kolo_optimizer_create(settings->fused ? comm : u->alone, &options, &group, 1, &u->optimizer);
    if (rc == KOLO_ERR_SYSTEM)
        return complain(comm, "cannot make the optimizer: %s", kolo_error_message());
    return rc < 0 ? complain_kolo(comm, "cannot make the optimizer") : 0;
}

void update_destroy(update *u) {
    kolo_optimizer_destroy(u->optimizer);
    kolo_comm_destroy(u->alone);
    *u = (update){0};
}

int update_step(update *u, kolo_comm *comm, const float *gradients, float *parameters) {
    if (kolo_optimizer_step(u->optimizer, gradients, parameters, NULL) < 0)
        return complain_kolo(comm, "cannot update the parameters");
    return 0;
}

float *update_state(const update *u, kolo_optimizer_state which) {
    void *values = NULL;
    size_t count;
    kolo_optimizer_local_state(u->optimizer, which, &values, &count);
    return values;
}

size_t update_state_bytes(const update *u) {
    size_t bytes = 0;
    for (int which = 0; which < KOLO_OPTIMIZER_STATES; which++) {
        void *values = NULL;
        size_t count = 0;
        kolo_optimizer_local_state(u->optimizer, (kolo_optimizer_state)which, &values, &count);
        bytes += values != NULL ? count * sizeof(float) : 0;
    }
    return bytes;
}
