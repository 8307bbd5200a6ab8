/* Shows that table_faults notices what it is there to notice: ranks are given one defect after another. */
#ifndef KOLO_TESTS_TABLE_CONTROL_H
#define KOLO_TESTS_TABLE_CONTROL_H

/* Returns how many defects were not noticed, or seen where there is none. */
int table_control_run(const char *folder);

#endif
