# The Debian packages that cpack makes of a build in /usr (the preset "debian"): libkolo and the soname's version,
# libkolo-dev, kolo-tools, kolo-mpi, python3-kolo and python3-kolo-torch, each an installation component. debian_files.cmake
# adds what Debian asks of every package.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CONTACT "kolo maintainers <maintainers@users.noreply.a-seed-0122e00a.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own, the first line of its description
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL lib dev)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SOURCE kolo)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(control ${CMAKE_BINARY_DIR}/packages.control) # files of packages' control archives
set(same_version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(what "kolo is a C library for all-reduce and the other collectives between the
processes of one many-core machine, or of a few. They share memory: no
daemon, no port to choose, no MPI to install.
")

get_target_property(soversion kolo SOVERSION)
set(library_package libkolo${soversion})
set(CPACK_DEBIAN_LIB_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIB_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA ${control}/lib/shlibs ${control}/lib/triggers)
file(WRITE ${control}/lib/triggers "activate-noawait ldconfig\n") # CMake 3.25 calls ldconfig instead
file(WRITE ${control}/lib/shlibs "libkolo ${soversion} ${library_package} ${same_version}\n")
set(CPACK_COMPONENT_LIB_DESCRIPTION "collectives between processes of one machine
${what}
This package has the shared library.")

set(needed "${library_package} ${same_version}")
if(KOLO_URING)
    string(APPEND needed ", liburing-dev")
endif()
get_directory_property(have_sodium DIRECTORY lib DEFINITION have_sodium)
if(have_sodium)
    string(APPEND needed ", libsodium-dev")
endif()
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libkolo-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${needed}")
set(CPACK_COMPONENT_DEV_DESCRIPTION "collectives between processes of one machine, for development
${what}
This package has the headers, the static library, what pkg-config and CMake
need to find kolo, and the manual pages of the functions.")

if(KOLO_TOOLS)
    list(APPEND CPACK_COMPONENTS_ALL tools)
    set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME kolo-tools)
    set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
    set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${library_package} ${same_version}")
    set(CPACK_COMPONENT_TOOLS_DESCRIPTION "programs that start, measure and watch jobs of kolo
${what}
This package has kolorun, which starts a job; kolo-info, kolo-top, kolo-trace
and kolo-tune, which show a machine and its jobs and measure what is fastest
there; kolo-perf and kolo-simulate, which measure and predict; and kolo-train,
an example.")
endif()

if(KOLO_MPI)
    list(APPEND CPACK_COMPONENTS_ALL mpi)
    set(CPACK_DEBIAN_MPI_PACKAGE_NAME kolo-mpi)
    set(CPACK_DEBIAN_MPI_PACKAGE_SECTION utils)
    set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_MPI_PACKAGE_SUGGESTS "openmpi-bin | mpich, kolo-tools")
    set(CPACK_COMPONENT_MPI_DESCRIPTION "collectives between processes of one machine, for MPI programs
${what}
This package has a library that MPI programs preload, as they are, and
kolo-mpi, which starts them so. Open MPI, MPICH, Intel MPI and MPIs with the
standard ABI have kolo's collectives then.")
endif()

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-kolo)
set(CPACK_DEBIAN_PYTHON_PACKAGE_PROVIDES python3-kolo4py) # Debian's name for what has that module
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "python3:any (>= 3.9), ${library_package} (>= ${PROJECT_VERSION}), ${library_package} (<< ${PROJECT_VERSION}.)")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS python3-numpy)
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "collectives between processes of one machine, for Python
${what}
This package is for programs in Python. Arrays of NumPy and PyTorch are taken
as they are.")
list(APPEND CPACK_COMPONENTS_ALL python)

# With Debian's PyTorch only: a shared object is for one minor version of it, and for one version of Python.
get_directory_property(torch_includes DIRECTORY lib/bindings/torch DEFINITION torch_includes)
if(KOLO_TORCH_FOUND AND torch_includes MATCHES "^/usr/lib/python3/dist-packages/")
    get_directory_property(torch_version DIRECTORY lib/bindings/torch DEFINITION torch_version)
    string(REGEX MATCH "^([0-9]+)[.]([0-9]+)" torch_minor "${torch_version}")
    math(EXPR torch_next "${CMAKE_MATCH_2} + 1")
    set(torch_next ${CMAKE_MATCH_1}.${torch_next})
    get_directory_property(python_version DIRECTORY lib/bindings/torch DEFINITION Python3_VERSION)
    string(REGEX MATCH "^[0-9]+[.][0-9]+" python_minor "${python_version}")
    list(APPEND CPACK_COMPONENTS_ALL torch)
    set(CPACK_DEBIAN_TORCH_PACKAGE_NAME python3-kolo-torch)
    set(CPACK_DEBIAN_TORCH_PACKAGE_SECTION python)
    set(CPACK_DEBIAN_TORCH_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_TORCH_PACKAGE_DEPENDS "python3-kolo ${same_version}, ${library_package} ${same_version}, \
python3 (>= ${python_minor}), python3-torch (>= ${torch_minor}), \
python3-torch (<< ${torch_next}~)")
    set(CPACK_COMPONENT_TORCH_DESCRIPTION "collectives between processes of one machine, for PyTorch
${what}
This package has a backend of torch.distributed for tensors on the CPU, made for
Debian's PyTorch, and takes the place of Gloo there.")
endif()

# As dh_python3 writes them: bytecode comes and goes with the package.
foreach(component python torch)
    string(TOUPPER ${component} upper)
    set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${control}/${component}/postinst ${control}/${component}/prerm)
    file(WRITE ${control}/${component}/postinst "#!/bin/sh
set -e
if [ \"$1\" = configure ] && command -v py3compile >/dev/null 2>&1; then
    py3compile -p ${package}
fi
")
    file(WRITE ${control}/${component}/prerm "#!/bin/sh
set -e
if command -v py3clean >/dev/null 2>&1; then
    py3clean -p ${package}
fi
")
endforeach()

set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/tools/packages/debian_files.cmake)
set(CPACK_KOLO_SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}) # for that script
set(CPACK_KOLO_LIBRARY_DIR ${CMAKE_INSTALL_FULL_LIBDIR})
include(CPack)
