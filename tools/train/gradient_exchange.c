#include "gradient_exchange.h"

#include "complain.h"
#include "now.h"

static const double topk_share = 0.01;

static int is_by_layer(const train_settings *settings) {
    return settings->overlap || settings->compress != KOLO_COMPRESSION_NONE;
}

static size_t layer_count(const mlp_layer *layer) {
    return layer->biases + layer->outputs - layer->weights;
}

static kolo_op op_of(const exchange *e) {
    return e->settings->exact ? KOLO_SUM_EXACT : KOLO_SUM;
}

static int open_buckets(exchange *e) {
    if (e->settings->fused || !is_by_layer(e->settings))
        return 0;
    kolo_tensor tensors[MLP_LAYERS];
    for (int l = 0; l < MLP_LAYERS; l++) {
        const mlp_layer *layer = &e->model->layers[l];
        tensors[l] = (kolo_tensor){e->gradient + layer->weights, layer_count(layer)};
    }
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    options.op = op_of(e);
    options.bucket_bytes = e->settings->overlap ? 1 : 0; /* each layer goes out by itself */
    options.compression = e->settings->compress;
    options.compression_share = topk_share;
    options.error_feedback = !e->settings->no_feedback;
    if (kolo_bucket_create(e->comm, tensors, MLP_LAYERS, &options, &e->buckets) < 0)
        return complain(e->comm, "cannot make buckets of gradients: %s", kolo_error_message());
    return 0;
}

int exchange_create(exchange *e, kolo_comm *comm, const train_settings *settings, mlp *model, update *u,
                    float *gradient) {
    *e = (exchange){.comm = comm, .settings = settings, .model = model, .update = u, .gradient = gradient};
    return open_buckets(e);
}

void exchange_destroy(exchange *e) {
    kolo_bucket_destroy(e->buckets);
    e->buckets = NULL;
}

int exchange_move(exchange *e, kolo_comm *comm) {
    exchange_destroy(e);
    e->comm = comm;
    return open_buckets(e);
}

/* The gradients of a layer are there, and its parameters are no longer needed in this step. */
static void send_layer(void *context, int l) {
    exchange *e = context;
    if (e->rc < 0)
        return;
    const mlp_layer *layer = &e->model->layers[l];
    int rc = e->buckets != NULL
                 ? kolo_bucket_ready(e->buckets, (size_t)l)
                 : kolo_optimizer_begin_segment(e->update->optimizer, (size_t)l, e->gradient + layer->weights,
                                                e->model->parameters + layer->weights);
    e->rc = rc < 0 ? complain_kolo(e->comm, "cannot sum the gradients") : 0;
}

void exchange_keep(mlp *model) {
    model->ready = NULL;
}

void exchange_begin(exchange *e, mlp *model, size_t step) {
    e->rc = 0;
    model->context = e;
    const int is_probe = !e->settings->no_probes && step % EXCHANGE_PROBE_EVERY == EXCHANGE_PROBE;
    model->ready = e->settings->overlap && !is_probe ? send_layer : NULL;
}

/* What is left of the step when the backward pass has ended: layers that are not out yet, and waiting. */
static int finish_layers(exchange *e, int are_out) {
    for (int l = MLP_LAYERS - 1; l >= 0 && !are_out && e->buckets != NULL; l--)
        send_layer(e, l);
    if (e->rc == 0 && e->buckets != NULL && kolo_bucket_wait(e->buckets) < 0)
        e->rc = complain_kolo(e->comm, "cannot sum the gradients");
    if (e->rc == 0 && e->settings->fused)
        e->rc = update_step(e->update, e->comm, e->gradient, e->model->parameters);
    return e->rc;
}

static void note_times(exchange *e, int is_probe, double compute_seconds, double seconds) {
    if (is_probe) {
        e->probes++;
        e->probe_seconds += seconds;
    } else {
        e->overlapped_steps++;
        e->compute_seconds += compute_seconds;
        e->wait_seconds += seconds;
    }
}

int exchange_finish(exchange *e, mlp *model, double compute_seconds) {
    const size_t count = model->parameters_count;
    const int by_itself =
        e->settings->fused || e->buckets != NULL; /* the loss has no parameter, and is not compressed */
    const double before_s = now_s();
    if (by_itself && finish_layers(e, model->ready != NULL) < 0)
        return e->rc;
    if (e->settings->overlap)
        note_times(e, model->ready == NULL, compute_seconds, now_s() - before_s);
    float *summed = by_itself ? e->gradient + count : e->gradient;
    if (kolo_allreduce(e->comm, summed, summed, by_itself ? 1 : count + 1, KOLO_F32, op_of(e)) < 0)
        return complain_kolo(e->comm, "cannot sum the gradients");
    return 0;
}
