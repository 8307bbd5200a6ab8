/* The terminal that kolo-top runs in: single keys, and a screen that is left as it was found, also by a signal. */
#ifndef KOLO_TOP_TERMINAL_H
#define KOLO_TOP_TERMINAL_H

#include <stdbool.h>

typedef enum top_event {
    TOP_EVENT_TIME, /* the time is over */
    TOP_EVENT_QUIT, /* the key q */
    TOP_EVENT_END   /* a signal that ends the program */
} top_event;

/* Takes over the keyboard where standard input and output are a terminal, and this process is in its foreground.
 * Without one, keys are not read and signals act as they always do. */
void top_terminal_open(void);

/* True if the key q quits. */
bool top_terminal_has_keys(void);

/* Waits, in a terminal until something happens. */
top_event top_terminal_wait(double seconds);

/* Gives the keyboard back. If a signal is to end the program, it ends here. */
void top_terminal_close(void);

#endif
