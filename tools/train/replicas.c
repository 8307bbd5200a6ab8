/* SPDX-License-Identifier: Apache-2.0 */
#include "replicas.h"

#include "complain.h"

#include <string.h>

int replicas_share_dataset(kolo_comm *comm, dataset *data) {
    uint64_t shape[3] = {data->rows, data->features, data->classes};
    if (kolo_broadcast(comm, shape, 3, KOLO_U64, 0) < 0)
        return complain_kolo(comm, "cannot share the data's shape");
    if (kolo_comm_rank(comm) != 0 && data->inputs == NULL) {
        *data = (dataset){.rows = shape[0], .features = shape[1], .classes = shape[2]};
        if (dataset_allocate(data) < 0)
            return complain(comm, "not enough memory for %zu rows of %zu numbers", data->rows, data->features);
    }
    if (kolo_broadcast(comm, data->inputs, data->rows * data->features, KOLO_F32, 0) < 0 ||
        kolo_broadcast(comm, data->labels, data->rows, KOLO_I32, 0) < 0)
        return complain_kolo(comm, "cannot share the data");
    return 0;
}

/* Compared as integers: as floats, 0 would equal -0 and a NaN would differ from itself. */
int replicas_identical(kolo_comm *comm, const float *values, size_t count, uint32_t *scratch) {
    uint32_t *lowest = scratch;
    uint32_t *highest = scratch + count;
    if (kolo_allreduce(comm, values, lowest, count, KOLO_U32, KOLO_MIN) < 0 ||
        kolo_allreduce(comm, values, highest, count, KOLO_U32, KOLO_MAX) < 0)
        return complain_kolo(comm, "cannot compare the parameters");
    return memcmp(lowest, highest, count * sizeof(*lowest)) == 0;
}
