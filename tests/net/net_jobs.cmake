# Jobs on several nodes, which are network namespaces of this machine (lab.py). 77: not allowed here. Serial, as times are
# measured; a sample of the cases by a seed that is printed, every case with --whole.
if(KOLO_TOOLS AND TARGET kolo-perf)
    add_executable(net_rank net_rank.c)
    target_compile_definitions(net_rank PRIVATE _GNU_SOURCE)
    target_link_libraries(net_rank PRIVATE kolo::kolo)
    set(environment KOLORUN=$<TARGET_FILE:kolorun> KOLO_PERF=$<TARGET_FILE:kolo-perf> NET_RANK=$<TARGET_FILE:net_rank>
                    KOLO_BUILD=${PROJECT_BINARY_DIR} CC=${CMAKE_C_COMPILER})
    set(scripts net_strangers)
    if(NOT KOLO_SANITIZE) # there net.nodes sums
        list(APPEND scripts net_sums lab relay net_failures net_shrink net_bench)
    endif()
    if(TARGET kolo-train)
        list(APPEND scripts net_train)
        list(APPEND environment KOLO_TRAIN=$<TARGET_FILE:kolo-train>)
    endif()
    foreach(script ${scripts})
        string(REGEX REPLACE "^net_" "" part ${script})
        add_test(NAME net.${part} COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/${script}_test.py)
        set_tests_properties(net.${part} PROPERTIES LABELS "net;lab" TIMEOUT 300 SKIP_RETURN_CODE 77 RUN_SERIAL ON
                             ENVIRONMENT "${environment}")
    endforeach()
endif()
