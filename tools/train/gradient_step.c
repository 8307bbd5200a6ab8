#include "gradient_step.h"

#include "complain.h"
#include "now.h"

static const double momentum = 0.9, adamw_weight_decay = 0.01, topk_share = 0.01;
static const char cannot_sum[] = "cannot sum the gradients";

static kolo_op op_of(const train_settings *settings) {
    return settings->way.exact ? KOLO_SUM_EXACT : KOLO_SUM;
}

static void open_buckets(gradient_step *s) {
    const train_settings *settings = s->settings;
    if (settings->way.fused || (!settings->way.overlap && settings->way.compress == KOLO_COMPRESSION_NONE))
        return;
    kolo_tensor tensors[MLP_LAYERS];
    for (int l = 0; l < MLP_LAYERS; l++) {
        const mlp_layer *layer = &s->model->layers[l];
        tensors[l] = (kolo_tensor){s->gradient + layer->weights, layer->biases + layer->outputs - layer->weights};
    }
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    options.op = op_of(settings);
    options.bucket_bytes = settings->way.overlap ? 1 : 0; /* each layer goes out by itself */
    options.compression = settings->way.compress;
    options.compression_share = topk_share;
    options.error_feedback = !settings->way.no_feedback;
    if (kolo_bucket_create(s->comm, tensors, MLP_LAYERS, &options, &s->buckets) < 0)
        give_up("cannot make buckets of gradients: %s", kolo_error_message());
}

static int open_optimizer(gradient_step *s) {
    const train_settings *settings = s->settings;
    size_t ends[MLP_LAYERS];
    for (int l = 0; l < MLP_LAYERS; l++)
        ends[l] = s->model->layers[l].biases + s->model->layers[l].outputs;
    kolo_options alone = KOLO_OPTIONS_INIT;
    alone.rank = 0;
    alone.size = 1;
    if (!settings->way.fused && kolo_comm_create(&s->alone, &alone) < 0)
        give_up("cannot make the optimizer of one rank: %s", kolo_error_message());
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    options.count = group.end = s->model->parameters_count;
    options.segments = settings->way.overlap ? ends : NULL;
    options.nsegments = settings->way.overlap ? MLP_LAYERS : 0;
    options.op = KOLO_SUM; /* the ranks' gradients have been divided by the rows of the whole batch */
    options.kind = settings->optimizer == TRAIN_SGD ? KOLO_OPTIMIZER_SGD : KOLO_OPTIMIZER_ADAMW;
    group.learning_rate = settings->rate;
    group.momentum = settings->optimizer == TRAIN_SGD ? momentum : 0;
    group.weight_decay = settings->optimizer == TRAIN_ADAMW ? adamw_weight_decay : 0;
    return check(s->comm,
                 kolo_optimizer_create(settings->way.fused ? s->comm : s->alone, &options, &group, 1, &s->optimizer),
                 "cannot make the optimizer");
}

int step_create(gradient_step *s, kolo_comm *comm, const train_settings *settings, mlp *model, float *gradient) {
    *s = (gradient_step){.comm = comm, .settings = settings, .model = model, .gradient = gradient};
    model->context = s;
    open_buckets(s);
    return open_optimizer(s);
}

void step_destroy(gradient_step *s) {
    kolo_bucket_destroy(s->buckets);
    kolo_optimizer_destroy(s->optimizer);
    kolo_comm_destroy(s->alone);
    *s = (gradient_step){0};
}

void step_move(gradient_step *s, kolo_comm *comm) {
    kolo_bucket_destroy(s->buckets);
    s->buckets = NULL;
    s->comm = comm;
    open_buckets(s);
}

/* The gradients of a layer are there, and its parameters are no longer needed in this step. */
static void send_layer(void *context, int l) {
    gradient_step *s = context;
    const size_t first = s->model->layers[l].weights;
    if (s->rc == 0 && s->buckets != NULL)
        s->rc = check(s->comm, kolo_bucket_ready(s->buckets, (size_t)l), cannot_sum);
    else if (s->rc == 0)
        s->rc = check(
            s->comm,
            kolo_optimizer_begin_segment(s->optimizer, (size_t)l, s->gradient + first, s->model->parameters + first),
            cannot_sum);
}

void step_begin(gradient_step *s, size_t number, int is_last) {
    const int is_probe = s->settings->ways_count == 0 && number % STEP_PROBE_EVERY == STEP_PROBE;
    s->rc = 0;
    s->model->ready = s->settings->way.overlap && is_last && !is_probe ? send_layer : NULL;
}

int step_update(gradient_step *s) {
    return check(s->comm, kolo_optimizer_step(s->optimizer, s->gradient, s->model->parameters, NULL),
                 "cannot update the parameters");
}

/* What is left of the layers when the backward pass has ended: those that are not out yet, and waiting. */
static int finish_layers(gradient_step *s) {
    for (int l = MLP_LAYERS - 1; l >= 0 && s->model->ready == NULL && s->buckets != NULL; l--)
        send_layer(s, l);
    if (s->rc == 0 && s->buckets != NULL)
        s->rc = check(s->comm, kolo_bucket_wait(s->buckets), cannot_sum);
    return s->rc == 0 && s->settings->way.fused ? step_update(s) : s->rc;
}

static void note_times(gradient_step *s, double compute_seconds, double seconds) {
    if (s->model->ready == NULL) {
        s->probes++;
        s->probe_seconds += seconds;
    } else {
        s->overlapped_steps++;
        s->compute_seconds += compute_seconds;
        s->wait_seconds += seconds;
    }
}

int step_sum(gradient_step *s, double compute_seconds) {
    const size_t count = s->model->parameters_count;
    const int by_layers = s->settings->way.fused || s->buckets != NULL; /* but not the loss */
    const double before_s = now_s();
    if (by_layers && finish_layers(s) < 0)
        return LOST;
    if (s->settings->way.overlap)
        note_times(s, compute_seconds, now_s() - before_s);
    float *summed = by_layers ? s->gradient + count : s->gradient;
    return check(s->comm,
                 kolo_allreduce(s->comm, summed, summed, by_layers ? 1 : count + 1, KOLO_F32, op_of(s->settings)),
                 cannot_sum);
}

size_t step_state_bytes(const gradient_step *s) {
    size_t bytes = 0;
    for (int which = 0; which < KOLO_OPTIMIZER_STATES; which++) {
        void *values = NULL;
        size_t count = 0;
        kolo_optimizer_local_state(s->optimizer, (kolo_optimizer_state)which, &values, &count);
        bytes += values != NULL ? count * sizeof(float) : 0;
    }
    return bytes;
}
