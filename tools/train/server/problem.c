#include "problem.h"

#include <stdlib.h>
#include <string.h>

int problem_create(problem *p, const train_settings *settings, const dataset *train, const dataset *test,
                   size_t examples_max) {
    static const problem_kind *const kinds[] = {[TRAIN_DIGITS] = &problem_digits,
                                                [TRAIN_LOGISTIC] = &problem_logistic,
                                                [TRAIN_FACTORIZATION] = &problem_factorization};
    *p = (problem){.kind = kinds[settings->server.problem],
                   .settings = settings,
                   .train = train,
                   .test = test,
                   .ids_max = examples_max};
    if (p->kind->create(p) < 0) {
        problem_destroy(p);
        return -1;
    }
    p->elements = p->row_columns == NULL ? p->rows * p->columns : 0;
    for (uint64_t row = 0; row < p->rows && p->row_columns != NULL; row++)
        p->elements += p->row_columns[row];
    return 0;
}

void problem_destroy(problem *p) {
    if (p->kind != NULL)
        p->kind->destroy(p);
    free(p->ids);
    free(p->named);
    *p = (problem){0};
}

int problem_reserve_ids(problem *p, size_t ids_max) {
    p->ids_max = ids_max;
    p->ids = calloc(ids_max, sizeof *p->ids);
    p->named = calloc(p->rows, 2 * sizeof *p->named);
    return p->ids != NULL && p->named != NULL ? 0 : -1;
}

void problem_begin_choice(problem *p) {
    p->ids_count = 0;
    if (++p->choice == 0) { /* after 2^32 of them */
        memset(p->named, 0, p->rows * 2 * sizeof *p->named);
        p->choice = 1;
    }
}

size_t problem_place(problem *p, uint64_t row) {
    uint32_t *named = p->named + 2 * row;
    if (named[0] != p->choice) {
        named[0] = p->choice;
        named[1] = (uint32_t)p->ids_count;
        p->ids[p->ids_count++] = row;
    }
    return named[1];
}
