/* Named points of the protocol, at which a test makes a rank die or stop. They stand around every store that others
 * read, every wait, system call and change of state. Only the test build of the library (tests/faults) defines
 * KOLO_POINTS, and the test defines kolo_point_reached; in all other builds a point is nothing.
 *
 * A name is "<file or object>.<what has just been done, or is about to be: -ing>", and stands in one place only. All
 * names of a program lie in a section of their own, so that a test also knows the points that no rank has passed. */
#pragma once

#ifdef KOLO_POINTS

void kolo_point_reached(const char *name);

#define KOLO_POINT(name)                                                                                               \
    do {                                                                                                               \
        static const char point_[] __attribute__((used, section("kolo_points"))) = name;                               \
        kolo_point_reached(point_);                                                                                    \
    } while (0)

#else

#define KOLO_POINT(name) ((void)0)

#endif
