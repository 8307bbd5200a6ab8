# Build with musl, by Debian's musl-tools; tests run as they are:
#   cmake -S . -B build-musl --toolchain tests/toolchain-musl.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER musl-gcc)

# The kernel's headers are this machine's; musl's own come before them.
file(GLOB kernel_headers LIST_DIRECTORIES true /usr/include/*-linux-gnu)
list(TRANSFORM kernel_headers PREPEND "-idirafter ")
list(JOIN kernel_headers " " CMAKE_C_FLAGS_INIT)
string(PREPEND CMAKE_C_FLAGS_INIT "-idirafter /usr/include ")

# Libraries of this machine are glibc's.
set(CMAKE_FIND_ROOT_PATH /usr/lib/musl)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
