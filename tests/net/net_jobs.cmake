# Jobs on several nodes, which are network namespaces of this machine (lab.py). 77: not allowed here. A sample of the
# cases by a seed that is printed, every case with --whole.
if(KOLO_TOOLS AND TARGET kolo-perf)
    add_executable(net_rank net_rank.c)
    target_compile_definitions(net_rank PRIVATE _GNU_SOURCE)
    target_link_libraries(net_rank PRIVATE kolo::kolo)
    add_executable(net_table net_table.c nodes_table_parts.c $<TARGET_OBJECTS:rank_harness>)
    target_include_directories(net_table PRIVATE ${PROJECT_SOURCE_DIR}/tests/ranks)
    target_compile_definitions(net_table PRIVATE _GNU_SOURCE)
    target_link_libraries(net_table PRIVATE kolo::kolo Threads::Threads m)
    set(environment KOLORUN=$<TARGET_FILE:kolorun> KOLO_PERF=$<TARGET_FILE:kolo-perf> NET_RANK=$<TARGET_FILE:net_rank>
                    NET_TABLE=$<TARGET_FILE:net_table> NODES_TABLE_TEST=$<TARGET_FILE:nodes_table_test>
                    KOLO_BUILD=${PROJECT_BINARY_DIR} CC=${CMAKE_C_COMPILER})
    if(TARGET kolo-train)
        list(APPEND environment KOLO_TRAIN=$<TARGET_FILE:kolo-train>)
    endif()
    # add_lab_test(NAME SCRIPT [ARGUMENT ...] [PROPERTIES ...])
    function(add_lab_test name script)
        cmake_parse_arguments(lab "" "" PROPERTIES ${ARGN})
        add_test(NAME net.${name} COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/${script}_test.py
                                          ${lab_UNPARSED_ARGUMENTS})
        set_tests_properties(net.${name} PROPERTIES LABELS "net;lab" TIMEOUT 300 SKIP_RETURN_CODE 77
                             ENVIRONMENT "${environment}" ${lab_PROPERTIES})
    endfunction()
    add_lab_test(strangers net_strangers)
    if(NOT KOLO_SANITIZE) # there net.nodes sums
        # Of what waits these take longest, and go first.
        add_lab_test(failures.nodes net_failures Failures PROPERTIES COST 100)
        add_lab_test(failures.linking net_failures Linking PROPERTIES COST 100)
        add_lab_test(failures.connections net_failures Relayed PROPERTIES COST 100)
        add_lab_test(shrink net_shrink PROPERTIES COST 100)
        add_lab_test(sums net_sums PROPERTIES ${half_busy})
        add_lab_test(tables net_tables PROPERTIES ${half_busy} COST 100)
        add_lab_test(bench net_bench)
        add_lab_test(relay relay)
        add_lab_test(lab lab PROPERTIES RUN_SERIAL ON) # it measures what a cable carries
    endif()
    if(TARGET kolo-train)
        add_lab_test(train net_train PROPERTIES ${half_busy})
    endif()
endif()
