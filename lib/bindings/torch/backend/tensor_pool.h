/* Tensors in memory of kolo_alloc, which all ranks have mapped: operations on them copy nothing into slots.
 *
 * kolo_alloc and kolo_free are made by all ranks at the same place among their calls, but tensors end whenever the
 * program forgets them. So a buffer is not given back, but used again, when all ranks have it free: they agree on that
 * by a small all-reduce at each allocation. Buffers are numbered in the order in which they were made, which is the
 * same on all ranks. They are freed with the communicator, which each tensor keeps alive.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#pragma once

#include <mutex>
#include <vector>

#include "communicator.h"

namespace kolo_torch {

class TensorPool : public std::enable_shared_from_this<TensorPool> {
  public:
    /* A tensor of so many elements; in ordinary memory if it is empty, if ranks ask for different sizes, or if there is
     * no room. Every rank calls it; blocks until all have. */
    at::Tensor allocate(const std::shared_ptr<Communicator> &communicator, int64_t numel,
                        const at::TensorOptions &options);
    uint64_t buffers() const;

  private:
    struct Buffer {
        void *address;
        size_t bytes;
        bool is_free;
    };
    /* Of the first 64 buffers of that size a bit each: it is free. */
    uint64_t free_ones(size_t bytes, std::vector<size_t> &numbers) const;

    mutable std::mutex mutex_; /* tensors end in any thread */
    std::vector<Buffer> buffers_;
};

} // namespace kolo_torch
