/* kolo-info: what kolo sees of this machine, and what it would do here.
 *
 * Every figure is gathered once into a list of items (key, label, value); the table and the JSON are two ways of
 * printing that list, so they cannot disagree. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command_line.h"
#include "kolo_tools.h"
#include "memory_use.h"
#include "messages.h"
#include "printed_text.h"

static struct {
    int ranks; /* 0: as many as there are CPUs allowed */
    bool env_only;
    bool memory_only;
    bool stale_only;
    bool remove;
    bool all;           /* remove whatever is stale */
    char *const *names; /* to remove, jobs' names or paths; ended by NULL; none and not all: ask */
    bool json;
} chosen;

/* As a line, or as the next of a list of JSON objects. */
static void print_name(const kolo_job_name *name, bool removed, bool first) {
    char creator[64] = "no job file";
    if (chosen.json) {
        printf("%s\n    {\"path\": ", first ? "" : ",");
        json_text_print(stdout, name->path);
        printf(", \"pid\": %u, \"stale\": %s, \"age_s\": %" PRId64 ", \"removed\": %s}", name->pid,
               name->stale ? "true" : "false", name->age_s, removed ? "true" : "false");
        return;
    }
    if (name->pid)
        snprintf(creator, sizeof creator, "made by pid %u%s", name->pid,
                 name->stale ? ", which is gone" : ", which lives");
    printf("%s: %s, %s ago%s\n", name->path, creator, age_text(name->age_s).text, removed ? ": removed" : "");
}

/* All names as they are now: removing one would shift the places of others. NULL after a message. */
static kolo_job_name *list_names(size_t *count) {
    kolo_job_name *names = NULL, *more;
    for (*count = 0; (more = realloc(names, (*count + 1) * sizeof *names)); ++*count) {
        names = more;
        names[*count] = (kolo_job_name){.job_name_bytes = sizeof *names};
        const int rc = kolo_job_name_get(*count, &names[*count]);
        if (rc == KOLO_ERR_ARG) /* past the last */
            return names;
        if (rc < 0)
            break;
    }
    message_print("%s", more ? kolo_error_message() : "out of memory");
    free(names);
    return NULL;
}

/* True if somebody can answer a question. */
static bool can_ask(void) {
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* The job's name, of "/dev/shm/kolo-UID-JOB". */
static const char *job_of(const kolo_job_name *name) {
    const char *dash = strchr(strrchr(name->path, '/'), '-');
    return strchr(dash + 1, '-') + 1;
}

static bool is_named(const kolo_job_name *name, const char *asked) {
    return strcmp(asked, name->path) == 0 || strcmp(asked, strrchr(name->path, '/') + 1) == 0 ||
           strcmp(asked, job_of(name)) == 0;
}

/* 0, or -1 with a message. */
static int remove_name(const kolo_job_name *name) {
    return kolo_job_name_remove(name->path) < 0 ? message_print("%s", kolo_error_message()) : 0;
}

/* Those that are asked for, whether they are stale or not; -1 if one is not there or cannot be removed. */
static int remove_named(const kolo_job_name *names, size_t count) {
    int result = 0;
    bool first = true;
    for (char *const *asked = chosen.names; *asked; asked++) {
        size_t i = 0;
        while (i < count && !is_named(&names[i], *asked))
            i++;
        const int rc = i < count ? remove_name(&names[i])
                                 : message_print("'%s': no job of this user has that name in /dev/shm", *asked);
        if (rc == 0)
            print_name(&names[i], true, first);
        first &= rc < 0;
        result |= rc;
    }
    return result;
}

/* All names, and removes those that are stale if told to. */
static int print_all(const kolo_job_name *names, size_t count) {
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        const bool wanted = chosen.all && names[i].stale;
        const int rc = wanted ? remove_name(&names[i]) : 0;
        print_name(&names[i], wanted && rc == 0, i == 0);
        result |= rc;
    }
    return result;
}

/* Asks whether to remove those that are stale, and does so. */
static int ask_and_remove(const kolo_job_name *names, size_t count, size_t stale) {
    char answer[16] = "";
    int result = 0;
    fflush(stdout);
    fprintf(stderr, "remove the %zu that %s stale? [y/N] ", stale, stale == 1 ? "is" : "are");
    if (!fgets(answer, sizeof answer, stdin) || (answer[0] != 'y' && answer[0] != 'Y')) {
        fputs("nothing was removed\n", stderr);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!names[i].stale)
            continue;
        const int rc = remove_name(&names[i]);
        if (rc == 0)
            printf("%s: removed\n", names[i].path);
        result |= rc;
    }
    return result;
}

/* Prints the names of jobs that are there, stale or being created, and removes what is asked for; -1, with a message,
 * where that fails. With names to remove it prints those alone. */
static int print_stale(void) {
    size_t count, stale = 0;
    kolo_job_name *names = list_names(&count);
    if (!names)
        return -1;
    for (size_t i = 0; i < count; i++)
        stale += names[i].stale != 0;
    const bool named = *chosen.names;
    if (chosen.json)
        fputs("{\n  \"names\": [", stdout);
    int result = named ? remove_named(names, count) : print_all(names, count);
    if (chosen.json)
        puts("\n  ]\n}");
    else if (!named)
        printf("%zu stale of %zu names of jobs in /dev/shm\n", stale, count);
    if (chosen.remove && !chosen.all && !named && stale > 0)
        result |= ask_and_remove(names, count, stale);
    free(names);
    return message_unless_written() | result;
}

enum {
    PLANS = 15 /* message sizes shown: 8 B to 2 GiB, each four times the one before */
};

typedef struct report {
    kolo_machine machine;
    int ranks;
    size_t plan_bytes[PLANS]; /* message sizes */
    kolo_plan plans[PLANS];
} report;

typedef enum item_kind {
    ITEM_TEXT,
    ITEM_COUNT,
    ITEM_BYTES,       /* 0: unknown */
    ITEM_MILLICPUS,   /* 0: no limit */
    ITEM_KERNEL_CALL, /* 0: usable, else a negative errno */
    ITEM_PART         /* 1: the library has it */
} item_kind;

typedef struct item {
    const char *section; /* heading in the table; NULL: as the item before */
    const char *key;     /* in JSON */
    const char *label;   /* in the table */
    item_kind kind;
    const char *text; /* ITEM_TEXT */
    int64_t number;   /* the others */
} item;

static void print_item(const item *it, const kolo_machine *machine) {
    enum { VALUE_COLUMN = 22 };
    printf("  %-20s", it->label);
    switch (it->kind) {
    case ITEM_TEXT:
        wrapped_text_print(it->text[0] ? it->text : "unknown", VALUE_COLUMN, VALUE_COLUMN);
        break;
    case ITEM_COUNT:
        printf("%" PRId64 "\n", it->number);
        break;
    case ITEM_BYTES:
        /* All of /dev/shm may be in use: there, free space of 0 is a figure. */
        if (it->number || (!strcmp(it->key, "shm_free_bytes") && machine->shm_total_bytes))
            puts(bytes_text((uint64_t)it->number).text);
        else
            puts("unknown");
        break;
    case ITEM_MILLICPUS:
        if (it->number)
            printf("%.2f CPUs\n", (double)it->number / 1000);
        else
            puts("none");
        break;
    case ITEM_KERNEL_CALL:
        if (it->number)
            printf("not usable: %s\n", strerror((int)-it->number));
        else
            puts("usable");
        break;
    case ITEM_PART:
        puts(it->number ? "supported" : "not supported: built with KOLO_MACHINES=OFF");
        break;
    }
}

static void print_machine(const kolo_machine *machine, bool json) {
    const item list[] = {
        {"processor", "cpu_model", "model", ITEM_TEXT, machine->cpu_model, 0},
        {NULL, "isa", "instruction sets", ITEM_TEXT, machine->isa, 0},
        {NULL, "kernels", "kernels in use", ITEM_TEXT, machine->kernels, 0},
        {NULL, "l1d_bytes", "L1 data, per core", ITEM_BYTES, NULL, (int64_t)machine->l1d_bytes},
        {NULL, "l2_bytes", "L2, per core", ITEM_BYTES, NULL, (int64_t)machine->l2_bytes},
        {NULL, "l3_bytes", "L3, per domain", ITEM_BYTES, NULL, (int64_t)machine->l3_bytes},
        {"topology", "cpus_online", "CPUs online", ITEM_COUNT, NULL, machine->cpus_online},
        {NULL, "cpus_allowed", "CPUs allowed", ITEM_COUNT, NULL, machine->cpus_allowed},
        {NULL, "quota_millicpus", "CPU quota", ITEM_MILLICPUS, NULL, machine->quota_millicpus},
        {NULL, "l3_domains", "L3 domains", ITEM_COUNT, NULL, machine->l3_domains},
        {NULL, "numa_nodes", "NUMA nodes", ITEM_COUNT, NULL, machine->numa_nodes},
        {"memory", "memory_bytes", "memory", ITEM_BYTES, NULL, (int64_t)machine->memory_bytes},
        {NULL, "shm_total_bytes", "/dev/shm, size", ITEM_BYTES, NULL, (int64_t)machine->shm_total_bytes},
        {NULL, "shm_free_bytes", "/dev/shm, free", ITEM_BYTES, NULL, (int64_t)machine->shm_free_bytes},
        {"kernel", "io_uring", "io_uring", ITEM_KERNEL_CALL, NULL, machine->io_uring},
        {NULL, "membarrier", "membarrier", ITEM_KERNEL_CALL, NULL, machine->membarrier},
        {NULL, "pidfd", "pidfd", ITEM_KERNEL_CALL, NULL, machine->pidfd},
        {"library", "several_machines", "several machines", ITEM_PART, NULL, machine->several_machines},
    };
    const size_t count = sizeof list / sizeof *list;
    for (size_t i = 0; i < count && !json; i++) {
        if (list[i].section)
            printf("\n%s\n", list[i].section);
        print_item(&list[i], machine);
    }
    for (size_t i = 0; i < count && json; i++) {
        printf("    \"%s\": ", list[i].key);
        if (list[i].kind == ITEM_TEXT)
            json_text_print(stdout, list[i].text);
        else
            printf("%" PRId64, list[i].number);
        puts(i + 1 < count ? "," : "");
    }
}

static void print_plans(const report *seen) {
    printf("\nplan for an all-reduce (f32, sum) between %d rank%s\n", seen->ranks, seen->ranks == 1 ? "" : "s");
    fputs("  by: ", stdout);
    wrapped_text_print(seen->plans[0].tuning, 6, 6);
    printf("  a communicator: %s in the segment, and %s private to each rank\n"
           "  descriptors of a rank, for all communicators of these ranks: at most %d\n",
           bytes_text(seen->plans[0].segment_bytes).text, bytes_text(seen->plans[0].rank_bytes).text,
           seen->plans[0].descriptors);
    printf("  %10s  %-9s  %10s  %8s  %10s  %10s\n", "message", "algorithm", "chunk", "chunks", "slot", "segment");
    for (int i = 0; i < PLANS; i++) {
        const kolo_plan *plan = &seen->plans[i];
        printf("  %10s  %-9s  %10s  %8zu  %10s  %10s\n", bytes_text(seen->plan_bytes[i]).text,
               kolo_name(KOLO_NAME_ALGORITHM, plan->algorithm), bytes_text(plan->chunk_bytes).text, plan->chunks,
               bytes_text(plan->slot_bytes).text, bytes_text(plan->segment_bytes).text);
    }
}

static void print_plans_json(const report *seen) {
    printf("  \"plan\": {\n    \"ranks\": %d,\n    \"dtype\": \"f32\",\n    \"op\": \"sum\",\n    \"tuned\": %s,\n"
           "    \"tuning\": ",
           seen->ranks, seen->plans[0].tuned ? "true" : "false");
    json_text_print(stdout, seen->plans[0].tuning);
    printf(",\n    \"rank_bytes\": %zu,\n    \"descriptors\": %d,\n    \"rows\": [\n", seen->plans[0].rank_bytes,
           seen->plans[0].descriptors);
    for (int i = 0; i < PLANS; i++) {
        const kolo_plan *plan = &seen->plans[i];
        printf("      {\"bytes\": %zu, \"algorithm\": \"%s\", \"chunk_bytes\": %zu, \"chunks\": %zu, "
               "\"stream\": %s, \"slot_bytes\": %zu, \"segment_bytes\": %zu}%s\n",
               seen->plan_bytes[i], kolo_name(KOLO_NAME_ALGORITHM, plan->algorithm), plan->chunk_bytes, plan->chunks,
               plan->stream ? "true" : "false", plan->slot_bytes, plan->segment_bytes, i + 1 < PLANS ? "," : "");
    }
    puts("    ]\n  },");
}

/* As in a shell; what is not set stands there without a value. */
static void print_env(void) {
    enum { INDENT = 4 };
    kolo_variable variable = {.variable_bytes = sizeof variable};
    char text[1024];
    size_t i = 0;
    for (; kolo_variable_get(i, &variable) == KOLO_OK && variable.meaning; i++) {
        printf("%s%s%s\n%*s", variable.name, variable.value ? "=" : "", variable.value ? variable.value : "", INDENT,
               "");
        snprintf(text, sizeof text, "%s (default: %s)", variable.meaning, variable.default_value);
        wrapped_text_print(text, INDENT, INDENT);
    }
    putchar('\n');
    wrapped_text_print("kolo4py also reads KOLO_LIBRARY, the library that it loads, and KOLO_TORCH_GLOO: with 1, "
                       "PyTorch's \"gloo\" is kolo.",
                       0, 0);
    for (const size_t known = i; kolo_variable_get(i, &variable) == KOLO_OK; i++) {
        if (i == known)
            putchar('\n');
        wrapped_text_print(variable.mistake, INDENT, 0);
    }
}

static void print_json_field(const char *before, const char *name, const char *value) {
    printf("%s\"%s\": ", before, name);
    json_text_print(stdout, value);
}

static void print_env_json(void) {
    kolo_variable variable = {.variable_bytes = sizeof variable};
    fputs("  \"env\": [", stdout);
    size_t i = 0;
    for (; kolo_variable_get(i, &variable) == KOLO_OK && variable.meaning; i++) {
        print_json_field(i ? ",\n    {" : "\n    {", "name", variable.name);
        print_json_field(", ", "value", variable.value);
        print_json_field(", ", "default", variable.default_value);
        print_json_field(", ", "meaning", variable.meaning);
        putchar('}');
    }
    fputs("\n  ],\n  \"unknown\": [", stdout);
    const size_t known = i;
    for (; kolo_variable_get(i, &variable) == KOLO_OK; i++) {
        print_json_field(i > known ? ",\n    {" : "\n    {", "name", variable.name);
        print_json_field(", ", "nearest", variable.nearest);
        putchar('}');
    }
    puts(i > known ? "\n  ]" : "]");
}

enum { STALE_NAMES_MAX = 10000 };

static const command_option options[] = {
    {"--ranks N", "show the plan for N ranks (default: as many as CPUs are allowed)",
     TO_INTEGER(chosen.ranks, 1, KOLO_RANKS_MAX)},
    {"--env", "show every environment variable that kolo reads, and nothing else", TO_FLAG(chosen.env_only)},
    {"--memory",
     "make communicators of 2, 16, 64 and 256 processes, or of those of --ranks, show how much memory a rank of each "
     "takes, and nothing else",
     TO_FLAG(chosen.memory_only)},
    {"--stale",
     "show the names that jobs have in /dev/shm, and nothing else: a job has one while it is created, and a "
     "killed one may leave it behind",
     TO_FLAG(chosen.stale_only)},
    {"--remove",
     "with --stale: remove the named ones, unless their creator lives. NAME is a job's name, or a path as --stale "
     "shows it. Without a name it asks whether to remove all that are stale",
     TO_FLAG(chosen.remove)},
    {"--all", "with --stale --remove: remove all that are stale, without asking", TO_FLAG(chosen.all)},
    {"--json", "print one JSON object", TO_FLAG(chosen.json)},
};

static command_line line = {
    .program = "kolo-info",
    .before = "usage: kolo-info [OPTION...]\n"
              "       kolo-info --stale [--remove NAME...|--remove --all]\n\n"
              "Prints the version, what kolo sees of this machine, and which algorithm an all-reduce would use.",
    .options = options,
    .options_count = sizeof options / sizeof *options,
    .arguments_max = STALE_NAMES_MAX,
    .after = "Exit status: 0 done; 1 if the machine, the plan or /dev/shm cannot be read, or a name cannot be removed; "
             "2 for a wrong option.\n\n"
             "examples:\n"
             "  kolo-info --ranks 8 --json | python3 -m json.tool\n"
             "  kolo-info --stale --remove digits",
};

/* What goes with what. */
static void check_together(void) {
    const bool names = *chosen.names;
    if (chosen.env_only + chosen.memory_only + chosen.stale_only > 1)
        command_line_refuse(&line, "--env, --memory and --stale: give one of them");
    if (chosen.ranks && (chosen.env_only || chosen.stale_only))
        command_line_refuse(&line, "--ranks: --env and --stale show nothing of ranks; leave it out");
    if (chosen.remove && !chosen.stale_only)
        command_line_refuse(&line, "--remove goes with --stale");
    if (chosen.all && !chosen.remove)
        command_line_refuse(&line, "--all goes with --stale --remove");
    if (names && !chosen.remove)
        command_line_refuse(&line, "argument '%s': is not expected", chosen.names[0]);
    if (names && chosen.all)
        command_line_refuse(&line, "'%s' and --all: give names or --all", chosen.names[0]);
    if (chosen.remove && !chosen.all && !names && (chosen.json || !can_ask()))
        command_line_refuse(&line, "--remove: give the names to remove, or --all for all that are stale");
}

/* Asks for everything before a line is printed, so that an error leaves no half of a report. */
static int gather(report *seen, int ranks) {
    *seen = (report){.machine.machine_bytes = sizeof(kolo_machine)};
    if (kolo_machine_query(&seen->machine) < 0)
        return message_print("%s", kolo_error_message());
    seen->ranks = ranks ? ranks : (int)seen->machine.cpus_allowed;
    if (seen->ranks > KOLO_RANKS_MAX)
        seen->ranks = KOLO_RANKS_MAX;
    size_t bytes = 8;
    for (int i = 0; i < PLANS; i++, bytes *= 4) {
        size_t count = bytes / kolo_dtype_bytes(KOLO_F32);
        seen->plan_bytes[i] = bytes;
        seen->plans[i].plan_bytes = sizeof(kolo_plan);
        if (kolo_plan_query(&seen->plans[i], NULL, seen->ranks, KOLO_ALLREDUCE, count, KOLO_F32, KOLO_SUM) < 0)
            return message_print("no plan for %d ranks and %zu bytes: %s", seen->ranks, bytes, kolo_error_message());
    }
    return 0;
}

static void print_table(const report *seen) {
    printf("kolo %s\n", kolo_version());
    print_machine(&seen->machine, false);
    print_plans(seen);
}

static void print_json(const report *seen) {
    printf("{\n  \"version\": \"%s\",\n", kolo_version());
    if (seen) {
        puts("  \"machine\": {");
        print_machine(&seen->machine, true);
        puts("  },");
        print_plans_json(seen);
    }
    print_env_json();
    puts("}");
}

int main(int argc, char **argv) {
    report seen;
    chosen.names = command_line_read(&line, argc, argv);
    check_together();
    if (chosen.stale_only)
        return print_stale() < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    if (chosen.memory_only)
        return memory_use_report(chosen.ranks, chosen.json) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    if (!chosen.env_only && gather(&seen, chosen.ranks) < 0)
        return EXIT_FAILURE;

    if (chosen.json)
        print_json(chosen.env_only ? NULL : &seen);
    else if (chosen.env_only)
        print_env();
    else
        print_table(&seen);

    return message_unless_written() < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
