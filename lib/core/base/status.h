/* What users read: the message of a failed call, behind kolo_error_message(), and lines of the log on standard error,
 * if KOLO_LOG asks for them. Each thread has one buffer for messages, which is written on failure only. Each
 * communicator has a level. */
#pragma once

#include "kolo.h"

/* Stores the formatted text as this thread's error message and returns `status`. */
int kolo_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Likewise of a call of `function` on a communicator: the message begins with the rank and the function. The format is
 * a string constant. KOLO_REFUSE: of arguments. */
#define KOLO_FAIL_IN(comm, function, status, format, ...)                                                              \
    kolo_fail(status, "rank %u: %s: " format, (comm)->global_rank, function, ##__VA_ARGS__)
#define KOLO_REFUSE(comm, function, ...) KOLO_FAIL_IN(comm, function, KOLO_ERR_ARG, __VA_ARGS__)

/* Like kolo_fail, for a failed system call: appends ": <text of errno_value>", and the limit if there are too many open
 * files. Returns KOLO_ERR_SYSTEM. */
int kolo_fail_system(int errno_value, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Returns "KILL" for SIGKILL; NULL for real-time signals, and for numbers that are no signal. */
const char *kolo_signal_name(int number);

/* Appends to a text that has `room` bytes, as printf writes; what does not fit is cut off. */
void kolo_text_add(char *text, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

typedef enum kolo_log_level { KOLO_LOG_OFF, KOLO_LOG_ERROR, KOLO_LOG_WARN, KOLO_LOG_INFO } kolo_log_level;

/* Writes "kolo: rank R: text" in one write if `level` is within `limit`. */
void kolo_log(kolo_log_level limit, kolo_log_level level, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
