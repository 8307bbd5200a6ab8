/* Finds variables of the environment that begin with KOLO_ but that nothing reads: probably misspellings. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kolo_tools.h"
#include "base/environment.h"
#include "base/name_distance.h"
#include "base/sized.h"
#include "base/status.h"

#define PREFIX "KOLO_"

enum { PREFIX_BYTES = sizeof PREFIX - 1, NAME_BYTES = sizeof((kolo_unknown_variable *)0)->name, LIKE_MIN = 3 };

/* These belong to the tests and the bindings. */
static const char *const left_alone[] = {"KOLO_TEST_", "KOLO_MPI_", "KOLO_TORCH_", "KOLO_LIBRARY"};

static bool is_known(const char *name) {
    for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++)
        if (strncmp(name, left_alone[i], strlen(left_alone[i])) == 0)
            return true;
    for (int i = 0; i < KOLO_VARIABLES; i++)
        if (strcmp(name, kolo_environment_name((kolo_variable_index)i)) == 0)
            return true;
    return false;
}

/* The name before the '='. Characters that a terminal cannot show become '?'. */
static void copy_name(const char *entry, char *name) {
    size_t length = 0;
    for (; length + 1 < NAME_BYTES && entry[length] && entry[length] != '='; length++)
        name[length] = isgraph((unsigned char)entry[length]) ? entry[length] : '?';
    name[length] = '\0';
}

/* The known name that is most similar; NULL if none is. A name that contains the other counts as more similar than any
 * that does not. */
static const char *find_nearest(const char *name) {
    const char *given = name + PREFIX_BYTES, *nearest = NULL;
    size_t least = SIZE_MAX;
    for (int i = 0; i < KOLO_VARIABLES; i++) {
        const char *known = kolo_environment_name((kolo_variable_index)i), *rest = known + PREFIX_BYTES;
        const size_t longer = strlen(given) > strlen(rest) ? strlen(given) : strlen(rest);
        const size_t shorter = strlen(given) + strlen(rest) - longer;
        const size_t apart = kolo_name_distance(given, strlen(given), rest, strlen(rest));
        const bool contained = shorter >= LIKE_MIN && (strcasestr(rest, given) || strcasestr(given, rest));
        if (!contained && 2 * apart > longer)
            continue;
        const size_t score = (contained ? 0 : NAME_BYTES) + apart;
        if (score < least) {
            least = score;
            nearest = known;
        }
    }
    return nearest;
}

int kolo_unknown_variable_get(size_t index, kolo_unknown_variable *unknown) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_unknown_variable, unknown_bytes, message);
    kolo_unknown_variable found = {.nearest = NULL};
    const int rc = kolo_sized_check(&sized, "kolo_unknown_variable_get", unknown);
    if (rc < 0)
        return rc;
    bool reached = false;
    for (char **entry = environ; entry && *entry && !reached; entry++) {
        if (strncmp(*entry, PREFIX, PREFIX_BYTES) != 0)
            continue;
        copy_name(*entry, found.name);
        reached = !is_known(found.name) && index-- == 0;
    }
    if (!reached)
        return kolo_fail(KOLO_ERR_ARG, "kolo_unknown_variable_get: index past the last one");
    found.nearest = find_nearest(found.name);
    snprintf(found.message, sizeof found.message, "%s is not a variable of kolo%s%s%s", found.name,
             found.nearest ? "; did you mean " : ", and nothing reads it", found.nearest ? found.nearest : "",
             found.nearest ? "?" : "");
    kolo_sized_fill(&sized, unknown, &found);
    return 0;
}
