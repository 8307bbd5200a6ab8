# Nodes that are network namespaces of this machine (lab.py), and what is tested between them. 77: not allowed here.
# Serial, as times are measured.
if(NOT KOLO_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    foreach(script lab relay)
        add_test(NAME net.${script} COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/${script}_test.py)
        set_tests_properties(net.${script} PROPERTIES LABELS net TIMEOUT 120 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
    endforeach()
endif()
