/* The Python module: the class Backend, which kolo4py/torch/__init__.py registers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backend.h"

#include <pybind11/chrono.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;
using kolo_torch::KoloBackend;

PYBIND11_MODULE(KOLO_TORCH_MODULE, module) {
    module.doc() = "The backend of torch.distributed, in C++.";
    py::module_::import("torch.distributed"); /* has the class that this one is derived from */
    using Release = py::call_guard<py::gil_scoped_release>;
    py::module_::import("atexit").attr("register")(py::cpp_function(&kolo_torch::Watcher::halt_all, Release()));
    py::class_<KoloBackend, c10::intrusive_ptr<KoloBackend>, kolo_torch::Base>(module, "Backend",
                                                                               "kolo for a process group.")
        .def(py::init([](const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                         std::chrono::milliseconds timeout, std::vector<uint64_t> global_ranks) {
                 return c10::make_intrusive<KoloBackend>(kolo_torch::meet(store, rank, size, timeout), timeout,
                                                         std::move(global_ranks));
             }),
             py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
             py::arg("global_ranks") = std::vector<uint64_t>(), Release(),
             "Makes a communicator with the other ranks, which find each other by the store. Global ranks are those of "
             "the members in the whole job.")
        .def_property_readonly(
            "comm", [](const KoloBackend &self) { return reinterpret_cast<uintptr_t>(self.comm()); },
            "The address of the kolo_comm, which lives until the group is destroyed.")
#if KOLO_TORCH(2, 7)
        .def_property_readonly("options", &KoloBackend::getBackendOptions, "With the timeout.")
#endif
        .def_property_readonly("buffers", &KoloBackend::buffers, "How many buffers allocate_tensor has made so far.")
        .def_readwrite("supports_coalescing", &KoloBackend::supports_coalescing,
                       "Whether batch_isend_irecv returns one work for all its messages.")
        /* What the base class of some versions lacks. */
        .def("set_timeout", &KoloBackend::setTimeout, py::arg("timeout"), Release(),
             "Changes how long this rank waits for another one in the group's operations, also in those that wait "
             "already.")
        .def("abort", &KoloBackend::abort, Release(), "Breaks the group for all ranks.")
        .def("shutdown", &KoloBackend::shutdown, Release(), "Leaves the group; later calls fail.")
#if !KOLO_TORCH(2, 9)
        .def("allocate_tensor",
             [](KoloBackend &self, int64_t numel, py::object dtype) {
                 auto *type = reinterpret_cast<THPDtype *>(dtype.ptr());
                 py::gil_scoped_release release;
                 return self.allocateTensor(numel, at::TensorOptions(type->scalar_type));
             })
#endif
        ;
}
