/* --elastic: new processes join a training at the end of an epoch. */
#pragma once

#include "kolo.h"

#include "train_options.h"

/* Opens the training to others under the name options->job: *listener becomes, on ranks on which it is -1, the socket
 * at which they wait (kolo_comm_listen). Collective. Returns 0 or LOST (complain.h). */
int elastic_open(int *listener, kolo_comm *comm, const train_options *options);

/* Between two epochs: looks whether somebody wants to join, without waiting for one. Collective. Returns how many have
 * joined: then *comm is another communicator, with its old ranks first and then the new ones, who know nothing yet.
 * LOST: the communicator broke; the new ones are not in. */
int elastic_admit(int listener, kolo_comm **comm, train_settings *training);

/* After the last epoch: tells those who still wait. */
void elastic_close(int *listener, const kolo_comm *comm);

/* A new process's part: asks the training options->join_job to be taken in, waits for the end of its epoch, and creates
 * the communicator together with its ranks. Should that communicator break before all else is known, it may ask again.
 */
kolo_comm *elastic_join(const train_options *options);
