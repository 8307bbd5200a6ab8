# Run by cpack between installing and packing: brings what lies in a component's folder into the form that Debian asks
# for, and writes the files that every package has in /usr/share/doc.
cmake_policy(VERSION 3.25)
if(NOT CPACK_KOLO_LIBRARY_DIR MATCHES "^/usr/lib/")
    message(FATAL_ERROR "the build is not for Debian packages, as its libraries go to ${CPACK_KOLO_LIBRARY_DIR}: "
                        "configure it with the preset debian, or with -DCMAKE_INSTALL_PREFIX=/usr")
endif()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # or SOURCE_DATE_EPOCH
string(TIMESTAMP year "%Y" UTC)
set(package_changelog "kolo (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}: changelog.gz beside this file has its changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
set(copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: kolo

Files: *
Copyright: ${year}, the kolo authors
License: Apache-2.0
 On Debian systems, the full text of the Apache License version 2.0 is in the
 file /usr/share/common-licenses/Apache-2.0.
")
set(guides_dev README.md SECURITY.md)
set(guides_tools tools/README.md tools/MACHINES.md tools/packages/README.md tools/train/README.md)
set(guides_mpi lib/bindings/mpi/README.md)
set(guides_python lib/bindings/python/README.md)
set(guides_torch lib/bindings/torch/README.md)

set(examples_dev *.c)
set(examples_python *.py)

function(compress)
    execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(component ${CPACK_COMPONENTS_ALL})
    string(TOUPPER ${component} upper)
    set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
    set(doc ${root}/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})

    # Programs of a package find the library where the system's loader does.
    file(GLOB programs ${root}/bin/*)
    foreach(program ${programs})
        if(NOT component STREQUAL mpi) # has a script
            file(RPATH_REMOVE FILE ${program})
        endif()
    endforeach()

    file(WRITE ${doc}/copyright "${copyright}")
    file(WRITE ${doc}/changelog.Debian "${package_changelog}")
    configure_file(${CPACK_KOLO_SOURCE_DIR}/CHANGELOG.md ${doc}/changelog COPYONLY)
    foreach(guide ${guides_${component}})
        string(REGEX REPLACE "^(tools|lib/bindings/[a-z]+)/" "" name ${guide}) # those of tools/ link to each other
        configure_file(${CPACK_KOLO_SOURCE_DIR}/${guide} ${doc}/${name} COPYONLY)
    endforeach()
    if(DEFINED examples_${component})
        file(GLOB examples ${CPACK_KOLO_SOURCE_DIR}/tools/examples/${examples_${component}})
        file(COPY ${examples} DESTINATION ${doc}/examples)
    endif()
    file(GLOB_RECURSE pages ${root}/share/man/*)
    compress(${doc}/changelog ${doc}/changelog.Debian ${pages})
endforeach()
