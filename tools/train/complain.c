#include "complain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "messages.h"

int complain(const kolo_comm *comm, const char *format, ...) {
    char text[1024], prefix[32] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (comm != NULL && kolo_comm_size(comm) > 1)
        snprintf(prefix, sizeof(prefix), "rank %d: ", kolo_comm_rank(comm));
    const int is_named = strstr(text, prefix) != NULL; /* in a message of kolo's that is quoted */
    return message_print("%s%s", is_named ? "" : prefix, text);
}

static int losses_are_told;

void complain_not_of_losses(void) {
    losses_are_told = 1;
}

int complain_kolo(const kolo_comm *comm, const char *what) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    if (losses_are_told)
        return COMPLAIN_LOST;
    int told_elsewhere = kolo_comm_failure(comm, &failure) == KOLO_OK && failure.status != KOLO_OK &&
                         failure.reporter != kolo_comm_rank(comm);
    if (!told_elsewhere)
        message_print("%s: %s", what, kolo_error_message()); /* which names the rank */
    return COMPLAIN_LOST;
}
