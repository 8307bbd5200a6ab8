#include "complain.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "messages.h"

static kolo_comm *const no_job, *const *job = &no_job;
static bool losses_are_survived;

void complain_in(kolo_comm *const *its) {
    job = its;
}

void survive_losses(void) {
    losses_are_survived = true;
}

static void print(const char *format, va_list arguments) {
    char text[1024], prefix[32] = "";
    vsnprintf(text, sizeof(text), format, arguments);
    if (*job != NULL && kolo_comm_size(*job) > 1)
        snprintf(prefix, sizeof(prefix), "rank %d: ", kolo_comm_rank(*job));
    const int is_named = strstr(text, prefix) != NULL; /* in a message of kolo's that is quoted */
    message_print("%s%s", is_named ? "" : prefix, text);
}

void complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

static _Noreturn void leave(void) {
    if (*job != NULL)
        kolo_comm_abort(*job, EXIT_FAILURE);
    exit(EXIT_FAILURE);
}

void give_up(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
    leave();
}

void give_up_together(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (kolo_comm_rank(*job) == 0)
        print(format, arguments);
    else
        message_left_to_another();
    va_end(arguments);
    leave();
}

int check(kolo_comm *comm, int status, const char *cannot) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    if (status >= 0)
        return 0;
    const bool is_broken = kolo_comm_failure(comm, &failure) == KOLO_OK && failure.status != KOLO_OK;
    if (is_broken && losses_are_survived)
        return LOST;
    const bool is_told = is_broken && failure.reporter != kolo_comm_rank(comm);
    if (!is_told)
        message_print("%s: %s", cannot, kolo_error_message()); /* which names the rank */
    kolo_comm_abort(comm, EXIT_FAILURE);
    if (is_told)
        message_left_to_another();
    leave();
}

void *enlarge(void *memory, size_t count, size_t bytes) {
    memory = reallocarray(memory, count > 0 ? count : 1, bytes);
    if (memory == NULL)
        give_up("not enough memory for %zu times %zu bytes", count, bytes);
    return memory;
}

void *allocate(size_t count, size_t bytes) {
    return memset(enlarge(NULL, count, bytes), 0, count * bytes);
}
