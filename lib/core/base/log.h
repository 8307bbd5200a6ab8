/* The log: messages on standard error, if KOLO_LOG asks for them. The level is the communicator's own, so that this
 * file keeps nothing per process. */
#ifndef KOLO_BASE_LOG_H
#define KOLO_BASE_LOG_H

typedef enum kolo_log_level { KOLO_LOG_OFF, KOLO_LOG_ERROR, KOLO_LOG_WARN, KOLO_LOG_INFO } kolo_log_level;

/* Writes "kolo: rank R: text" in one write if `level` is within `limit`. */
void kolo_log(kolo_log_level limit, kolo_log_level level, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

#endif
