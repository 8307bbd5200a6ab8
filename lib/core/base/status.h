/* Error messages: the text behind kolo_error_message(). Each thread has one buffer, which is written on failure
 * only. */
#ifndef KOLO_BASE_STATUS_H
#define KOLO_BASE_STATUS_H

#include "kolo.h"

/* Stores the formatted text as this thread's error message and returns `status`, so that a caller can write
 * `return kolo_fail(KOLO_ERR_ARG, ...)`. */
int kolo_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Like kolo_fail, for a failed system call: appends ": <text of errno_value>", and the limit if there are too many open
 * files. Returns KOLO_ERR_SYSTEM. */
int kolo_fail_system(int errno_value, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Returns "KILL" for SIGKILL; NULL for real-time signals, and for numbers that are no signal. */
const char *kolo_signal_name(int number);

#endif
