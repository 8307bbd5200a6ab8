# kolo4py.hvd and the examples, with the library of this build.
set(bindings ${PROJECT_SOURCE_DIR}/lib/bindings)
set(program_environment
    PYTHONPATH=${bindings}/python:${CMAKE_BINARY_DIR}/site:${PROJECT_SOURCE_DIR}/tests/tools:${PROJECT_SOURCE_DIR}/tests/install
    KOLO_LIBRARY=$<TARGET_FILE:kolo>
    KOLORUN=$<TARGET_FILE:kolorun> KOLO_TORCH_EXAMPLES=${bindings}/torch/examples OMP_NUM_THREADS=1)

# add_program_test(NAME COMMAND...)
function(add_program_test name)
    add_test(NAME torch.${name} COMMAND ${ARGN})
    set_tests_properties(torch.${name} PROPERTIES LABELS "bindings;torch" TIMEOUT 600 SKIP_RETURN_CODE 77
                         ENVIRONMENT "${program_environment}")
endfunction()

add_program_test(hvd ${KOLO_TORCH_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/torch_hvd_test.py)
set_tests_properties(torch.hvd PROPERTIES ${half_busy})

# What needs the backend of torch.distributed.
if(KOLO_TORCH_FOUND)
    add_program_test(hooks ${KOLO_TORCH_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/torch_hooks_test.py)
    set(programs Training HuggingFace Ray Torchft Tutorial)
    if(KOLO_MACHINES)
        add_program_test(nodes ${KOLO_TORCH_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/torch_nodes_test.py)
        set_tests_properties(torch.nodes PROPERTIES ${half_busy})
        label_tests(machines TESTS torch.nodes)
    endif()
endif()

foreach(program LightGbm Jax ${programs})
    add_program_test(examples.${program} ${KOLO_TORCH_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/programs_test.py ${program})
    set_tests_properties(torch.examples.${program} PROPERTIES ${half_busy})
endforeach()
if(KOLO_TORCH_FOUND)
    set_tests_properties(torch.examples.Tutorial PROPERTIES TIMEOUT 1500) # of minutes beside load
endif()
