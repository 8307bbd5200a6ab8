/* Shows that the sweep notices what it is there to notice: survivors are given one defect after another. */
#ifndef KOLO_TESTS_FAULT_CONTROL_H
#define KOLO_TESTS_FAULT_CONTROL_H

/* Returns the program's exit status. */
int control_run(void);

#endif
