/* The predefined types of MPI as the tests know them: how an element is read and written, which operations the standard
 * allows on it, and what these give. Values are small enough that each result is exact in each type. */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an element is made of. A complex number or a pair has two parts. */
enum part { PART_NONE, PART_SIGNED, PART_UNSIGNED, PART_FLOAT, PART_QUAD };

/* The standard's groups of types, by which it allows operations. */
enum number {
    NUMBER_INTEGER = 1,
    NUMBER_FLOAT = 2,
    NUMBER_LOGICAL = 4, /* 0 and 1 */
    NUMBER_COMPLEX = 8,
    NUMBER_BYTE = 16,
    NUMBER_PAIR = 32,
    NUMBER_FOREIGN = 64, /* integers of Fortran, and those that all languages have */
    NUMBER_OTHER = 128   /* is only moved */
};

struct element {
    const char *name;
    MPI_Datatype type;
    enum number number;
    enum part parts[2];
    size_t sizes[2]; /* of the parts, in bytes */
    size_t offset;   /* of the second part, in bytes */
    size_t bytes;    /* from one element of an array to the next */
};

struct value {
    long double parts[2];
};

enum calculation {
    DO_SUM,
    DO_PROD,
    DO_MIN,
    DO_MAX,
    DO_LAND,
    DO_LOR,
    DO_LXOR,
    DO_BAND,
    DO_BOR,
    DO_BXOR,
    DO_MINLOC,
    DO_MAXLOC
};

struct operation {
    const char *name;
    MPI_Op op;
    enum calculation calculation;
    int numbers; /* enum number, joined */
};

enum { OPERATIONS = 12 };
extern const struct element mpi_elements[];
extern const int mpi_elements_count;
extern const struct operation mpi_operations[OPERATIONS];

const struct element *element_named(const char *name); /* ends the program where there is none */

/* Whether this MPI has the type at all, and the operation on it. */
bool element_exists(const struct element *element);
bool operation_exists(const struct operation *operation, const struct element *element);

struct value element_load(const struct element *element, const void *address);
void element_store(const struct element *element, void *address, struct value value);
bool values_equal(const struct element *element, struct value a, struct value b);

/* An input that `draw` decides on, for an operation (NULL: to be moved) of at most MPI_RANKS_MAX ranks. */
enum { MPI_RANKS_MAX = 6 };
struct value element_input(const struct element *element, const struct operation *operation, uint64_t draw);
extern bool is_strict; /* has integers compared that have the highest bit set */
struct value operation_apply(const struct operation *operation, const struct element *element, struct value a,
                             struct value b);
