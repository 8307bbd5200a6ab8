/* This process's rank before there is a communicator, as its launcher tells it. */
#pragma once

/* A guess, good enough to choose who speaks and who measures the hardware; kolo_comm_create has the last word. */
typedef struct launched_rank {
    int rank; /* 0 where no launcher says otherwise */
    int size; /* 1 where no launcher says otherwise */
} launched_rank;

launched_rank launched_rank_guess(void);
